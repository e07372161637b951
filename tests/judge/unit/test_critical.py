# SPDX-License-Identifier: Apache-2.0
"""The tables, recomputed: the first look exactly, the others by simulating the null again."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from ktrial.judge.sequential import MOST_COMPARISONS, cap_of, looks, row_of
from ktrial.judge.stats.critical import CRITICAL, LOOKS, ROWS, SPENT_BY_TABLE, indices
from ktrial.kit.errors import BadInput

#: As the specification of the procedure prints it, for one comparison.
PRINTED = {
    7: {7: 1},
    9: {7: 1, 9: 3},
    12: {7: 0, 9: 3, 12: 10},
    16: {7: 0, 9: 2, 12: 9, 16: 23},
    20: {7: 0, 9: 2, 12: 8, 16: 21, 20: 40},
    25: {7: 0, 9: 1, 12: 7, 16: 20, 20: 38, 25: 72},
    30: {9: 2, 12: 8, 16: 20, 20: 39, 25: 71, 30: 113},
    40: {9: 2, 12: 7, 16: 19, 20: 36, 25: 68, 30: 109, 40: 229},
    50: {9: 2, 12: 6, 16: 17, 20: 35, 25: 66, 30: 106, 40: 225, 50: 384},
    60: {9: 1, 12: 6, 16: 17, 20: 34, 25: 65, 30: 105, 40: 222, 50: 378, 60: 579},
}


def spent(blocks: int, cap: int, comparisons: int) -> float:
    return float(SPENT_BY_TABLE / comparisons * (blocks / cap) ** 0.7)


@cache
def null_sums(trials: int, cap: int, seed: int) -> dict[int, np.ndarray]:
    """min(W+, W-) at each look, of Laplace noise: the table was made from normal noise, which must not matter."""
    noise = np.random.default_rng(seed).laplace(size=(trials, cap))
    found = {}
    for look in LOOKS:
        if look <= cap:
            by_size = np.argsort(np.abs(noise[:, :look]), axis=1)
            positive = (np.take_along_axis(noise[:, :look], by_size, axis=1) > 0) @ np.arange(1.0, look + 1)
            found[look] = np.minimum(positive, look * (look + 1) / 2 - positive)
    return found


@pytest.mark.parametrize("cap", PRINTED)
def test_one_comparison_is_as_printed(cap: int) -> None:
    assert dict(looks(cap)) == PRINTED[cap]


@pytest.mark.parametrize("cap", LOOKS)
def test_rows_are_nested_and_of_the_right_length(cap: int) -> None:
    rows = CRITICAL[cap]
    assert len(rows) == len(ROWS)
    for wider, narrower in pairwise(rows):
        assert len(wider) == len(narrower) == LOOKS.index(cap) + 1
        for one, other in zip(wider, narrower, strict=True):
            assert other is None or (one is not None and other <= one)


@pytest.mark.parametrize("cap", LOOKS)
def test_the_first_look_spends_what_it_may(cap: int) -> None:
    for comparisons in ROWS:
        if any(index is not None for index in indices(cap, comparisons)):
            look, index = next(iter(looks(cap, comparisons).items()))
            p = exact_p(look, index)
            assert p <= spent(look, cap, comparisons) + 1e-4


def exact_p(blocks: int, index: int) -> float:
    """Chance that min(W+, W-) is at most `index`, by counting the subsets of 1 … n with each sum."""
    ways = np.zeros(blocks * (blocks + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, blocks + 1):
        ways[rank:] += ways[:-rank].copy()
    return float(2 * ways[: index + 1].sum() / 2.0**blocks)


@pytest.mark.parametrize("cap", [12, 30, 110])
def test_later_looks_are_recomputed(cap: int) -> None:
    """Spending again with other noise and another seed gives every index to ±1, or to 1 % if there are many."""
    trials = 60_000
    sums = null_sums(trials, cap, seed=99)
    alive = np.ones(trials, dtype=bool)
    used = 0.0
    for look, index in looks(cap).items():
        shares = np.cumsum(np.bincount(sums[look][alive].astype(int), minlength=1)) / trials
        allowed = int(np.nonzero(shares <= spent(look, cap, 1) - used)[0][-1])
        assert abs(allowed - index) <= max(1, 0.01 * index), look
        used += shares[index]
        alive &= sums[look] > index


@pytest.mark.xdist_group("null-sums")
@pytest.mark.parametrize("comparisons", [1, 3, 15, 20, 32, 64])
def test_all_looks_together_keep_the_error(comparisons: int) -> None:
    trials = 50_000
    sums = null_sums(trials, 30, seed=3)
    # At 12 blocks the steps of the sums are too coarse to spend an error of 0.05/15.
    for cap in (12, 30) if comparisons < 10 else (20, 30):
        hit = np.zeros(trials, dtype=bool)
        for look, index in looks(cap, comparisons).items():
            hit |= sums[look] <= index
        limit = SPENT_BY_TABLE / comparisons
        chance = 3 * np.sqrt(limit / trials)
        assert hit.mean() <= limit + chance
        assert hit.mean() >= 0.8 * limit - (chance if comparisons > 20 else 0)


def test_a_cap_without_a_look_is_refused() -> None:
    with pytest.raises(BadInput, match="7 blocks cannot decide 3 comparisons"):
        looks(7, 3)
    with pytest.raises(BadInput, match="cannot decide 65"):
        looks(60, 65)
    with pytest.raises(BadInput, match="cannot decide 0"):
        looks(60, 0)
    with pytest.raises(BadInput, match=r"cap: expected one of .*, got 13"):
        looks(13)


def test_a_row_that_does_not_exist_is_the_next_stricter_one() -> None:
    assert looks(40, 11) == looks(40, 15) != looks(40, 10)
    assert looks(40, 16) == looks(40, 20) != looks(40, 15)
    assert looks(40, 33) == looks(40, 40) != looks(40, 32)
    assert MOST_COMPARISONS == 64


def test_caps_are_rounded_up() -> None:
    assert [cap_of(blocks) for blocks in (1, 7, 8, 20, 21, 61, 480)] == [7, 7, 9, 20, 25, 80, 480]
    with pytest.raises(BadInput, match="481 blocks"):
        cap_of(481)


def test_a_smaller_alpha_takes_a_later_row() -> None:
    assert [row_of(0.05, 1), row_of(0.05, 3), row_of(0.025, 1), row_of(0.025, 2), row_of(0.01, 1)] == [1, 3, 2, 4, 5]
    assert row_of(0.04, 1) == 2
    for alpha in (0.1, 0.0):
        with pytest.raises(BadInput, match="alpha"):
            row_of(alpha, 1)
