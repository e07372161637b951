# SPDX-License-Identifier: Apache-2.0
"""cpython-loop: how fast the system's Python interpreter runs a fixed loop."""

from __future__ import annotations

import hashlib
import pkgutil

from ktrial.bench.adapters._tool import Program, ToolBenchmark, whole
from ktrial.bench.adapters.cpython_loop.output import read_loop_run
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import outcome
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome

_PROGRAM_FILE = "loop.py.txt"
#: Result of a loop on every machine; CPython 3.9 to 3.13 agree on it.
_RESULT = 11_785_336_761_223_612_239
#: Typical seconds of a loop.
_LOOP_S = 0.05
_BLIND = (
    "One thread that stays in user space and in the caches: clocks, boost, idle states and the build of Python matter, "
    "the kernel hardly does. "
)
_PROGRAM = Program(
    needs=("python3",),
    packages={"apt": "python3", "dnf": "python3", "pacman": "python", "zypper": "python3"},
    version=("python3", "--version"),
    version_pattern=r"Python (\S+)",
)


def _outcome(name: str, which: str, blind: str, *, headline: bool = False) -> Outcome:
    return outcome(
        name,
        "s",
        "time",
        f"{which} takes [less|more] time.",
        _BLIND + blind,
        (1e-4, 600.0),
        resolution=1e-9,
        headline=headline,
    )


_OUTCOMES = (
    _outcome("loop-time", "On average, a loop of fixed work", "A pause in one loop is spread over all.", headline=True),
    _outcome("loop-time-best", "The fastest loop of fixed work", "Does not show what disturbs only some loops."),
    _outcome("loop-time-worst", "The slowest loop of fixed work", "A single loop decides, so it varies widely."),
)


def _text() -> bytes:
    text = pkgutil.get_data(__package__ or "", _PROGRAM_FILE)
    assert text is not None, f"{_PROGRAM_FILE} lies beside the adapter"
    return text


def _command(parameters: Parameters) -> Invocation:
    loops = whole(parameters, "loops", 1, 1_000_000)
    expected_s = loops * _LOOP_S
    return Invocation(
        argv=("python3", "-I", "-S", "-", str(loops)),
        stdin=_text(),
        limit_s=min(20 * expected_s + 60, 80_000.0),
        expected_s=expected_s,
    )


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_loop_run(raw.stdout)
    if run.implementation != "cpython":
        raise BadRun(
            f"expected CPython as python3, got {run.implementation}", hint="install CPython as /usr/bin/python3"
        )
    if run.results != (_RESULT,):
        found = ", ".join(str(result) for result in run.results)
        raise BadRun(
            f"expected the result {_RESULT}, got {found}: this machine or its Python miscalculates",
            hint="install another CPython as /usr/bin/python3",
        )
    loops = whole(parameters, "loops")
    if len(run.times_ns) != loops:
        raise BadRun(f"expected {loops} timed loops, got {len(run.times_ns)}", hint="run the benchmark again")
    values = {
        "loop-time": (sum(run.times_ns) / loops, f"{sum(run.times_ns)} ns in {loops} loops"),
        "loop-time-best": (min(run.times_ns), f"{min(run.times_ns)} ns"),
        "loop-time-worst": (max(run.times_ns), f"{max(run.times_ns)} ns"),
    }
    return ParsedRun(
        measurements=tuple(
            Measurement(outcome=name, value=value / 1e9, original=original)
            for name, (value, original) in values.items()
        ),
        tool_version=f"CPython {run.version}, program {hashlib.sha256(_text()).hexdigest()[:12]}",
        details={"times_ns": list(run.times_ns)},
    )


BENCHMARK = ToolBenchmark(
    name="cpython-loop",
    what="Time of a fixed loop of pure Python (integers, floats, lists, a dict, calls) in the system's CPython.",
    program=_PROGRAM,
    outcomes=_OUTCOMES,
    parameters={"loops": 100},
    command=_command,
    reader=_read,
)
