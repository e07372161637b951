# SPDX-License-Identifier: Apache-2.0
"""Tests and intervals for two arms that share blocks. Each row is one comparison; all have equally many blocks."""

from __future__ import annotations

import functools
import math

import numpy as np

from ktrial.judge.stats.arrays import Array, find_sorted, mean_ranks, steps, without_dust
from ktrial.judge.stats.multiplicity import RESAMPLES, blocked_floor
from ktrial.kit.startup import load_special

special = load_special()

#: Up to this many blocks the distribution of signed ranks is exact; with more, a normal approximation is good enough.
EXACT_BLOCKS = 100
#: With up to this many blocks the test tries all 2^n sign patterns.
ALL_SIGNS = 13
#: With more blocks than this, the median of Walsh averages is computed without listing them.
LISTED_BLOCKS = 2_000


@functools.lru_cache(maxsize=256)
def _at_most(weights: tuple[int, ...]) -> Array:
    """Return P(sum of a random subset of the weights <= s) for each s."""
    chance = np.zeros(sum(weights) + 1)
    chance[0] = 1.0
    for weight in weights:
        shifted = np.zeros_like(chance)
        shifted[weight:] = chance[: len(chance) - weight]
        chance = (chance + shifted) / 2
    return np.cumsum(chance)


def _plain_ranks(blocks: int) -> Array:
    return _at_most(tuple(range(1, blocks + 1)))


def signed_rank(differences: Array) -> tuple[Array, Array]:
    """Return Wilcoxon's sums of positive ranks, with two-sided p; zeros keep their ranks (Pratt).

    The p is exact, even with ties, unless there are many blocks.
    """
    rows, blocks = differences.shape
    clean = without_dust(differences)
    ranks = mean_ranks(np.abs(clean))
    nonzero = clean != 0
    positive = np.sum(ranks * (clean > 0), axis=1)
    total = np.sum(ranks * nonzero, axis=1)
    smaller = np.minimum(positive, total - positive)
    if blocks > EXACT_BLOCKS:
        deviation = np.sqrt(np.sum(ranks**2 * nonzero, axis=1) / 4)
        with np.errstate(invalid="ignore", divide="ignore"):
            p = 2 * special.ndtr((smaller - total / 2) / deviation)
        return positive, np.where(deviation > 0, np.minimum(p, 1.0), 1.0)
    p = np.empty(rows)
    plain = np.all(nonzero, axis=1) & np.all(np.sort(ranks, axis=1) == np.arange(1, blocks + 1), axis=1)
    if plain.any():
        p[plain] = 2 * _plain_ranks(blocks)[smaller[plain].astype(np.int64)]
    for row in np.flatnonzero(~plain):
        weights = tuple(sorted(int(2 * rank) for rank in ranks[row][nonzero[row]]))
        p[row] = 2 * _at_most(weights)[int(2 * smaller[row])]
    return positive, np.minimum(p, 1.0)


def signed_rank_p(differences: Array) -> float:
    """Return the two-sided p of one comparison; 1 without blocks."""
    return float(signed_rank(differences[np.newaxis])[1][0]) if len(differences) else 1.0


def one_look(differences: Array, alpha: float = 0.05) -> tuple[float, float, float] | None:
    """Return (estimate, low, high) of one comparison; None if there are too few blocks for an interval."""
    middle, low, high = hodges_lehmann(differences[np.newaxis], alpha) if len(differences) else (None, None, None)
    if middle is None or low is None or high is None:
        return None
    return float(middle[0]), float(low[0]), float(high[0])


def hodges_lehmann(differences: Array, alpha: float) -> tuple[Array, Array | None, Array | None]:
    """Return the median of Walsh averages and its interval; no interval if there are too few blocks.

    The interval is exact unless there are many blocks.
    """
    rows, blocks = differences.shape
    averages = blocks * (blocks + 1) // 2
    cut = critical_rank(blocks, alpha)
    places = [(averages - 1) // 2, averages // 2, *(() if cut is None else (cut, averages - 1 - cut))]
    found = np.empty((rows, len(places)))
    if blocks > LISTED_BLOCKS:
        for row in range(rows):
            found[row] = _search_walsh(differences[row], places)
    else:
        first, second = np.triu_indices(blocks)
        for part in steps(rows, averages):
            walsh = np.sort((differences[part][:, first] + differences[part][:, second]) / 2, axis=1)
            found[part] = walsh[:, places]
    middle = (found[:, 0] + found[:, 1]) / 2
    return middle, None if cut is None else found[:, 2], None if cut is None else found[:, 3]


def critical_rank(blocks: int, alpha: float) -> int | None:
    """Return the largest sum of ranks that is significant (two-sided); None if even 0 is not."""
    if blocks > EXACT_BLOCKS:
        deviation = math.sqrt(blocks * (blocks + 1) * (2 * blocks + 1) / 24)
        return int(blocks * (blocks + 1) / 4 + float(special.ndtri(alpha / 2)) * deviation - 0.5)
    # The factor includes alpha itself, which a sum of halves can miss by its last digit.
    rare = int(np.searchsorted(_plain_ranks(blocks), alpha / 2 * (1 + 1e-12), side="right"))
    return rare - 1 if rare else None


def _search_walsh(differences: Array, places: list[int]) -> list[float]:
    ordered = np.sort(differences)
    positions = np.arange(len(ordered))

    def not_above(value: float) -> int:
        partners = np.searchsorted(ordered, 2 * value - ordered, side="right")
        return int(np.sum(np.maximum(partners - positions, 0)))

    low, high = float(np.nextafter(ordered[0], -np.inf)), float(ordered[-1])
    return [find_sorted(not_above, place, low, high) for place in places]


@functools.lru_cache(maxsize=16)
def _flips(blocks: int) -> tuple[Array, bool]:
    """Return patterns of signs, one per column, and whether all patterns are included.

    They never include the pattern that flips nothing.
    """
    if blocks <= ALL_SIGNS:
        patterns = np.arange(1, 2**blocks)
        return ((patterns[np.newaxis, :] >> np.arange(blocks)[:, np.newaxis]) & 1).astype(np.float64), True
    drawn = np.random.default_rng(7).integers(0, 2, size=(blocks, RESAMPLES))
    drawn[0, drawn.sum(axis=0) == 0] = 1
    return drawn.astype(np.float64), False


def sign_flip_floor(blocks: int) -> float:
    """Return the smallest p that `sign_flip` can give."""
    return blocked_floor(blocks) if blocks <= ALL_SIGNS else max(blocked_floor(blocks), 2 / (RESAMPLES + 1))


def sign_flip(differences: Array) -> tuple[Array, Array]:
    """Return sums of differences and their two-sided p; with more than 13 blocks, p comes from random sign patterns."""
    patterns, _ = _flips(differences.shape[1])
    clean = without_dust(differences)
    p = np.empty(len(clean))
    for part in steps(len(clean), patterns.shape[1]):
        # Flipping a set of differences lowers the sum by twice the sum of that set.
        moved = clean[part] @ patterns
        above, below = np.sum(moved <= 1e-9, axis=1), np.sum(moved >= -1e-9, axis=1)
        p[part] = 2 * (np.minimum(above, below) + 1) / (patterns.shape[1] + 1)
    return differences.sum(axis=1), np.minimum(p, 1.0)


def typical_values(differences: Array, alpha: float) -> tuple[Array, Array | None, Array | None]:
    """Return the mean difference and the interval that matches the sign-flip test (Hartigan's subset means).

    Return no interval if there are too few blocks.
    """
    patterns, _ = _flips(differences.shape[1])
    subsets = patterns.shape[1]
    rare = math.floor(alpha / 2 * (subsets + 1) * (1 + 1e-12)) - 1
    middle = differences.mean(axis=1)
    if rare < 0:
        return middle, None, None
    low, high = np.empty(len(differences)), np.empty(len(differences))
    sizes = patterns.sum(axis=0)
    for part in steps(len(differences), subsets):
        means = np.sort(differences[part] @ patterns / sizes, axis=1)
        low[part], high[part] = means[:, rare], means[:, subsets - 1 - rare]
    return middle, low, high


def paired_t(differences: Array) -> tuple[Array, Array]:
    """Return Student's t of the differences and its p. Without spread, t is NaN or infinite."""
    blocks = differences.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        t = differences.mean(axis=1) / (differences.std(axis=1, ddof=1) / math.sqrt(blocks))
    return t, 2 * special.stdtr(blocks - 1, -np.abs(t))
