# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.stats import blocked
from ktrial.judge.stats.arrays import Array


def rows(blocks: int, count: int = 20, seed: int = 5) -> Array:
    return np.random.default_rng(seed).standard_t(3, (count, blocks)) + 0.4


def all_signs(row: Array) -> Array:
    return np.array(list(itertools.product((-1.0, 1.0), repeat=len(row))))


@pytest.mark.parametrize("blocks", [2, 6, 13, 30, 50])
def test_signed_rank_is_exactly_that_of_scipy(blocks: int) -> None:
    given = rows(blocks)
    positive, p = blocked.signed_rank(given)
    for row, mine, w in zip(given, p, positive, strict=True):
        theirs = stats.wilcoxon(row, method="exact")
        assert mine == pytest.approx(theirs.pvalue, abs=1e-12)
        assert min(w, blocks * (blocks + 1) / 2 - w) == theirs.statistic


def test_signed_rank_of_many_blocks_is_scipys_normal_one() -> None:
    given = rows(150, 5)
    theirs = [stats.wilcoxon(row, method="approx").pvalue for row in given]
    assert blocked.signed_rank(given)[1] == pytest.approx(theirs, abs=1e-9)


def test_signed_rank_with_ties_and_zeros_counts_all_sign_patterns() -> None:
    given = np.random.default_rng(2).integers(-2, 4, (15, 8)).astype(np.float64)
    for row, p in zip(given, blocked.signed_rank(given)[1], strict=True):
        ranks = stats.rankdata(np.abs(row)) * (row != 0)
        sums = all_signs(row) @ ranks
        seen = float(np.sign(row) @ ranks)
        assert p == pytest.approx(min(1.0, 2 * min(np.mean(sums >= seen), np.mean(sums <= seen))), abs=1e-12)


def test_nothing_but_zeros_is_no_difference() -> None:
    nothing = np.zeros((1, 8))
    assert blocked.signed_rank(nothing)[1] == [1.0]
    assert blocked.sign_flip(nothing)[1] == [1.0]
    assert blocked.signed_rank(np.zeros((1, 150)))[1] == [1.0]
    assert np.isnan(blocked.paired_t(nothing)[1]).all()


@pytest.mark.parametrize("blocks", [3, 7, 10])
def test_sign_flips_are_all_tried_where_they_are_few(blocks: int) -> None:
    given = rows(blocks)
    sums, p = blocked.sign_flip(given)
    assert sums == pytest.approx(given.sum(axis=1))
    for row, mine in zip(given, p, strict=True):
        theirs = stats.permutation_test((row,), np.sum, permutation_type="samples", n_resamples=2**blocks)
        assert mine == pytest.approx(theirs.pvalue, abs=1e-12)


def test_sign_flips_of_many_blocks_are_drawn_and_always_the_same() -> None:
    given = rows(30, 40)
    p = blocked.sign_flip(given)[1]
    assert np.array_equal(p, blocked.sign_flip(given)[1])
    assert np.max(np.abs(p - blocked.paired_t(given)[1])) < 0.1
    assert p.min() >= blocked.sign_flip_floor(30) == 2 / 10_000


def test_paired_t_is_that_of_scipy() -> None:
    given = rows(9)
    t, p = blocked.paired_t(given)
    theirs = stats.ttest_1samp(given, 0, axis=1)
    assert t == pytest.approx(theirs.statistic, abs=1e-9)
    assert p == pytest.approx(theirs.pvalue, abs=1e-9)


@pytest.mark.parametrize("blocks", [6, 7, 12, 20])
def test_the_interval_holds_what_the_test_does_not_reject(blocks: int) -> None:
    given = rows(blocks)
    middle, low, high = blocked.hodges_lehmann(given, 0.05)
    assert low is not None
    assert high is not None
    for row in range(len(given)):
        for bound, inwards in ((low[row], 1), (high[row], -1)):
            inside = stats.wilcoxon(given[row] - bound - inwards * 1e-7, method="exact").pvalue
            outside = stats.wilcoxon(given[row] - bound + inwards * 1e-7, method="exact").pvalue
            assert outside <= 0.05 < inside
        walsh = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(given[row], 2)]
        assert middle[row] == pytest.approx(np.median(walsh))


def test_five_blocks_allow_no_interval() -> None:
    _, low, high = blocked.hodges_lehmann(rows(5), 0.05)
    assert low is None
    assert high is None
    assert blocked.typical_values(rows(5), 0.05)[1:] == (None, None)
    assert blocked.hodges_lehmann(rows(1), 0.05)[1] is None


def test_searched_walsh_averages_are_those_that_would_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = rows(41, 4)
    listed = blocked.hodges_lehmann(given, 0.05)
    monkeypatch.setattr(blocked, "LISTED_BLOCKS", 10)
    for one, other in zip(listed, blocked.hodges_lehmann(given, 0.05), strict=True):
        assert one is not None
        assert one == pytest.approx(other, abs=1e-12)


def test_the_interval_of_sign_flips_holds_what_they_do_not_reject() -> None:
    given = rows(8)
    middle, low, high = blocked.typical_values(given, 0.05)
    assert low is not None
    assert high is not None
    assert middle == pytest.approx(given.mean(axis=1))
    for bound, inwards in ((low, 1e-7), (high, -1e-7)):
        assert (blocked.sign_flip(given - (bound - inwards)[:, np.newaxis])[1] <= 0.05).all()
        assert (blocked.sign_flip(given - (bound + inwards)[:, np.newaxis])[1] > 0.05).all()


# One comparison by itself.


@pytest.mark.parametrize("blocks", [1, 2, 5, 7, 12, 20, 40, 50])
def test_p_of_one_comparison_is_that_of_scipy(blocks: int) -> None:
    for seed in range(5):
        values = np.random.default_rng((blocks, seed)).normal(0.3, 1, blocks)
        assert blocked.signed_rank_p(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_p_with_ties_and_zeros_is_that_of_all_sign_flips(seed: int) -> None:
    values = np.random.default_rng(seed).integers(-3, 6, 9).astype(float)
    everything = stats.PermutationMethod(n_resamples=100_000)
    expected = stats.wilcoxon(values, zero_method="pratt", method=everything).pvalue
    assert blocked.signed_rank_p(values) == pytest.approx(expected, abs=1e-9)


def test_nothing_is_no_evidence() -> None:
    assert blocked.signed_rank_p(np.array([])) == 1
    assert blocked.signed_rank_p(np.zeros(9)) == 1
    assert blocked.signed_rank_p(np.arange(1.0, 7.0)) == 1 / 32


def test_an_interval_needs_six_blocks() -> None:
    # The published critical values of the signed-rank test, two-sided 5 %.
    assert blocked.critical_rank(5, 0.05) is None
    assert [blocked.critical_rank(blocks, 0.05) for blocks in (6, 8, 10, 15, 20, 30)] == [0, 3, 8, 25, 52, 137]
    # And 1 %.
    assert [blocked.critical_rank(blocks, 0.01) for blocks in (8, 10, 15, 20, 30)] == [0, 3, 15, 37, 109]


@pytest.mark.parametrize("blocks", [6, 9, 14])
def test_the_interval_is_what_scipy_does_not_reject(blocks: int) -> None:
    values = np.random.default_rng(blocks).standard_t(3, blocks)
    found = blocked.one_look(values)
    assert found is not None
    estimate, low, high = found
    candidates = np.unique(np.round([(a + b) / 2 for a in values for b in values], 15))
    kept = [
        shift
        for shift in np.concatenate((candidates + 1e-9, candidates - 1e-9))
        if stats.wilcoxon(values - shift, method="exact").pvalue > 0.05
    ]
    assert low == pytest.approx(min(kept) - 1e-9, abs=1e-12)
    assert high == pytest.approx(max(kept) + 1e-9, abs=1e-12)
    assert estimate == pytest.approx(
        float(np.median([(values[i] + values[j]) / 2 for i in range(blocks) for j in range(i, blocks)]))
    )
