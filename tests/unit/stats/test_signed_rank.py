# SPDX-License-Identifier: Apache-2.0
"""The exact signed-rank test and interval, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ktrial.stats.sequential import as_array
from ktrial.stats.signed_rank import signed_rank_p, single_look, single_look_interval, smallest_p


@pytest.mark.parametrize("blocks", [1, 2, 5, 7, 12, 20, 40, 50])
def test_p_is_that_of_scipy(blocks: int) -> None:
    for seed in range(5):
        values = np.random.default_rng((blocks, seed)).normal(0.3, 1, blocks)
        assert signed_rank_p(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_p_with_ties_and_zeros_is_that_of_all_sign_flips(seed: int) -> None:
    values = np.random.default_rng(seed).integers(-3, 6, 11).astype(float)
    everything = stats.PermutationMethod(n_resamples=100_000)
    expected = stats.wilcoxon(values, zero_method="pratt", method=everything).pvalue
    assert signed_rank_p(values) == pytest.approx(expected, abs=1e-9)


def test_nothing_is_no_evidence() -> None:
    assert signed_rank_p(as_array([])) == 1
    assert signed_rank_p(np.zeros(9)) == 1
    assert [smallest_p(blocks) for blocks in (1, 5, 6, 7)] == [1, 1 / 16, 1 / 32, 1 / 64]
    assert signed_rank_p(np.arange(1.0, 7.0)) == smallest_p(6)


def test_an_interval_needs_six_blocks() -> None:
    # The published critical values of the signed-rank test, two-sided 5 %.
    assert single_look(5) is None
    assert [single_look(blocks) for blocks in (6, 8, 10, 15, 20, 30)] == [0, 3, 8, 25, 52, 137]
    # And 1 %.
    assert [single_look(blocks, 0.01) for blocks in (8, 10, 15, 20, 30)] == [0, 3, 15, 37, 109]


@pytest.mark.parametrize("blocks", [6, 9, 14])
def test_the_interval_is_what_scipy_does_not_reject(blocks: int) -> None:
    values = np.random.default_rng(blocks).standard_t(3, blocks)
    found = single_look_interval(values)
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
