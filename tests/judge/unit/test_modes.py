# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.modes import apart, two_modes, within_blocks


def mixture(gap: float, count: int, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    return generator.normal(0, 0.02, count) + gap * (generator.random(count) < 0.4)


def test_two_modes_are_found_with_their_places_and_shares() -> None:
    values = np.concatenate((np.random.default_rng(1).normal(0, 0.02, 12), np.random.default_rng(2).normal(1, 0.02, 8)))
    found = two_modes(values)
    assert found is not None
    assert found.clear
    assert (found.low, found.high) == pytest.approx((values[:12].mean(), values[12:].mean()), abs=1e-3)
    assert found.low_share == pytest.approx(0.6, abs=1e-6)
    # Far apart, each value belongs to one mode: the likelihood by hand, with the least spread that a mode may have.
    sd = max(0.05 * values.std(), values[:12].std())
    other = max(0.05 * values.std(), values[12:].std())
    two = sum(stats.norm.logpdf(values[:12], values[:12].mean(), sd) + math.log(0.6))
    two += sum(stats.norm.logpdf(values[12:], values[12:].mean(), other) + math.log(0.4))
    one = sum(stats.norm.logpdf(values, values.mean(), values.std()))
    assert found.gain == pytest.approx(2 * (two - one) - 3 * math.log(20), abs=0.2)


def test_one_mode_is_seldom_two() -> None:
    found = [two_modes(mixture(0.0, 24, seed)) for seed in range(100)]
    assert sum(one is not None and one.clear for one in found) <= 4
    found = [two_modes(mixture(0.2, 24, seed)) for seed in range(100)]
    assert sum(one is not None and one.clear for one in found) >= 90


def test_too_few_or_equal_values_have_no_modes() -> None:
    assert two_modes(mixture(1.0, 11, 1)) is None
    assert two_modes(np.ones(20)) is None
    assert two_modes(np.full(20, 0.1)) is None
    assert two_modes(np.zeros(20)) is None
    assert two_modes(np.array([])) is None


def test_a_run_far_out_is_no_mode() -> None:
    assert two_modes(np.append(np.random.default_rng(0).normal(0, 1, 20), 40.0)) is None


def test_two_values_are_two_modes() -> None:
    found = two_modes(np.repeat([1.0, 2.0], [8, 12]))
    assert found is not None
    assert found.clear
    assert found.low_share == pytest.approx(0.4, abs=1e-6)


def share_with_modes(block_sd: float, gap: float, trials: int = 100) -> float:
    """Share of paired trials of 20 blocks, noise 1, in which an arm seems to have two modes.

    Blocks are of two kinds, a fast and a slow one. 40 % of the runs of the case are slower by `gap`.
    """
    generator = np.random.default_rng(7)
    found = 0
    for _ in range(trials):
        levels = block_sd * np.where(generator.random(20) < 0.5, -1.0, 1.0)
        slow = gap * (generator.random(20) < 0.4)
        scores = {"control": levels + generator.normal(0, 1, 20), "case": levels + slow + generator.normal(0, 1, 20)}
        seen = [two_modes(left) for left in within_blocks(scores, dict.fromkeys(scores, range(20))).values()]
        found += any(one is not None and one.clear for one in seen)
    return found / trials


@pytest.mark.parametrize("block_sd", [0.0, 2.0, 10.0])
def test_blocks_of_two_kinds_are_no_more_often_taken_for_modes_than_equal_ones(block_sd: float) -> None:
    assert share_with_modes(block_sd, 0.0) <= 0.02


def test_modes_of_runs_are_found_in_equal_blocks_and_in_blocks_of_two_kinds() -> None:
    assert share_with_modes(0.0, 10.0) >= 0.95
    assert share_with_modes(10.0, 20.0) >= 0.75


def test_what_blocks_explain_is_taken_away_and_nothing_else() -> None:
    levels = np.arange(8.0)
    wave = np.array([1.0, -1.0] * 4)
    scores = {"a": levels + 0.001 * wave, "b": levels - 0.001 * wave}
    in_blocks = within_blocks(scores, {"a": "stuvwxyz", "b": "stuvwxyz"})
    # A line through equal levels leaves the wave of either arm, and the other arm's turned over.
    assert in_blocks["a"] == pytest.approx(scores["a"].mean() + 0.002 * wave, abs=1e-3)
    for blocks in ({"a": range(8), "b": range(8, 16)}, {"a": "stuvwxyz", "b": [None] * 8}):
        left = within_blocks(scores, blocks)
        assert [left[arm].tolist() for arm in scores] == [scores[arm].tolist() for arm in scores]


def test_several_runs_of_a_block_keep_what_differs_between_them() -> None:
    levels = np.repeat(np.arange(8.0), 3)
    within = np.tile([0.0, 0.5, 0.1], 8)
    left = within_blocks({"a": levels + within, "b": levels}, {"a": levels.tolist(), "b": levels.tolist()})["a"]
    assert left - left.mean() == pytest.approx(within - within.mean(), abs=1e-9)


def test_runs_of_blocks_without_another_arm_are_left_out() -> None:
    levels = np.arange(9.0)
    left = within_blocks({"a": levels, "b": levels[:8]}, {"a": range(9), "b": range(8)})
    assert [len(left["a"]), len(left["b"])] == [8, 8]


@pytest.mark.parametrize("count", [4, 5, 6, 8, 11, 15])
def test_runs_of_one_mode_seldom_lie_apart(count: int) -> None:
    """Of wide noise, so that the least factor is no help: 1 of 100 at most, as the limits were drawn."""
    draw = np.random.default_rng(count)
    found = sum(apart(draw.normal(0, 3.0, count)) is not None for _ in range(3000))
    assert found <= 45


def test_a_few_runs_at_half_the_others_lie_apart() -> None:
    one = apart(np.log([4.45, 4.41, 8.92, 4.48, 4.43]))
    assert one is not None
    assert (one.runs, one.of, round(one.factor, 1)) == (1, 5, 2.0)
    two = apart(np.log([200.0, 101.0, 204.0, 203.0, 99.0, 198.0]))
    assert two is not None
    assert (two.runs, two.of, round(two.factor, 1)) == (2, 6, 0.5)
    assert apart(np.log([4.45, 8.92, 4.43])) is None
    assert apart(np.log([1.0, 1.0, 1.0, 1.0, 1.4])) is None
    assert apart(np.zeros(6)) is None
