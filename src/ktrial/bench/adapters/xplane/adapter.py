# SPDX-License-Identifier: Apache-2.0
"""X-Plane: frames a second in its own frame rate test, of a movie or of a flight that is replayed."""

from __future__ import annotations

from functools import partial

from ktrial.bench.adapters._tool import VERSION_LIMIT_S, Program, ToolBenchmark, collected, matching, whole
from ktrial.bench.adapters.xplane.output import read_xplane
from ktrial.bench.adapters.xplane.xplane_test import NO_FRAMES, STAGES, stage_outcome
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, Probe, RawOutput
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement

_LOG = "Log.txt"
#: X-Plane writes its log beside itself, and anew at each start; one that is older is another run's.
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
#: It loads for minutes before the test begins.
_LOADING_S = 120.0
_LIMIT_S = 3600.0


def _command(parameters: Parameters, *, replays: bool) -> Invocation:
    program = matching(parameters, "program", _PROGRAM, _EXAMPLE)
    argv = [program, f"--fps_test={whole(parameters, 'test', 1, 999)}"]
    if replays or parameters["replay"]:
        example = "Output/replays/test_flight_c4.fdr, below X-Plane's folder"
        argv.append(f"--load_smo={matching(parameters, 'replay', _REPLAY, example)}")
    display = matching(parameters, "display", r"[A-Za-z0-9.-]*:\d{1,5}(?:\.\d{1,2})?", ":0")
    authority = matching(parameters, "authority", r"(?:/\S+)?", "/run/user/1000/xauthority")
    return Invocation(
        # The weather and the time of day are by chance otherwise.
        argv=("sh", "-c", _SCRIPT, "xplane", *argv, "--weather_seed=1", "--time_seed=1"),
        environment={"DISPLAY": display, **({"XAUTHORITY": authority} if authority else {})},
        limit_s=_LIMIT_S,
        expected_s=None if replays else 90.0 + _LOADING_S,
        files=(_LOG,),
    )


def _read(raw: RawOutput, _: Parameters, *, stages: int) -> ParsedRun:
    if _LOG not in raw.files:
        raise BadRun(
            "X-Plane ended well but wrote no Log.txt", hint="give program as the path that X-Plane is installed at"
        )
    log = read_xplane(collected(raw, _LOG), _LOG)
    if len(log.stages) != stages:
        raise BadRun(
            f"{_LOG} tells of {len(log.stages)} stages of the frame rate test; a whole one has {stages}",
            hint="a flight (.fdr) has one: xplane-replay; a movie (.smo) and the built-in test have three: xplane",
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


def _invocation(parameters: Parameters) -> Invocation:
    return Invocation(argv=("test", "-x", str(parameters["program"])), limit_s=VERSION_LIMIT_S)


def _why_not(raw: RawOutput) -> str | None:
    return None if raw.exit_status == 0 else "where X-Plane is installed was not told, or nothing can be run there"


def _benchmark(name: str, what: str, stages: int, *, replays: bool) -> ToolBenchmark:
    return ToolBenchmark(
        name=name,
        what=what,
        program=Program(
            needs=("sh", "test", "cp"), packages=dict.fromkeys(("apt", "dnf", "pacman", "zypper"), "coreutils")
        ),
        outcomes=tuple(stage_outcome(outcome) for outcome, _ in STAGES[stages]),
        parameters={"program": "", "test": 3, "replay": "", "display": ":0", "authority": ""},
        command=partial(_command, replays=replays),
        reader=partial(_read, stages=stages),
        probe=Probe(invocation=_invocation, why_not=_why_not, next=f"name it: -p 'program={_EXAMPLE}'"),
    )


BENCHMARKS = (
    _benchmark(
        "xplane",
        "Frames a second of X-Plane's own test: 30 s with the panel, 30 s without it, 30 s paused.",
        3,
        replays=False,
    ),
    _benchmark("xplane-replay", "Frames a second of a flight (.fdr) that X-Plane replays as a test.", 1, replays=True),
)
