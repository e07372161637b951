# SPDX-License-Identifier: Apache-2.0
"""X-Plane: frames per second in its own frame rate test, with a movie or a replayed flight."""

from __future__ import annotations

from functools import partial

from ktrial.bench.adapters._tool import (
    VERSION_LIMIT_S,
    Program,
    ToolBenchmark,
    collected,
    display_environment,
    everywhere,
    matching,
    whole,
)
from ktrial.bench.adapters.xplane.output import NO_FRAMES, STAGES, read_xplane, stage_outcome
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, Probe, RawOutput
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement

_LOG = "Log.txt"
#: X-Plane overwrites the log beside its program at each start; an older log belongs to another run.
_SCRIPT = """\
PATH=/usr/bin:/bin
: > started
"$@"
status=$?
log="${1%/*}/Log.txt"
[ ! "$log" -nt started ] || cp "$log" Log.txt
exit "$status"
"""
_PROGRAM = "/[^\\x00-\\x1f]+"
_REPLAY = "[^\\x00-\\x1f]+"
_EXAMPLE = "/games/X-Plane 12/X-Plane-x86_64"
#: X-Plane loads for minutes before the test begins.
_LOADING_S = 120.0
_LIMIT_S = 3600.0


def _command(parameters: Parameters, *, replays: bool) -> Invocation:
    program = matching(parameters, "program", _PROGRAM, _EXAMPLE)
    argv = [program, f"--fps_test={whole(parameters, 'test', 1, 999)}"]
    if replays or parameters["replay"]:
        example, what = "Output/replays/test_flight_c4.fdr", "a path below X-Plane's folder"
        argv.append(f"--load_smo={matching(parameters, 'replay', _REPLAY, example, what)}")
    return Invocation(
        # Otherwise the weather and the time of day are random.
        argv=("sh", "-c", _SCRIPT, "xplane", *argv, "--weather_seed=1", "--time_seed=1"),
        environment=display_environment(parameters),
        limit_s=_LIMIT_S,
        expected_s=None if replays else 90.0 + _LOADING_S,
        files=(_LOG,),
    )


def _read(raw: RawOutput, _: Parameters, *, stages: int) -> ParsedRun:
    if _LOG not in raw.files:
        raise BadRun(
            "X-Plane exited with status 0 but wrote no Log.txt",
            hint="set the parameter program to the path of X-Plane",
        )
    log = read_xplane(collected(raw, _LOG), _LOG)
    if len(log.stages) != stages:
        raise BadRun(
            f"{_LOG}: expected {stages} stages of the frame rate test, got {len(log.stages)}",
            hint="use xplane-replay for a flight (.fdr), and xplane for a movie (.smo) or the built-in test",
        )
    return ParsedRun(
        measurements=tuple(
            Measurement(outcome=name, value=stage.frames / stage.time.value, original=f"{stage.fps.original} fps")
            for (name, _), stage in zip(STAGES[stages], log.stages, strict=True)
        ),
        tool_version=log.version,
        details={
            "frames": [stage.frames for stage in log.stages],
            "gpu_load_percent": [stage.gpu_load_percent for stage in log.stages],
        },
        notes=(NO_FRAMES,),
    )


def _probe(parameters: Parameters) -> Invocation:
    return Invocation(argv=("test", "-x", str(parameters["program"])), limit_s=VERSION_LIMIT_S)


def _benchmark(name: str, what: str, stages: int, *, replays: bool) -> ToolBenchmark:
    return ToolBenchmark(
        name=name,
        what=what,
        program=Program(needs=("sh", "test", "cp"), packages=everywhere("coreutils")),
        outcomes=tuple(stage_outcome(outcome) for outcome, _ in STAGES[stages]),
        parameters={"program": "", "test": 3, "replay": "", "display": ":0", "authority": ""},
        command=partial(_command, replays=replays),
        reader=partial(_read, stages=stages),
        probe=Probe(
            invocation=_probe,
            why_not=lambda raw: None if raw.exit_status == 0 else "the path of X-Plane is not set, or not a program",
            next="set the path: -p 'program=/games/X-Plane 12/X-Plane-x86_64'",
        ),
    )


BENCHMARKS = (
    _benchmark(
        "xplane",
        "Frames per second of X-Plane's own test: 30 s with the panel, 30 s without it, 30 s paused.",
        3,
        replays=False,
    ),
    _benchmark(
        "xplane-replay", "Frames per second of a flight (.fdr) that X-Plane replays as a test.", 1, replays=True
    ),
)
