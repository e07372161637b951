# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.machine.kernel_log import KernelLog, KernelRecord, LogPattern, new_lines

PATTERNS = (LogPattern("noise", None, "nothing"), LogPattern("Killed process", "oom-kill"))


def log(*numbers: int, level: int = 4, text: str = "something odd", oldest: int = 0) -> KernelLog:
    records = tuple(KernelRecord(number, level, number * 10, text) for number in numbers)
    return KernelLog(oldest=oldest, newest=max(numbers, default=oldest), records=records)


BEFORE = KernelLog(oldest=0, newest=9)


def test_new_warnings_are_told_and_what_is_known_to_be_harmless_is_passed_over() -> None:
    records = (
        KernelRecord(10, 4, 100, "something odd"),
        KernelRecord(11, 3, 110, "something bad"),
        KernelRecord(12, 6, 120, "something said"),
        KernelRecord(13, 4, 130, "noise"),
        KernelRecord(14, 6, 140, "Killed process 7"),
    )
    found = new_lines(BEFORE, KernelLog(oldest=0, newest=14, records=records), PATTERNS)
    assert [(line.kind, line.number) for line in found.lines] == [("warning", 10), ("error", 11), ("oom-kill", 14)]
    assert (found.passed_over, found.could_not_tell) == (2, None)


def test_old_lines_are_not_new() -> None:
    assert new_lines(BEFORE, log(8, 9), PATTERNS).lines == ()
    assert len(new_lines(KernelLog(), log(0, 1), PATTERNS).lines) == 2


@pytest.mark.parametrize(
    "before, after, why",
    [
        (BEFORE, log(12, 13, oldest=11), "overwritten"),
        (BEFORE, KernelLog(oldest=0, newest=10, truncated=True), "grew too fast"),
        (BEFORE, log(0, 1), "was rebooted"),
        (BEFORE, KernelLog(), "was rebooted"),
        (KernelLog(unreadable="Permission denied"), log(1), "Permission denied"),
        (BEFORE, KernelLog(unreadable="gone"), "gone"),
    ],
)
def test_what_cannot_be_told_is_said(before: KernelLog, after: KernelLog, why: str) -> None:
    found = new_lines(before, after, PATTERNS)
    assert found.could_not_tell is not None
    assert why in found.could_not_tell


def test_lines_that_are_left_of_an_overwritten_log_are_told() -> None:
    assert [line.number for line in new_lines(BEFORE, log(12, 13, oldest=12), PATTERNS).lines] == [12, 13]
    assert new_lines(BEFORE, log(10, 11, oldest=10), PATTERNS).could_not_tell is None


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_a_gap_is_always_noticed(newest: int, lost: int, count: int) -> None:
    start = newest + 1 + lost
    after = log(*range(start, start + count + 1), oldest=start)
    found = new_lines(KernelLog(oldest=0, newest=newest), after, ())
    assert (found.could_not_tell is not None) == (lost > 0)
    assert len(found.lines) == count + 1
