# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest

from ktrial.judge.planning import (
    affordable_cap,
    block_sd,
    blocks_to_detect,
    blocks_to_show_equivalence,
    cap_from_first_blocks,
    expected_blocks,
    forecast,
    is_warm,
    runs_per_visit,
    smallest_effect,
)
from ktrial.judge.sequential import cap_of
from ktrial.kit.errors import BadInput

PILOT = (0.02, -0.03, 0.01, 0.04, -0.02, 0.0, 0.03, -0.01, 0.02, -0.04)


@pytest.mark.parametrize(
    "effect_over_sd,cap", [(3, 7), (2, 7), (1.5, 9), (1.2, 12), (1.0, 16), (0.8, 25), (0.6, 40), (0.5, 60)]
)
def test_caps_are_those_of_the_printed_table(effect_over_sd: float, cap: int) -> None:
    """The specification's table of caps for 90 % power in normal noise."""
    assert cap_of(blocks_to_detect(math.log1p(0.05) / effect_over_sd, 0.05)) == cap


def test_the_spread_of_a_pilot_is_taken_larger() -> None:
    # By hand: sum of squares 0.0064, mean 0.002; the median size is 0.02.
    sd = math.sqrt((0.0064 - 10 * 0.002**2) / 9)
    assert block_sd(PILOT) == pytest.approx(1.25 * max(sd, 1.4826 * 0.02))
    # Most of these are equal: by hand, sum of squares 0.09 less 3 times 0.1 squared, by two.
    assert block_sd((0.0, 0.0, 0.3)) == pytest.approx(1.25 * math.sqrt(0.06 / 2))
    assert block_sd((0.1, -0.1)) == pytest.approx(1.25 * 1.4826 * 0.1)
    with pytest.raises(BadInput, match="from fewer than two blocks"):
        block_sd([0.1])
    with pytest.raises(BadInput, match="from 2 blocks: not every difference is a finite number"):
        block_sd([0.1, math.nan])


def test_smallest_effect_and_blocks_to_detect_are_inverse() -> None:
    for cap in (9, 20, 60):
        assert blocks_to_detect(0.04, smallest_effect(0.04, cap)) == cap
    assert smallest_effect(0.04, 3) == math.inf


@pytest.mark.parametrize("sd", [-0.01, math.inf, math.nan])
def test_what_is_no_spread_plans_nothing(sd: float) -> None:
    with pytest.raises(BadInput, match="cannot plan a trial: the spread of"):
        blocks_to_detect(sd, 0.05)


def test_equivalence_needs_more_blocks() -> None:
    # ceil(1.15 * (3.6 * 0.02 / ln 1.02)^2 + 3) = ceil(18.2)
    assert blocks_to_show_equivalence(0.02, 0.02) == 19
    assert blocks_to_show_equivalence(0.001, 0.02) == 7


def test_a_forecast_says_when_the_budget_is_too_small() -> None:
    # sd = 1.25 * 1.4826 * 0.02 = 0.03706, so that 1.15 * (3.24 * 0.03706 / ln 1.05)^2 + 3 = 9.97.
    plan = forecast(PILOT, detect=0.05, margin=0.02)
    assert (plan.needed, plan.cap) == (10, 12)
    tight = forecast(PILOT, detect=0.02, margin=0.02, budget=20)
    assert tight.cap == 20
    assert tight.needed > 20
    assert blocks_to_detect(tight.sd, tight.smallest_effect) == 20
    with pytest.raises(BadInput, match="5 blocks are too few"):
        forecast(PILOT, detect=0.05, margin=0.02, budget=5)
    with pytest.raises(BadInput, match="effect to detect"):
        forecast(PILOT, detect=0, margin=0.02)
    with pytest.raises(BadInput, match=r"^margin: expected a value above 0, got 0"):
        blocks_to_show_equivalence(0.03, 0)


@pytest.mark.parametrize(
    "size, blocks", [(3, 7), (2, 7), (1.5, 8), (1.2, 9), (1.0, 11), (0.8, 15), (0.6, 23), (0.5, 35), (0.4, 60)]
)
def test_blocks_that_are_expected_are_those_of_the_simulations(size: float, blocks: int) -> None:
    """Mean blocks used by effect in sd of a block's difference, rounded up; below the table all that there are."""
    assert expected_blocks(0.05, math.expm1(0.05 * size), 60) == blocks
    assert expected_blocks(0.05, math.expm1(0.05 * size), 9) == min(blocks, 9)
    assert expected_blocks(0.0, 0.05, 20) == 7


def test_the_next_cap_of_the_tables() -> None:
    assert [affordable_cap(needed) for needed in (7, 8, 13, 60, 61, 481)] == [7, 9, 16, 60, 80, None]
    assert affordable_cap(7, comparisons=15) == 12


def test_the_first_blocks_plan_by_size_alone() -> None:
    generator = np.random.default_rng(1)
    first = generator.normal(0, 0.05, 7)
    cap = cap_from_first_blocks([first.tolist()], 0.05, 40)
    assert cap_from_first_blocks([np.abs(first).tolist()], 0.05, 40) == cap
    assert cap_from_first_blocks([[-0.2, 0.2] * 4], 0.05, 40) == 40
    assert cap_from_first_blocks([(first * 0.01).tolist()], 0.05, 40) == 7
    assert cap_from_first_blocks([(first * 0.01).tolist()], 0.05, 40, comparisons=3) == 9
    assert cap_from_first_blocks([(first * 0.01).tolist(), (first * 9).tolist()], 0.05, 40) == 40
    with pytest.raises(BadInput):
        cap_from_first_blocks([first.tolist()], 0.05, 7, comparisons=3)


def test_runs_per_visit_follow_the_costs() -> None:
    assert runs_per_visit(0.05, 30) == 1
    assert runs_per_visit(0, 30) == 1
    assert runs_per_visit(120, 30) == 2
    assert runs_per_visit(120, 30, run_sd=0.02, visit_sd=0.01) == 4
    assert runs_per_visit(120, 30, run_sd=0.01, visit_sd=0.02) == 1
    assert runs_per_visit(3600, 1) == 4
    assert runs_per_visit(1, 1, run_sd=0.1, visit_sd=0) == 4
    with pytest.raises(BadInput):
        runs_per_visit(1, 0)


def test_a_run_is_warm_within_two_robust_sd() -> None:
    assert is_warm(0.10, (0.12, 0.11, 0.30), 0.01)
    assert is_warm(0.5, (0.25, 0.25, 0.25), 0.125)
    assert not is_warm(0.10, (0.13, 0.13, 0.13), 0.01)


def test_the_planned_cap_has_a_look_for_all_comparisons() -> None:
    """9 blocks would do, and decide nothing at 0.05/15; the tables begin at 12 there."""
    quiet = [0.001, -0.001] * 5
    assert forecast(quiet, detect=0.05, margin=0.02).cap == 7
    assert forecast(quiet, detect=0.05, margin=0.02, comparisons=15).cap == 12
    with pytest.raises(BadInput, match="9 blocks cannot decide 15"):
        forecast(quiet, detect=0.05, margin=0.02, budget=9, comparisons=15)
    with pytest.raises(BadInput, match="20 blocks cannot decide 1000"):
        forecast(quiet, detect=0.05, margin=0.02, budget=20, comparisons=1000)
