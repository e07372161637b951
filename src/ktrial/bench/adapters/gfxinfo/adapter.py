# SPDX-License-Identifier: Apache-2.0
"""Frames of an app on an Android phone, as the app's own renderer logs them."""

from __future__ import annotations

import math

from ktrial.bench.adapters._tool import Program, ToolBenchmark, command_line, matching, whole
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import latency, outcome
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.outcome import Measurement
from ktrial.recordings.frames.android import DrawnFrames, read_framestats
from ktrial.recordings.frames.statistics import nearest

_SHELL = "/system/bin/sh"
_END = b"=ktrial end\n"
#: Android keeps 120 frames of a window, so the script fetches them before a fast screen has drawn more.
_SCRIPT = """\
package=$1 activity=$2 looks=$3
shift 3
[ -z "$activity" ] || am start -W -n "$activity" >/dev/null || exit
dumpsys gfxinfo "$package" reset >/dev/null || exit
while [ "$looks" -gt 0 ]; do
    [ $# -eq 0 ] || input "$@" || exit
    sleep 0.5
    dumpsys gfxinfo "$package" framestats || exit
    looks=$((looks - 1))
done
echo "=ktrial end"
"""
_LOOKS_PER_S = 2
#: With fewer frames than this there are no statistics.
_LEAST_FRAMES = 100
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_BLIND = (
    "From when the screen asked for the frame until the app's renderer had completed it; not when it was shown. Frames "
    "that Android marks as unusual (the first of a window) are left out. Fetching the frames twice a second costs CPU "
    "time on the phone, alike in all arms. Games that draw by themselves have no such frames."
)


def _quantile(suffix: str) -> str:
    return "longest frame" if suffix == "max" else f"frame at the {suffix[1:]}th percentile"


_OUTCOMES = (
    *(
        latency(
            f"frame-time-{suffix}",
            f"The {_quantile(suffix)} takes [less|more] time.",
            _BLIND + (" The maximum grows with the number of frames." if suffix == "max" else ""),
            resolution=1e-6,
            headline=suffix == "p99",
        )
        for suffix in _QUANTILES
    ),
    outcome(
        "late-frame-share",
        "ratio",
        "score",
        "[Fewer|More] frames are not ready when the screen needs the next one.",
        _BLIND,
        (0.0, 1.0),
    ),
)


def _command(parameters: Parameters) -> Invocation:
    package = matching(parameters, "package", r"[A-Za-z][\w]*(?:\.[A-Za-z][\w]*)+", "com.android.settings")
    activity = matching(parameters, "activity", r"(?:[\w.]+/[\w.$]+)?", "com.android.settings/.Settings")
    seconds = whole(parameters, "seconds", 1, 3600)
    return Invocation(
        argv=(
            _SHELL,
            "-c",
            _SCRIPT,
            "frames",
            package,
            activity,
            str(seconds * _LOOKS_PER_S),
            *command_line(parameters, "touch"),
        ),
        limit_s=10.0 * seconds + 60,
        expected_s=float(seconds),
    )


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    if not raw.stdout.endswith(_END):
        raise BadRun("the output is cut off: its last line is missing", hint="run the benchmark again")
    if b"No process found for:" in raw.stdout:
        raise BadRun(
            f"the app {parameters['package']} is not running",
            hint="start the app on the phone",
        )
    frames = read_framestats(raw.stdout.removesuffix(_END), "framestats")
    if len(frames.times_s) < _LEAST_FRAMES:
        scroll = "make the app scroll: -p touch='swipe 500 1500 500 500 300'"
        raise BadRun(
            f"too few frames: {len(frames.times_s)} (minimum {_LEAST_FRAMES})",
            hint="raise the parameter seconds" if parameters["touch"] else scroll,
        )
    interval_s = _interval(frames, parameters)
    ordered = sorted(frames.times_s)
    late = sum(time_s > interval_s for time_s in ordered)
    found = {f"frame-time-{suffix}": nearest(ordered, share) for suffix, share in _QUANTILES.items()}
    shares = Measurement(
        outcome="late-frame-share",
        value=late / len(ordered),
        original=f"{late} of {len(ordered)} frames took longer than {interval_s * 1e3:.4g} ms",
    )
    missed = 0 if frames.rendered is None else frames.rendered - len(ordered) - frames.flagged
    return ParsedRun(
        measurements=(
            *(
                Measurement(outcome=name, value=value, original=f"{value * 1e3:.6g} ms")
                for name, value in found.items()
            ),
            shares,
        ),
        details={"frames": len(ordered), "flagged": frames.flagged, "rendered": frames.rendered},
        notes=(f"Android dropped {missed} of {frames.rendered} frames before ktrial fetched them",)
        if missed > 0
        else (),
    )


def _interval(frames: DrawnFrames, parameters: Parameters) -> float:
    rate = parameters["refresh_hz"]
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not (rate == 0 or 1 <= rate <= 1000):
        raise BadInput(
            f"parameter refresh_hz: expected 1 to 1000, or 0 to ask Android, got {rate!r}",
            hint="for example -p refresh_hz=60",
        )
    if rate:
        return 1 / float(rate)
    if frames.interval_s is None or not math.isfinite(frames.interval_s):
        raise BadRun(
            "this Android does not print the refresh rate of the screen", hint="set the rate: -p refresh_hz=60"
        )
    return frames.interval_s


BENCHMARK = ToolBenchmark(
    name="gfxinfo",
    what="Frame times of an app on an Android phone, while a gesture repeats; use --host adb.",
    program=Program(needs=(_SHELL, "/system/bin/dumpsys")),
    outcomes=_OUTCOMES,
    parameters={"package": "", "activity": "", "seconds": 10, "touch": "", "refresh_hz": 0},
    command=_command,
    reader=_read,
)
