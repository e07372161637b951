# SPDX-License-Identifier: Apache-2.0
"""Where schbench's text is cut off, it is refused, in each of its layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktrial.bench.adapters
from ktrial.bench.adapters.schbench.output import read_schbench_text
from ktrial.kit.errors import UnreadableOutput

CASES = Path(ktrial.bench.adapters.__file__).parent / "schbench" / "cases"


def recorded(case: str) -> bytes:
    return (CASES / case / "stderr").read_bytes()


def is_read(data: bytes) -> bool:
    try:
        read_schbench_text(data)
    except UnreadableOutput:
        return False
    return True


@pytest.mark.parametrize("case", ["2016-05", "2021-12"])
def test_text_whose_last_block_is_its_end_is_read_whole_only(case: str) -> None:
    whole = recorded(case)
    assert is_read(whole)
    assert [size for size in range(len(whole)) if is_read(whole[:size])] == []


@pytest.mark.parametrize("case", ["2025-12", "2025-12-json-text", "2025-12-rps"])
def test_text_that_tells_of_the_whole_run_is_read_from_that_line_on(case: str) -> None:
    whole = recorded(case)
    last = whole.index(b"\n", whole.index(b"average rps:")) + 1
    assert [size for size in range(len(whole) + 1) if is_read(whole[:size])] == [last, len(whole)]


def test_what_a_run_at_a_rate_of_its_own_choice_ends_with_is_an_end() -> None:
    whole = recorded("2025-12-rps")
    goal = whole.replace(b"average rps: 90.00\n", b"final rps goal was 90\n")
    assert goal != whole
    assert read_schbench_text(goal).rps_goal == 90


def test_a_cut_is_told_as_one() -> None:
    with pytest.raises(
        UnreadableOutput, match=r"cut off|not complete output of schbench: the lines about the whole run"
    ):
        read_schbench_text(recorded("2016-05").rstrip(b"\n"))
