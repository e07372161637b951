# SPDX-License-Identifier: Apache-2.0
"""What holds for every benchmark found by walking: what no run of it may pass for a measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import Benchmark, ParsedRun, RawOutput, check_exit, check_measurements
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome
from tests.bench.unit.test_all_benchmarks import FACTS
from tests.support.bench import REQUIRED
from tests.support.cases import CASES, adapters, expected, name, raw_output, tool_of

ALL = all_benchmarks()
GOOD = [case for case in CASES if expected(case).measurements]
#: One good case of each tool, to be given to all the others.
SAMPLES = list({tool_of(case): case for case in GOOD}.values())
#: Tools whose end nothing in their output marks: a last block, or row, is like those before it.
NO_END_MARK = ("schbench", "mangohud")
EVERY = pytest.mark.parametrize("benchmark_", ALL.values(), ids=list(ALL))


@dataclass(frozen=True)
class Run:
    """A recorded run that can be changed."""

    benchmark: Benchmark
    case: Path

    @classmethod
    def of(cls, case: Path) -> Run:
        return cls(ALL[expected(case).benchmark], case)

    def judged(self, raw: RawOutput) -> dict[str, float]:
        check_exit(raw)
        parsed = self.benchmark.parse(raw, expected(self.case).parameters)
        check_measurements(self.benchmark.outcomes, parsed)
        return {measurement.outcome: measurement.value for measurement in parsed.measurements}


def cut(raw: RawOutput, share: float) -> RawOutput:
    """All that was left behind, up to a share of each."""
    files = {name: data[: int(len(data) * share)] for name, data in raw.files.items()}
    stdout, stderr = (data[: int(len(data) * share)] for data in (raw.stdout, raw.stderr))
    return msgspec.structs.replace(raw, stdout=stdout, stderr=stderr, files=files)


@pytest.mark.parametrize("case", GOOD, ids=name)
def test_the_end_of_the_program_decides(case: Path) -> None:
    run, raw = Run.of(case), raw_output(case)
    assert run.judged(raw)
    for ended in (
        {"exit_status": 1},
        {"exit_status": None, "signal": 9},
        {"exit_status": 0, "timed_out": True},
        {"exit_status": None, "failed": "no such program"},
        {"exit_status": 0, "cut": True},
    ):
        with pytest.raises(BadRun):
            run.judged(msgspec.structs.replace(raw, **ended))


@pytest.mark.parametrize("case", GOOD, ids=name)
def test_a_truncated_output_is_no_other_measurement(case: Path) -> None:
    """It fails, or what is read from it is what the whole says."""
    run, raw = Run.of(case), raw_output(case)
    whole = run.judged(raw)
    failures = 0
    for percent in range(0, 100, 5):
        try:
            found = run.judged(cut(raw, percent / 100))
        except BadRun:
            failures += 1
            continue
        if tool_of(case) not in NO_END_MARK:
            assert found.items() <= whole.items(), f"at {percent} %"
    assert failures >= 5


@pytest.mark.parametrize("name_", [one.name for many in adapters().values() for one in many])
def test_the_output_of_another_tool_is_refused(name_: str) -> None:
    benchmark_ = ALL[name_]
    (tool,) = (tool for tool, many in adapters().items() if benchmark_ in many)
    parameters = {**benchmark_.parameters, **REQUIRED.get(name_, {})}
    wanted = benchmark_.invocation(parameters, FACTS).files
    others = [case for case in SAMPLES if tool_of(case) != tool]
    assert len(others) >= 7
    for case in others:
        raw = raw_output(case)
        foreign = [raw.stdout, raw.stderr, *raw.files.values()]
        for data in foreign:
            given = RawOutput(stdout=data, stderr=data, files=dict.fromkeys(wanted, data), exit_status=0)
            with pytest.raises(BadRun):
                check_measurements(benchmark_.outcomes, benchmark_.parse(given, benchmark_.parameters))


@EVERY
def test_what_was_not_declared_fails(benchmark_: Benchmark) -> None:
    (first, *_) = benchmark_.outcomes
    good = Measurement(outcome=first.name, value=first.high, original="as printed")
    check_measurements(benchmark_.outcomes, ParsedRun(measurements=(good,)))
    other = Measurement(outcome="never-declared", value=first.high, original="as printed")
    for measurements in ((), (other,), (good, other), (good, good)):
        with pytest.raises(BadRun):
            check_measurements(benchmark_.outcomes, ParsedRun(measurements=measurements))


def passes(outcomes: tuple[Outcome, ...], outcome: Outcome, value: float) -> bool:
    measurement = Measurement(outcome=outcome.name, value=value, original=f"{value}")
    try:
        check_measurements(outcomes, ParsedRun(measurements=(measurement,)))
    except BadRun:
        return False
    return True


@EVERY
def test_the_limits_of_every_outcome(benchmark_: Benchmark) -> None:
    for outcome in benchmark_.outcomes:
        assert math.isfinite(outcome.low)
        assert math.isfinite(outcome.high)
        assert passes(benchmark_.outcomes, outcome, outcome.low), outcome.name
        assert passes(benchmark_.outcomes, outcome, outcome.high), outcome.name
        outside = (math.nextafter(outcome.low, -math.inf), math.nextafter(outcome.high, math.inf))
        for value in (*outside, math.nan, math.inf, -math.inf):
            assert not passes(benchmark_.outcomes, outcome, value), f"{outcome.name} {value}"
        if outcome.kind != "score":
            assert not passes(benchmark_.outcomes, outcome, -1e-9), outcome.name
