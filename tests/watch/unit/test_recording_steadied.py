# SPDX-License-Identifier: Apache-2.0
"""Moments of a clock that may step."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadRun
from ktrial.recordings.recording import steadied


def test_even_moments_stay_as_they_are() -> None:
    assert steadied([5.0, 6.0, 7.0], "r") == ([5.0, 6.0, 7.0], ())


def test_a_step_back_is_told_and_takes_as_long_as_is_usual() -> None:
    times_s, (gap,) = steadied([100.0, 101.0, 102.0, 50.0, 51.0, 52.0], "r")
    assert times_s == [100.0, 101.0, 102.0, 103.0, 104.0, 105.0]
    assert (gap.kind, gap.begin_s, gap.end_s) == ("clock-step", 2.0, 3.0)
    assert gap.why == "the wall clock stepped by -53 s"


def test_a_pause_is_told_and_keeps_its_length() -> None:
    times_s, (gap,) = steadied([0.0, 1.0, 2.0, 600.0, 601.0], "r")
    assert times_s[-1] == 601.0
    assert (gap.kind, gap.end_s - gap.begin_s) == ("missing", 598.0)


def test_what_the_tool_told_of_its_interval_tells_a_step_forward() -> None:
    times_s, (gap,) = steadied([0.0, 10.0, 3620.0, 3630.0], "r", [10, 10, 10, 10])
    assert times_s == [0.0, 10.0, 20.0, 30.0]
    assert gap.kind == "clock-step"


@pytest.mark.parametrize("moments", [[], [1.0], [3.0, 2.0, 1.0], [1.0, 1.0]])
def test_what_is_no_recording(moments: list[float]) -> None:
    with pytest.raises(BadRun):
        steadied(moments, "r")


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=40))
def test_what_comes_of_it_rises(moments_ms: list[int]) -> None:
    try:
        times_s, gaps = steadied([one / 1e3 for one in moments_ms], "r")
    except BadRun:
        return
    assert all(after > before for before, after in pairwise(times_s))
    assert all(gap.end_s > gap.begin_s for gap in gaps)
