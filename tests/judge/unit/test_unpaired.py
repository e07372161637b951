# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.stats import unpaired
from ktrial.judge.stats.arrays import Array


def two(n_control: int, n_arm: int, count: int = 15, seed: int = 4) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    return random.standard_t(3, (count, n_control)), random.standard_t(3, (count, n_arm)) + 0.7


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (7, 9), (20, 5), (40, 41)])
def test_rank_sums_are_exactly_those_of_scipy(sizes: tuple[int, int]) -> None:
    control, arm = two(*sizes)
    u, p = unpaired.rank_sum(control, arm)
    for row in range(len(control)):
        theirs = stats.mannwhitneyu(arm[row], control[row], method="exact")
        assert p[row] == pytest.approx(theirs.pvalue, abs=1e-10)
        assert u[row] == theirs.statistic


def test_rank_sums_of_many_units_are_scipys_normal_ones() -> None:
    control, arm = two(150, 120, 4)
    theirs = [stats.mannwhitneyu(b, a, method="asymptotic").pvalue for a, b in zip(control, arm, strict=True)]
    assert unpaired.rank_sum(control, arm)[1] == pytest.approx(theirs, abs=1e-9)
    tied = np.round(control), np.round(arm)
    theirs = [stats.mannwhitneyu(b, a, method="asymptotic").pvalue for a, b in zip(*tied, strict=True)]
    assert unpaired.rank_sum(*tied)[1] == pytest.approx(theirs, abs=1e-9)


def test_rank_sums_with_ties_count_all_ways_to_pick() -> None:
    random = np.random.default_rng(8)
    control, arm = random.integers(0, 4, (10, 5)).astype(float), random.integers(1, 5, (10, 4)).astype(float)
    for row, p in enumerate(unpaired.rank_sum(control, arm)[1]):
        ranks = stats.rankdata([*control[row], *arm[row]])
        sums = np.array([sum(picked) for picked in itertools.combinations(ranks, 4)])
        seen = ranks[5:].sum()
        assert p == pytest.approx(min(1.0, 2 * min(np.mean(sums >= seen), np.mean(sums <= seen))), abs=1e-12)


def test_equal_values_are_no_difference() -> None:
    for units in (5, 100):
        same = np.full((1, units), 3.0)
        assert unpaired.rank_sum(same, same)[1] == [1.0]
        relabelled = unpaired.permutation(same, same)
        assert relabelled is not None
        assert relabelled[1] == [1.0]
        assert np.isnan(unpaired.welch(same, same)[1]).all()


@pytest.mark.parametrize("sizes", [(3, 3), (4, 6), (6, 6)])
def test_all_relabellings_are_tried_where_they_are_few(sizes: tuple[int, int]) -> None:
    control, arm = two(*sizes, count=6)
    found = unpaired.permutation(control, arm)
    assert found is not None
    for row in range(len(control)):
        theirs = stats.permutation_test(
            (arm[row], control[row]), lambda a, b: np.mean(a) - np.mean(b), n_resamples=100_000
        )
        assert found[1][row] == pytest.approx(theirs.pvalue, abs=1e-12)


def test_relabellings_of_many_units_are_drawn_and_always_the_same() -> None:
    control, arm = two(20, 20)
    found, again = unpaired.permutation(control, arm), unpaired.permutation(control, arm)
    assert found is not None
    assert again is not None
    assert np.array_equal(found[1], again[1])
    assert np.max(np.abs(found[1] - unpaired.welch(control, arm)[1])) < 0.1
    assert found[1].min() >= unpaired.permutation_floor(20, 20) == 2 / 10_000
    assert unpaired.permutation(*two(300, 300, 1)) is None


def test_welch_is_that_of_scipy() -> None:
    control, arm = two(6, 9)
    t, p = unpaired.welch(control, arm)
    theirs = stats.ttest_ind(arm, control, axis=1, equal_var=False)
    assert t == pytest.approx(theirs.statistic, abs=1e-9)
    assert p == pytest.approx(theirs.pvalue, abs=1e-9)
    assert np.isnan(unpaired.welch(*two(1, 5))[1]).all()


@pytest.mark.parametrize("sizes", [(4, 4), (6, 5), (12, 20)])
def test_the_interval_holds_what_the_test_does_not_reject(sizes: tuple[int, int]) -> None:
    control, arm = two(*sizes)
    middle, low, high = unpaired.hodges_lehmann(control, arm, 0.05)
    assert low is not None
    assert high is not None
    for row in range(len(control)):
        for bound, inwards in ((low[row], 1), (high[row], -1)):
            inside = stats.mannwhitneyu(arm[row] - bound - inwards * 1e-7, control[row], method="exact").pvalue
            outside = stats.mannwhitneyu(arm[row] - bound + inwards * 1e-7, control[row], method="exact").pvalue
            assert outside <= 0.05 < inside
        assert middle[row] == pytest.approx(np.median(arm[row][:, np.newaxis] - control[row]))


def test_three_and_three_allow_no_interval() -> None:
    assert unpaired.hodges_lehmann(*two(3, 3), 0.05)[1:] == (None, None)


def test_searched_differences_are_those_that_would_be_listed() -> None:
    control, arm = two(1100, 1000, 1)
    middle, low, high = unpaired.hodges_lehmann(control, arm, 0.05)
    differences = np.sort((arm[0][:, np.newaxis] - control[0]).ravel())
    cut = unpaired.critical_pairs(1100, 1000, 0.05)
    assert cut is not None
    assert low is not None
    assert high is not None
    assert [middle[0], low[0], high[0]] == pytest.approx(
        [np.median(differences), differences[cut], differences[-1 - cut]], abs=1e-12
    )
    deviation = math.sqrt(1100 * 1000 * 2101 / 12)
    assert (1100 * 1000 / 2 - cut) / deviation == pytest.approx(1.96, abs=0.01)
