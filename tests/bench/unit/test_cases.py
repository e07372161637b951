# SPDX-License-Identifier: Apache-2.0
"""Golden cases: real output of a tool, what it must come to, and how that was derived without the parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import ParsedRun, check_exit, check_measurements
from ktrial.kit.errors import BadRun
from tests.support.cases import CASES, adapters, expected, name, raw_output, tool_of

BENCHMARKS = all_benchmarks()


def judged(case: Path) -> ParsedRun:
    """What a runner does with an output, in its order."""
    wanted = expected(case)
    benchmark = BENCHMARKS[wanted.benchmark]
    raw = raw_output(case)
    check_exit(raw)
    run = benchmark.parse(raw, wanted.parameters)
    check_measurements(benchmark.outcomes, run)
    return run


@pytest.mark.parametrize("case", CASES, ids=name)
def test_case(case: Path) -> None:
    wanted = expected(case)
    if wanted.error is not None:
        assert wanted.measurements is None
        with pytest.raises(BadRun) as caught:
            judged(case)
        assert wanted.error in caught.value.message
        return
    run = judged(case)
    found = {measurement.outcome: measurement.value for measurement in run.measurements}
    assert found == pytest.approx(wanted.measurements, rel=1e-12, abs=0)
    assert run.tool_version == wanted.tool_version
    assert list(run.notes) == wanted.notes
    assert all(measurement.original for measurement in run.measurements)


def test_every_case_says_how_it_was_derived() -> None:
    for case in CASES:
        why = (case / "why").read_text(encoding="utf-8")
        assert len(why.split()) >= 5, name(case)
        assert why.count("\n") == 1, f"{name(case)}: one line"
        assert (case / "command").read_text(encoding="utf-8").strip(), name(case)


@pytest.mark.parametrize("tool", sorted(adapters()))
def test_every_tool_has_a_good_and_a_bad_case(tool: str) -> None:
    cases = [expected(case) for case in CASES if tool_of(case) == tool]
    assert any(case.error for case in cases)
    assert any(case.measurements for case in cases)


def test_cases_lie_with_their_adapter() -> None:
    for case in CASES:
        names = {benchmark.name for benchmark in adapters()[tool_of(case)]}
        assert expected(case).benchmark in names, name(case)


def test_cases_are_found() -> None:
    assert len(adapters()) >= 8
    assert len(CASES) >= 120
