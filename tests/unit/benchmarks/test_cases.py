# SPDX-License-Identifier: Apache-2.0
"""Golden cases: real output of a tool, what it must come to, and how that was derived without the parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import ktrial.benchmarks
from ktrial.benchmarks import all_benchmarks, tools
from ktrial.domain.benchmark import ParsedRun, RawOutput, check_exit, check_measurements
from ktrial.domain.errors import BadRun

FOLDER = Path(ktrial.benchmarks.__file__).parent
CASES = sorted(path for path in FOLDER.glob("*/cases/*") if path.is_dir())
BENCHMARKS = all_benchmarks()
#: Adapters of the agent's own loads bring no recorded output of other people's tools.
TOOLS = [tool for tool in tools() if (FOLDER / tool / "cases").is_dir()]


class Expected(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`error` is a part of the message; without it the measurements must be exactly these, and so the notes.

    `used` are the resources of the run where the measurements come from them.
    """

    benchmark: str
    parameters: dict[str, Any]
    exit_status: int
    measurements: dict[str, float] | None = None
    tool_version: str | None = None
    notes: list[str] = []
    error: str | None = None
    used: dict[str, int] = {}


def expected(case: Path) -> Expected:
    return msgspec.json.decode((case / "expected.json").read_bytes(), type=Expected)


def raw_output(case: Path) -> RawOutput:
    files = case / "files"
    found = {str(path.relative_to(files)): path.read_bytes() for path in files.rglob("*") if path.is_file()}
    wanted = expected(case)
    raw = RawOutput(
        stdout=(case / "stdout").read_bytes(),
        stderr=(case / "stderr").read_bytes(),
        files=found,
        exit_status=wanted.exit_status,
    )
    return msgspec.structs.replace(raw, **wanted.used)


def judged(case: Path) -> ParsedRun:
    """What a runner does with an output, in its order."""
    wanted = expected(case)
    benchmark = BENCHMARKS[wanted.benchmark]
    raw = raw_output(case)
    check_exit(raw)
    run = benchmark.parse(raw, wanted.parameters)
    check_measurements(benchmark.outcomes, run)
    return run


def name(case: Path) -> str:
    return f"{case.parent.parent.name}/{case.name}"


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


@pytest.mark.parametrize("case", CASES, ids=name)
def test_every_case_says_how_it_was_derived(case: Path) -> None:
    why = (case / "why").read_text(encoding="utf-8")
    assert len(why.split()) >= 5
    assert why.count("\n") == 1, "one line"
    assert (case / "command").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_a_good_and_a_bad_case(tool: str) -> None:
    cases = [expected(case) for case in CASES if case.parent.parent.name == tool]
    assert any(case.error for case in cases)
    assert any(case.measurements for case in cases)


def test_cases_are_found() -> None:
    assert len(TOOLS) >= 8
    assert len(CASES) >= 50
