# SPDX-License-Identifier: Apache-2.0
"""The state of a watch for a live view: pressures, the phase, and stutters with their likely cause.

A likely cause was active during the stutter. Only a diagnosis can show whether it was active more often than by chance.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping, Sequence

import msgspec

from ktrial.recordings.growing import GrowingRecording
from ktrial.recordings.watching import MachineView, TracedEvent
from ktrial.watch.diagnosis.symptoms import Symptom
from ktrial.watch.record.watch_moment import LateFrames, LateOne, Track, WatchMoment

#: Counters whose growth distinguishes the phases, if the kernel has them.
TELLING = (
    *("vmstat.pgscan_kswapd", "vmstat.pgscan_direct", "vmstat.pgsteal_kswapd", "vmstat.pgsteal_direct"),
    *("vmstat.pgalloc_dma32", "vmstat.pgalloc_normal", "vmstat.pgfault", "vmstat.pgmajfault"),
)
PRESSURES = {name: f"pressure.{name}.some" for name in ("cpu", "memory", "io")}
RUN_DELAY = "trace.run-delay.time"
#: Columns that the agent reports every second.
SHOWN = (*PRESSURES.values(), "memory.MemAvailable", RUN_DELAY, *TELLING)
_SCANNED = ("vmstat.pgscan_kswapd", "vmstat.pgscan_direct")
_KEPT_S = 60
_STUTTERS = 5
_EVENTS = 5000
#: Seconds between two searches for the phase, and before the first search.
_PHASE_EVERY_S = 60.0
_PHASE_FROM_S = 60.0
#: With more moments, every second one is dropped; the counters stay exact.
_MOMENTS = 7200
#: Pressure above this share is reported as the cause if there is no event.
_PRESSED = 0.3
_UNTRACED = "events are not traced"
_NOT_YET = "pending"


class LiveWatch:
    """Collects an agent's reports and summarises them for display."""

    def __init__(self, symptoms: Mapping[str, Symptom], *, program: bool, frames_told: bool = False) -> None:
        self._symptoms = symptoms
        self._program = program
        self._frames_told = frames_told
        self._growing = GrowingRecording()
        self._late = LateFrames()
        self._started_ns: int | None = None
        self._seen: deque[MachineView] = deque(maxlen=_KEPT_S + 1)
        self._counters: list[tuple[float, tuple[float | None, ...]]] = []
        self._events: deque[TracedEvent] = deque(maxlen=_EVENTS)
        self._slow: Counter[int] = Counter()
        self._blocks_until_s = 0.0
        self._last: deque[LateOne] = deque(maxlen=_STUTTERS)
        self._told = 0
        self._phase: tuple[str, float] | None = None
        self._phase_looked_s = 0.0

    def seen(self, seen: MachineView) -> None:
        self._started_ns = seen.started_ns
        self._seen.append(seen)
        at_s = self._seconds(seen.at_ns)
        values = tuple(float(seen.columns[name]) if name in seen.columns else None for name in TELLING)
        self._counters.append((at_s, values))
        if len(self._counters) > _MOMENTS:
            del self._counters[1::2]
        if at_s >= _PHASE_FROM_S and at_s - self._phase_looked_s >= _PHASE_EVERY_S:
            self._phase_looked_s = at_s
            self._phase = self._find_phase(at_s)

    @property
    def why_untraced(self) -> str | None:
        return self._growing.why_untraced

    def handed(self, data: bytes) -> None:
        grown = self._growing.feed(data)
        if self._started_ns is None:
            self._started_ns = self._growing.started_ns
        self._told += len(grown.events)
        self._events += grown.events
        for event in grown.events:
            if event.kind == "block-io":
                self._slow[int(self._seconds(event.begin_ns + (event.length_ns or 0)))] += 1
        if self._seen:
            self._blocks_until_s = self._seconds(self._seen[-1].at_ns)
            for second in [one for one in self._slow if one < self._blocks_until_s - 2 * _KEPT_S]:
                del self._slow[second]
        if not self._frames_told:
            self.frames([one / 1e9 for one in grown.ends_ns], [one / 1e9 for one in grown.durations_ns])
        self._explain()

    def frames(self, ends_s: Sequence[float], durations_s: Sequence[float]) -> None:
        zero_s = (self._started_ns or 0) / 1e9
        for begin_s, end_s in self._late.feed(ends_s, durations_s):
            self._last.append(LateOne(at_s=begin_s - zero_s, took_s=end_s - begin_s, cause=_NOT_YET))

    def _explain(self) -> None:
        """Find the cause of stutters whose events have arrived; the agent sends these every few seconds."""
        zero_s = (self._started_ns or 0) / 1e9
        for place, one in enumerate(self._last):
            if one.cause != _NOT_YET:
                continue
            begin_s, end_s = zero_s + one.at_s, zero_s + one.at_s + one.took_s
            found = self._likely(begin_s, end_s)
            if found is None and one.at_s + one.took_s < self._blocks_until_s:
                found = self._pressed(begin_s, end_s)
            if found is not None:
                self._last[place] = msgspec.structs.replace(one, cause=found[0], shown_by=found[1])

    def moment(self, head_cpu_s: float) -> WatchMoment | None:
        if not self._seen:
            return None
        now = self._seen[-1]
        length_s = self._seconds(now.at_ns)
        available = now.columns.get("memory.MemAvailable")
        name, since_s = self._phase or (None, 0.0)
        return WatchMoment(
            length_s=length_s,
            tracks=self._tracks(now),
            phase=name,
            phase_since_s=since_s,
            frames=self._late.frames,
            frame_kind="frame" if self._frames_told else "wake-up",
            stutters=self._late.count,
            last=tuple(self._last),
            available_bytes=available,
            events=self._told,
            lost=now.lost,
            bytes=now.bytes,
            cost=now.cost,
            head_cost=head_cpu_s / max(length_s, 1e-9),
        )

    def _seconds(self, at_ns: int) -> float:
        return (at_ns - (self._started_ns or 0)) / 1e9

    def _tracks(self, now: MachineView) -> tuple[Track, ...]:
        untraced = _UNTRACED if now.lost is None else None
        unknown = None if RUN_DELAY in now.columns else "ktrial cannot distinguish threads here"
        nobody = untraced or (unknown if self._program else "no program is watched")
        pressures = tuple(
            Track(
                name=f"{name} pressure",
                unit="share",
                values=self._growth((column,), 1e6),
                why_not=None if column in now.columns else "not reported by this kernel",
            )
            for name, column in PRESSURES.items()
        )
        return (
            *pressures,
            Track(name="reclaim", unit="pages", values=self._growth(_SCANNED, 1.0)),
            Track(name="slow I/O", unit="requests", values=self._slow_io(), why_not=untraced),
            Track(name="run delay", unit="delay", values=self._growth((RUN_DELAY,), 1e9), why_not=nobody),
        )

    def _growth(self, names: Sequence[str], per_unit: float) -> tuple[float | None, ...]:
        """Return the total growth per second of these counters, from each report to the next."""
        found: list[float | None] = []
        looks = list(self._seen)
        for before, after in itertools.pairwise(looks):
            known = [name for name in names if name in before.columns and name in after.columns]
            took_s = (after.at_ns - before.at_ns) / 1e9
            grown = sum(after.columns[name] - before.columns[name] for name in known)
            found.append(grown / per_unit / took_s if known and took_s > 0 and grown >= 0 else None)
        return tuple(found)

    def _slow_io(self) -> tuple[float | None, ...]:
        """Return the number of slow requests that ended in each second; None for seconds after the last blocks."""
        now_s = int(self._seconds(self._seen[-1].at_ns))
        seconds = range(max(0, now_s - len(self._seen) + 1), now_s)
        return tuple(float(self._slow[one]) if one < self._blocks_until_s else None for one in seconds)

    def _likely(self, begin_s: float, end_s: float) -> tuple[str, str] | None:
        """Return the cause with the event that overlaps longest, preferring events that hit the frame thread."""
        best: tuple[bool, float, str, TracedEvent] | None = None
        for event in self._events:
            took_s = (event.length_ns or 0) / 1e9
            from_s = event.begin_ns / 1e9
            for symptom in self._symptoms.values():
                overlap_s = min(end_s, from_s + took_s + symptom.lag_s) - max(begin_s, from_s)
                if overlap_s < 0 or not _shows(symptom, event, took_s):
                    continue
                found = (event.victim is True, overlap_s, symptom.name, event)
                if best is None or found[:2] > best[:2]:
                    best = found
        if best is None:
            return None
        event = best[3]
        length = f" {event.length_ns / 1e6:.1f} ms" if event.length_ns is not None else ""
        where = f" of {event.thread}" if event.thread else f" on {event.device}" if event.device else ""
        return best[2], f"{event.kind}{length}{where}"

    def _pressed(self, begin_s: float, end_s: float) -> tuple[str, str]:
        """Return the highest pressure of these seconds, if it is high, as the cause of a stutter without events."""
        looks = list(self._seen)
        shares = {name: self._growth((column,), 1e6) for name, column in PRESSURES.items()}
        highest, named = _PRESSED, ""
        for place, (before, after) in enumerate(itertools.pairwise(looks)):
            if before.at_ns / 1e9 < end_s and after.at_ns / 1e9 > begin_s:
                for name, values in shares.items():
                    share = values[place]
                    if share is not None and share > highest:
                        highest, named = share, name
        if named:
            return f"pressure on {named}", f"{highest:.0%} of that second"
        untraced = bool(self._seen) and self._seen[-1].lost is None
        return ("unknown", _UNTRACED) if untraced else ("nothing that is traced", "")

    def _find_phase(self, now_s: float) -> tuple[str, float] | None:
        """Return name and start of the current phase."""
        import numpy as np

        from ktrial.judge.stats.phases import find_phases

        times = np.array([at_s for at_s, _ in self._counters])
        rates = []
        for place, name in enumerate(TELLING):
            values = np.array([np.nan if row[place] is None else row[place] for _, row in self._counters])
            rates.append((name, times[1:], np.diff(values) / np.diff(times)))
        found = find_phases(rates, float(times[0]), now_s).phases[-1]
        return found.name, found.begin_s


def _shows(symptom: Symptom, event: TracedEvent, took_s: float) -> bool:
    return any(event.kind in one.events and took_s >= one.least_s for one in symptom.happening)
