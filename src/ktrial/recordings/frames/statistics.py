# SPDX-License-Identifier: Apache-2.0
"""Frame statistics: outcomes computed from the time of each frame, each with its definition.

Other tools compute names such as "1 % low" in many ways, so a number means nothing without its definition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ktrial.judge.model.stutter import NEIGHBOURS, STUTTER_FACTOR, STUTTER_S, usual
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.outcome import Direction, Measurement, Outcome, OutcomeKind, Unit

#: MangoHud options that capture every frame. They come last, so that they override the user's options. `read_cfg` keeps
#: the user's file in force, as a frame limit is part of the measurement. MangoHud 0.7 logs only what it shows.
CAPTURE_OPTIONS = "read_cfg,autostart_log=1,log_interval=0,no_display=0"
#: With fewer frames than this there are no statistics.
LEAST_FRAMES = 100
#: Default frame rate below which frames are slow.
BELOW_FPS = 25.0
#: Definition of the share of slow frames.
SLOW_FRAMES = (
    f"Frames that took longer than a frame at below_fps frames a second (default {BELOW_FPS:g}), divided by all frames."
)

_LOG = (
    "The time between frames handed to the driver, as the program sees it, not as the screen shows them. Says nothing "
    "about input latency; a frame limiter or vertical sync hides anything faster. "
)
_AROUND = f"the median of the {NEIGHBOURS} frames before it and the {NEIGHBOURS} after it"
_STUTTER = f"more than {STUTTER_FACTOR:g} times {_AROUND}, and more than {STUTTER_S * 1e3:g} ms"


class Capture(msgspec.Struct, frozen=True):
    """A frame log that a run wrote, and its file name."""

    name: str
    data: bytes


class FrameOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A frame statistic: the outcome, its definition, and the number of frames that it needs."""

    outcome: Outcome
    definition: str
    needs_frames: int = LEAST_FRAMES


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A missing statistic, and why it is missing."""

    outcome: str
    why: str


class FrameStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of some frames. `logged_s` is their total time."""

    frames: int
    logged_s: float
    measurements: tuple[Measurement, ...]
    left_out: tuple[LeftOut, ...]


class FrameSamples(msgspec.Struct, frozen=True, kw_only=True):
    """Sampled frame rates, each with the time that it represents.

    With `of_frames` each sample is the rate of one frame, otherwise a mean over some time.
    """

    made_by: str
    fps: tuple[float, ...]
    stood_s: tuple[float, ...]
    version: str | None = None
    of_frames: bool = False
    attributes: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()


class FrameReport(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one log over all counted `frames`; `left_out` lists statistics that need more frames."""

    file: str
    kind: Literal["mangohud", "xplane", "samples"]
    version: str | None
    frames: int
    logged_s: float
    measurements: tuple[Measurement, ...]
    outcomes: tuple[FrameOutcome, ...]
    left_out: tuple[LeftOut, ...] = ()
    details: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()


def below_rate(value: object, name: str) -> float:
    """Return a limit for slow frames in frames per second. Raise BadInput, naming the option or key `name`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 1000:
        raise BadInput(
            f"{name}: expected 1 to 1000 frames per second, got {value!r}",
            hint="for example 25, the default",
        )
    return float(value)


def slow_share(times_s: Sequence[float], below_fps: float, kind: str = "frame") -> Measurement:
    slow = sum(time_s > 1 / below_fps for time_s in times_s)
    original = f"{slow} of {len(times_s)} {kind}s took longer than {1e3 / below_fps:.4g} ms"
    return Measurement(outcome="slow-frame-share", value=slow / len(times_s), original=original)


def frame_statistics(times_s: Sequence[float], below_fps: float = BELOW_FPS) -> FrameStatistics:
    """Return the outcomes of FRAME_OUTCOMES for which there are enough frames.

    Raise BadRun for fewer than LEAST_FRAMES frames, or for a time that is not finite and above 0.
    """
    if len(times_s) < LEAST_FRAMES:
        raise BadRun(
            f"too few frames for frame statistics: {len(times_s)} (minimum {LEAST_FRAMES})",
            hint="log for longer",
        )
    wrong = next((time_s for time_s in times_s if not (math.isfinite(time_s) and time_s > 0)), None)
    if wrong is not None:
        raise BadRun(
            f"a frame time is {wrong:g} s, expected a finite number above 0",
            hint="check that the log contains frame times",
        )
    share = slow_share(times_s, below_fps)
    found = {name: _measurement(_OUTCOMES[name], value) for name, value in _values(times_s).items()}
    found[share.outcome] = share
    enough = [one for one in FRAME_OUTCOMES if len(times_s) >= one.needs_frames]
    return FrameStatistics(
        frames=len(times_s),
        logged_s=math.fsum(times_s),
        measurements=tuple(found[one.outcome.name] for one in enough),
        left_out=tuple(
            LeftOut(outcome=one.outcome.name, why=f"needs {one.needs_frames} frames, there are {len(times_s)}")
            for one in FRAME_OUTCOMES
            if one not in enough
        ),
    )


def sampled_statistics(samples: FrameSamples, below_fps: float | None = None) -> tuple[Measurement, ...]:
    """Return the mean frame rate and, if the samples are single frames, the share of slow samples.

    Raise BadRun for fewer than two samples, BadInput for a `below_fps` if samples are not single frames.
    """
    if len(samples.fps) < 2:
        raise BadRun(
            f"a mean needs 2 samples of the frame rate, but the log has {len(samples.fps)}", hint="log for longer"
        )
    if below_fps is not None and not samples.of_frames:
        raise BadInput(
            "cannot use --below-fps: the samples of this log are not single frames",
            hint="leave out --below-fps",
        )
    weighted = math.fsum(fps * stood for fps, stood in zip(samples.fps, samples.stood_s, strict=True))
    mean = weighted / math.fsum(samples.stood_s)
    found = [Measurement(outcome=SAMPLED_FPS.outcome.name, value=mean, original=f"{mean:.6g} 1/s")]
    if samples.of_frames:
        rate = BELOW_FPS if below_fps is None else below_fps
        slow = sum(fps < rate for fps in samples.fps)
        original = f"{slow} of {len(samples.fps)} samples were below {rate:g} 1/s"
        share = slow / len(samples.fps)
        found.append(Measurement(outcome=SLOW_SAMPLES.outcome.name, value=share, original=original))
    return tuple(found)


def _values(times_s: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times_s)
    total_s = math.fsum(ordered)
    excess_s = [
        time_s - usual_s for time_s, usual_s in zip(times_s, usual(times_s), strict=True) if is_stutter(time_s, usual_s)
    ]
    return {
        "fps": len(ordered) / total_s,
        "frame-time-mean": total_s / len(ordered),
        "frame-time-p50": nearest(ordered, 0.5),
        "frame-time-p99": nearest(ordered, 0.99),
        "frame-time-p999": nearest(ordered, 0.999),
        "frame-time-max": ordered[-1],
        "one-percent-low": low(ordered, 0.01),
        "tenth-percent-low": low(ordered, 0.001),
        "stutters": float(len(excess_s)),
        "stutter-rate": len(excess_s) / total_s,
        "late-time": math.fsum(excess_s) / total_s,
    }


def nearest(ordered: Sequence[float], fraction: float) -> float:
    """Return a quantile by nearest rank: the smallest value that at least `fraction` of all values do not exceed."""
    return ordered[max(1, math.ceil(fraction * len(ordered) - 1e-9)) - 1]


def low(ordered: Sequence[float], share: float) -> float:
    """Return the frame rate of the slowest `share` of the sorted frame times. Round the number of frames up."""
    slowest = ordered[-math.ceil(share * len(ordered) - 1e-9) :]
    return len(slowest) / math.fsum(slowest)


def is_stutter(time_s: float, usual_s: float) -> bool:
    return time_s > STUTTER_FACTOR * usual_s and time_s > STUTTER_S


def _measurement(outcome: Outcome, value: float) -> Measurement:
    shown = f"{value * 1e3:.6g} ms" if outcome.unit == "s" else f"{value:.6g} {outcome.unit}"
    return Measurement(outcome=outcome.name, value=value, original=shown)


def _outcome(
    name: str, unit: Unit, kind: OutcomeKind, direction: Direction, what: str, blind_spots: str = ""
) -> Outcome:
    return Outcome(
        name=name,
        unit=unit,
        kind=kind,
        direction=direction,
        low=0,
        high={"s": 600.0, "1/s": 1e5, "ratio": 1.0}.get(unit, 1e9),
        better=f"{what} became {'lower' if direction == 'lower' else 'higher'}.",
        worse=f"{what} became {'higher' if direction == 'lower' else 'lower'}.",
        blind_spots=(_LOG + blind_spots).strip(),
        headline=name == "frame-time-p99",
    )


def _time(name: str, what: str, kind: OutcomeKind, blind_spots: str = "") -> Outcome:
    return _outcome(name, "s", kind, "lower", what, blind_spots)


_MEAN_HIDES = (
    "A mean hides stutter: a hundred even frames and ninety fast ones with ten slow ones can have the same mean."
)
_LENGTH = "Depends on the length and content of the log: compare the same route of the same length."

FRAME_OUTCOMES: tuple[FrameOutcome, ...] = (
    FrameOutcome(
        outcome=_time(
            "frame-time-p99",
            "The time within which 99 of 100 frames came",
            "latency-quantile",
            "Ignores how slow the slowest 1 % are.",
        ),
        definition="The smallest frame time with at least 99 % of all frames at or below it (nearest rank, not "
        "interpolated).",
    ),
    FrameOutcome(
        outcome=_outcome("fps", "1/s", "rate", "higher", "The average frame rate", _MEAN_HIDES),
        definition="Frames divided by their time: 1 / mean frame time. Not the mean of each frame's own rate, which "
        "fast frames raise.",
    ),
    FrameOutcome(
        outcome=_time("frame-time-mean", "The mean time of a frame", "time", _MEAN_HIDES),
        definition="Sum of all frame times divided by their number.",
    ),
    FrameOutcome(
        outcome=_time("frame-time-p50", "The time within which half of the frames came", "latency-quantile"),
        definition="The smallest frame time with at least half of all frames at or below it.",
    ),
    FrameOutcome(
        outcome=_time("frame-time-p999", "The time within which 999 of 1000 frames came", "latency-quantile", _LENGTH),
        definition="The smallest frame time with at least 99.9 % of all frames at or below it.",
        needs_frames=1000,
    ),
    FrameOutcome(
        outcome=_time("frame-time-max", "The longest frame", "time", "This is a single frame. " + _LENGTH),
        definition="The longest frame time.",
    ),
    FrameOutcome(
        outcome=_outcome("one-percent-low", "1/s", "rate", "higher", "The frame rate of the slowest 1 % of frames"),
        definition="1 / mean of the slowest 1 % of the frame times (rounded up to whole frames). Other tools use this "
        "name for other statistics, most often a percentile.",
        needs_frames=500,
    ),
    FrameOutcome(
        outcome=_outcome(
            "tenth-percent-low", "1/s", "rate", "higher", "The frame rate of the slowest 0.1 % of frames", _LENGTH
        ),
        definition="1 / mean of the slowest 0.1 % of the frame times (rounded up to whole frames).",
        needs_frames=5000,
    ),
    FrameOutcome(
        outcome=_outcome("stutters", "count", "count", "lower", "The number of stutters", _LENGTH),
        definition=f"Frames that took {_STUTTER}.",
    ),
    FrameOutcome(
        outcome=_outcome("stutter-rate", "1/s", "rate", "lower", "The number of stutters a second"),
        definition="Stutters divided by the time of all frames.",
    ),
    FrameOutcome(
        outcome=_outcome("late-time", "ratio", "score", "lower", "The share of the time lost in stutters"),
        definition=f"The sum of the time of stutters beyond {_AROUND}, divided by the time of all frames.",
    ),
    FrameOutcome(
        outcome=_outcome("slow-frame-share", "ratio", "score", "lower", "The share of slow frames"),
        definition=SLOW_FRAMES,
    ),
)
_OUTCOMES = {one.outcome.name: one.outcome for one in FRAME_OUTCOMES}
ONLY_SAMPLES = "the log samples the frame rate, which gives a mean, but no quantiles, lows or stutters"
_SAMPLES = "Samples hide what happens between them: they show no longest frame, no 1 % low and no stutters."
#: The only statistic of every log of samples.
SAMPLED_FPS = FrameOutcome(
    outcome=_outcome("sampled-fps", "1/s", "rate", "higher", "The average of the sampled frame rates", _SAMPLES),
    definition="The mean of the sampled rates, each weighted by the time that it represents.",
    needs_frames=2,
)
#: An additional statistic of samples that are single frames.
SLOW_SAMPLES = FrameOutcome(
    outcome=_outcome("slow-sample-share", "ratio", "score", "lower", "The share of slow samples", _SAMPLES),
    definition=f"Samples whose frame was slower than below_fps frames a second (default {BELOW_FPS:g}), "
    "divided by all samples: a share of the time, not of the frames.",
    needs_frames=2,
)
