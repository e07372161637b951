# SPDX-License-Identifier: Apache-2.0
"""Figures of a whole recording or of its phases, for comparison with another recording.

If the recording lacks the data for a figure, the figure has a reason instead of a number, never 0.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import fsum, isnan

import msgspec

from ktrial.judge.model.stutter import NEIGHBOURS, STUTTER_FACTOR, STUTTER_S, usual
from ktrial.kit.outcome import Measurement, Outcome, OutcomeKind, Unit
from ktrial.recordings.frames.statistics import BELOW_FPS, SLOW_FRAMES, LeftOut, is_stutter, slow_share
from ktrial.recordings.model import Event, Recording, Series

#: Begin and end in seconds.
Span = tuple[float, float]
#: Devices that pass requests on to others, which count them.
PASSING_ON = ("loop", "dm-", "md", "zram", "ram", "nbd", "sr")
_USUAL = f"{STUTTER_FACTOR:g} times the median of the {NEIGHBOURS} on each side of it and {STUTTER_S * 1e3:g} ms"
_DIRTY = "memory.Dirty"
_SESSION = "Depends on the session: compare the same route, level or load."
_WAKE_UPS = (
    "Without a frame log, wake-ups of an agent thread (60 a second) stand for frames: they show what delays every "
    "thread, not what the program itself waits for. "
)


class WatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The measured figures, and the missing figures with reasons."""

    measurements: tuple[Measurement, ...]
    left_out: tuple[LeftOut, ...]


def _figure(name: str, unit: Unit, kind: OutcomeKind, what: str, definition: str, blind_spots: str = "") -> Outcome:
    """Return an outcome. Its blind spots begin with the definition, so that reports show it beside the value."""
    return Outcome(
        name=name,
        unit=unit,
        kind=kind,
        direction="lower",
        low=0,
        high={"ratio": 1.0, "s": 3600.0}.get(unit, 1e16),
        better=f"{what} decreased.",
        worse=f"{what} increased.",
        blind_spots=f"{definition} {blind_spots}{_SESSION}",
        headline=name == "stutter-rate",
    )


WHOLE: tuple[Outcome, ...] = (
    _figure(
        "stutter-rate",
        "1/s",
        "count",
        "The rate of stutters",
        f"Frames that took more than {_USUAL}, or more than limit_ms if given, divided by the time.",
        _WAKE_UPS,
    ),
    _figure(
        "late-share",
        "ratio",
        "count",
        "The share of time lost in stutters",
        "The time of stutters beyond that median, or beyond limit_ms, divided by the time.",
        _WAKE_UPS,
    ),
    _figure(
        "allocation-stalls",
        "1/s",
        "count",
        "The rate of waits for memory",
        "Growth of allocstall of all zones in /proc/vmstat divided by the time, of all programs.",
    ),
    _figure(
        "frame-reclaim",
        "ratio",
        "count",
        "The time in which the frame thread reclaimed memory",
        "Time that the frame thread (the program's first) spent in direct reclaim, divided by the time.",
        "Needs root. ",
    ),
    _figure(
        "slow-io",
        "1/s",
        "count",
        "The rate of slow requests to block devices",
        "Requests that took 5 ms or longer from issue to completion, divided by the time, of all programs and devices.",
        "Needs root. ",
    ),
    _figure(
        "write-latency",
        "s",
        "time",
        "The mean time of a write request",
        "Growth of the time of writes divided by the growth of their number, of all devices in /proc/diskstats that "
        "pass nothing on to others (no loop, dm, md, zram).",
        "A mean hides the slow requests. ",
    ),
    _figure(
        "write-latency-max",
        "s",
        "time",
        "The largest mean time of a write request between two samples",
        "The largest of the same means between two consecutive samples.",
        "It is one moment of the session and still a mean, which hides a slow request among fast ones. ",
    ),
    _figure(
        "written",
        "B",
        "count",
        "The number of bytes written",
        "Growth of the bytes written to the same devices.",
        "A longer session writes more: compare equal lengths. ",
    ),
    _figure(
        "dirty-mean",
        "B",
        "size",
        "The amount of memory that waits to be written",
        "Mean of Dirty in /proc/meminfo over the time.",
        "Counts the files of all programs. If it is large, a power cut loses more; if it is small, writing began "
        "earlier. ",
    ),
    _figure(
        "slow-frame-share",
        "ratio",
        "count",
        "The share of slow frames",
        SLOW_FRAMES,
        _WAKE_UPS,
    ),
)
#: Phases that have figures of their own, and the prefix of their names.
PHASES: Mapping[str, str] = {"warm-up": "warm-up.", "ramp-up": "ramp-up.", "steady state": "steady."}
WATCH_OUTCOMES: tuple[Outcome, ...] = (
    *WHOLE,
    *(
        msgspec.structs.replace(
            one,
            name=f"{prefix}{one.name}",
            headline=False,
            blind_spots=f"Covers only the phase {phase}. {one.blind_spots}",
        )
        for phase, prefix in PHASES.items()
        for one in WHOLE
    ),
)


def wanted_series(name: str) -> bool:
    last = name.rpartition(".")[2]
    of_disk = name.startswith("disks.") and last in {"writes", "write_time", "written"}
    return of_disk or name.startswith("vmstat.allocstall") or name == _DIRTY


def watch_figures(
    recording: Recording,
    spans: Sequence[Span] | None = None,
    *,
    limit_s: float | None = None,
    below_fps: float = BELOW_FPS,
    frame_thread: int | None = None,
    prefix: str = "",
) -> WatchFigures:
    """Return all figures of the stretches `spans`, by default of the whole recording.

    The names of the figures begin with `prefix`. A frame is late if it takes longer than `limit_s` or, without a limit,
    much longer than its neighbours. `frame_thread` is the thread whose delays count; without it, the recording says
    which events were delays.
    """
    stretches = [(recording.begin_s, recording.end_s)] if spans is None else sorted(spans)
    length_s = fsum(end_s - begin_s for begin_s, end_s in stretches)
    if length_s <= 0:
        nothing = [LeftOut(outcome=f"{prefix}{one.name}", why="the recording has no length") for one in WHOLE]
        return WatchFigures(measurements=(), left_out=tuple(nothing))
    look = _Look(recording, stretches, length_s)
    found: dict[str, Measurement | str] = {
        **look.late(limit_s),
        "slow-frame-share": look.slow_frames(below_fps),
        "allocation-stalls": look.stalls(),
        **look.traced(frame_thread),
        **look.writes(),
        "dirty-mean": look.dirty(),
    }
    return WatchFigures(
        measurements=tuple(
            msgspec.structs.replace(one, outcome=f"{prefix}{name}")
            for name, one in found.items()
            if isinstance(one, Measurement)
        ),
        left_out=tuple(
            LeftOut(outcome=f"{prefix}{name}", why=why) for name, why in found.items() if isinstance(why, str)
        ),
    )


_NO_FRAMES = "the recording has no frames or wake-ups"
_SAMPLED = "the frames are samples: `ktrial frames` shows their mean"


class _Look:
    """Computes the figures of some stretches of a recording."""

    def __init__(self, recording: Recording, spans: Sequence[Span], length_s: float) -> None:
        self._recording = recording
        self._spans = spans
        self._length_s = length_s

    def late(self, limit_s: float | None) -> dict[str, Measurement | str]:
        frames = self._recording.frames
        if frames is None or not len(frames.ends_s):
            return {"stutter-rate": _NO_FRAMES, "late-share": _NO_FRAMES}
        if frames.stands_for is not None:
            return {"stutter-rate": _SAMPLED, "late-share": _SAMPLED}
        durations_s = frames.durations_s.tolist()
        around_s = usual(durations_s) if limit_s is None else [limit_s] * len(durations_s)
        late = []
        for end_s, took_s, around in zip(frames.ends_s, durations_s, around_s, strict=True):
            is_late = took_s > limit_s if limit_s is not None else is_stutter(took_s, around)
            if is_late and self._holds(end_s) and not self._in_gap(end_s - took_s, end_s):
                late.append(took_s - around)
        lost_s = fsum(late)
        return {
            "stutter-rate": self._over_time("stutter-rate", len(late), f"stutters of {frames.kind}s"),
            "late-share": Measurement(
                outcome="late-share",
                value=min(1.0, lost_s / self._length_s),
                original=f"{lost_s:.6g} s in {self._length_s:.6g} s",
            ),
        }

    def slow_frames(self, below_fps: float) -> Measurement | str:
        frames = self._recording.frames
        if frames is None or not len(frames.ends_s):
            return _NO_FRAMES
        if frames.stands_for is not None:
            return _SAMPLED
        moments = zip(frames.ends_s, frames.durations_s.tolist(), strict=True)
        inside = [took_s for end_s, took_s in moments if self._holds(end_s) and not self._in_gap(end_s - took_s, end_s)]
        if not inside:
            return f"no {frames.kind} ended in this time"
        return slow_share(inside, below_fps, frames.kind)

    def dirty(self) -> Measurement | str:
        series = self._recording.series.get(_DIRTY)
        if series is None:
            return f"the recording lacks {_DIRTY}"
        seen = [
            value
            for at_s, value in zip(series.times_s, series.values, strict=True)
            if self._holds(at_s) and not isnan(value)
        ]
        if not seen:
            return f"{_DIRTY} was not read"
        original = f"{fsum(seen) / len(seen):.0f} B, the mean of {len(seen)} samples"
        return Measurement(outcome="dirty-mean", value=fsum(seen) / len(seen), original=original)

    def stalls(self) -> Measurement | str:
        names = [name for name in self._recording.series if name.startswith("vmstat.allocstall")]
        grown = [self._grown(self._recording.series[name]) for name in names]
        known = [one for one in grown if one is not None]
        if not names or len(known) < len(grown):
            return "the recording lacks vmstat.allocstall" if not names else "vmstat.allocstall fell or was not read"
        return self._over_time("allocation-stalls", fsum(known), "allocation stalls")

    def traced(self, frame_thread: int | None) -> dict[str, Measurement | str]:
        trace = self._recording.source("trace")
        if trace is None or trace.state != "active":
            why = (
                "events were not traced"
                if trace is None or trace.why is None
                else f"events were not traced ({trace.why})"
            )
            return {"frame-reclaim": why, "slow-io": why}
        if trace.lost:
            why = f"{trace.lost} events were lost"
            return {"frame-reclaim": why, "slow-io": why}
        inside = [event for event in self._recording.events if self._holds(event.begin_s)]
        slow = sum(event.kind == "block-io" for event in inside)
        threads = self._recording.source("trace.threads")
        known = frame_thread is not None or "process" in self._recording.machine
        hit = [event for event in inside if event.kind == "direct-reclaim" and _is_victim(event, frame_thread)]
        lost_s = fsum(event.duration_s or 0.0 for event in hit)
        reclaim: Measurement | str = (
            f"threads were not distinguished ({threads.why})"
            if threads is not None and threads.state != "active"
            else "no program was watched"
            if not known
            else Measurement(
                outcome="frame-reclaim",
                value=min(1.0, lost_s / self._length_s),
                original=f"{len(hit)} times, {lost_s:.6g} s in {self._length_s:.6g} s",
            )
        )
        return {"frame-reclaim": reclaim, "slow-io": self._over_time("slow-io", slow, "slow requests")}

    def writes(self) -> dict[str, Measurement | str]:
        series = self._recording.series
        devices = [
            name.split(".")[1]
            for name in series
            if name.startswith("disks.") and name.endswith(".writes") and not name.split(".")[1].startswith(PASSING_ON)
        ]
        if not devices:
            return dict.fromkeys(("write-latency", "write-latency-max", "written"), "the recording has no block device")
        sums: dict[str, float] = {}
        for what in ("writes", "write_time", "written"):
            grown = [self._grown(series[name]) for one in devices if (name := f"disks.{one}.{what}") in series]
            known = [one for one in grown if one is not None]
            if known:
                sums[what] = fsum(known)
        latency: Measurement | str
        if not {"writes", "write_time"} <= sums.keys():
            latency = "the recording has fewer than two samples of a disk"
        elif sums["writes"] <= 0:
            latency = "nothing was written"
        elif sums["write_time"] <= 0:
            latency = f"{sums['writes']:.0f} writes took less than the kernel's resolution of a millisecond"
        else:
            original = f"{sums['write_time']:.6g} s of {sums['writes']:.0f} writes"
            mean_s = sums["write_time"] / sums["writes"]
            latency = Measurement(outcome="write-latency", value=mean_s, original=original)
        written: Measurement | str = "the recording has fewer than two samples of the bytes written"
        if "written" in sums:
            written = Measurement(outcome="written", value=sums["written"], original=f"{sums['written']:.0f} B")
        largest = latency if isinstance(latency, str) else self._largest_latency(devices)
        return {"write-latency": latency, "write-latency-max": largest, "written": written}

    def _largest_latency(self, devices: Sequence[str]) -> Measurement | str:
        found = [
            (took_s / count, took_s, count)
            for device in devices
            for count, took_s in self._steps(f"disks.{device}.writes", f"disks.{device}.write_time")
            if count > 0
        ]
        if not found:
            return "no write request ended between two samples"
        mean_s, took_s, count = max(found)
        original = f"{took_s:.6g} s of {count:.0f} writes between two samples"
        return Measurement(outcome="write-latency-max", value=mean_s, original=original)

    def _steps(self, *names: str) -> Iterator[tuple[float, ...]]:
        """Yield by how much the counters grew between two samples, unless a counter fell or was not read."""
        series = [self._recording.series[name] for name in names if name in self._recording.series]
        if len(series) < len(names):
            return
        for before, after in pairwise(range(len(series[0].times_s))):
            ends_s = series[0].times_s[after]
            if not any(begin_s < ends_s <= end_s for begin_s, end_s in self._spans):
                continue
            grown = tuple(self._step(one, before, after) for one in series)
            if all(one >= 0 for one in grown):
                yield grown

    @staticmethod
    def _step(series: Series, before: int, after: int) -> float:
        if series.kind == "counter":
            return series.values[after] - series.values[before]
        return series.values[after] * (series.times_s[after] - series.times_s[before])

    def _over_time(self, name: str, count: float, what: str) -> Measurement:
        hourly = count * 3600 / self._length_s
        original = f"{count:.0f} {what} in {self._length_s:.6g} s ({hourly:.4g} an hour)"
        return Measurement(outcome=name, value=count / self._length_s, original=original)

    def _holds(self, at_s: float) -> bool:
        return any(begin_s <= at_s <= end_s for begin_s, end_s in self._spans)

    def _in_gap(self, begin_s: float, end_s: float) -> bool:
        return any(gap.begin_s <= end_s and gap.end_s >= begin_s for gap in self._recording.gaps)

    def _grown(self, series: Series) -> float | None:
        """Return by how much a counter grew or a rate added up; None if a counter fell or the series was not read."""
        total, seen = 0.0, False
        for begin_s, end_s in self._spans:
            first = max(0, bisect_right(series.times_s, begin_s) - 1)
            last = bisect_left(series.times_s, end_s)
            last = last + 1 if last < len(series.times_s) and series.times_s[last] == end_s else last
            moments = zip(series.times_s[first:last], series.values[first:last], strict=True)
            known = [(at_s, value) for at_s, value in moments if not isnan(value)]
            for (before_s, before), (after_s, after) in pairwise(known):
                if series.kind == "counter" and after < before:
                    return None
                total += after - before if series.kind == "counter" else after * (after_s - before_s)
                seen = True
        return total if seen else None


def _is_victim(event: Event, frame_thread: int | None) -> bool:
    return event.pid == frame_thread if frame_thread is not None else event.victim is True
