# SPDX-License-Identifier: Apache-2.0
"""Tests and intervals for two arms without blocks. Each row is one comparison; all have equally many units."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from ktrial.judge.stats.arrays import Array, find_sorted, mean_ranks, steps, without_dust
from ktrial.judge.stats.multiplicity import RESAMPLES, unpaired_floor
from ktrial.kit.startup import load_special

special = load_special()

#: The distribution of rank sums is exact up to this many pairs without ties, and up to this many units with ties.
EXACT_PAIRS = 10_000
EXACT_TIED_UNITS = 80
#: Up to this many ways to choose the arm's units, all are tried.
ALL_PICKS = 20_000
#: With more units than this, no permutation test is made, because Welch's test gives the same.
RELABELLED_UNITS = 400


@functools.lru_cache(maxsize=256)
def _pairs_at_most(control: int, arm: int) -> Array:
    """Return P(U <= u) for each u, without ties."""
    previous: list[Array] = [np.ones(1) for _ in range(arm + 1)]
    for first in range(1, control + 1):
        row = [np.ones(1)]
        for second in range(1, arm + 1):
            chance = np.zeros(first * second + 1)
            # The largest value belongs to the arm with chance second / (first + second); it then exceeds all controls.
            from_arm = row[second - 1] * (second / (first + second))
            from_control = previous[second] * (first / (first + second))
            chance[first : first + len(from_arm)] += from_arm
            chance[: len(from_control)] += from_control
            row.append(chance)
        previous = row
    return np.minimum(np.cumsum(previous[arm]), 1.0)


@functools.lru_cache(maxsize=1024)
def _tied_sums(doubled: tuple[int, ...], arm: int) -> Array:
    """Return P(sum of the arm's doubled ranks = s) for each s, over all choices of the arm's units."""
    ways = np.zeros((arm + 1, sum(doubled) + 1))
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank]
    return np.asarray(ways[arm] / ways[arm].sum())


def rank_sum(control: Array, arm: Array) -> tuple[Array, Array]:
    """Return Mann-Whitney's U of the arm and its two-sided p.

    The p is exact, even with ties, unless there are many units.
    """
    n_control, n_arm = control.shape[1], arm.shape[1]
    units = n_control + n_arm
    ranks = mean_ranks(without_dust(np.concatenate([control, arm], axis=1)))
    sums = ranks[:, n_control:].sum(axis=1)
    u = sums - n_arm * (n_arm + 1) / 2
    smaller = np.minimum(u, n_control * n_arm - u)
    plain = np.all(np.sort(ranks, axis=1) == np.arange(1, units + 1), axis=1)
    p = np.empty(len(u))
    exact = plain & (n_control * n_arm <= EXACT_PAIRS)
    if exact.any():
        p[exact] = 2 * _pairs_at_most(n_control, n_arm)[smaller[exact].astype(np.int64)]
    for row in np.flatnonzero(~exact):
        if not plain[row] and units <= EXACT_TIED_UNITS:
            doubled = tuple(sorted(int(2 * rank) for rank in ranks[row]))
            chance, at = _tied_sums(doubled, n_arm), int(2 * sums[row])
            p[row] = 2 * min(chance[: at + 1].sum(), chance[at:].sum())
        else:
            p[row] = _normal_rank_sum(ranks[row], float(smaller[row]), n_control, n_arm)
    return u, np.minimum(p, 1.0)


def _normal_rank_sum(ranks: Array, smaller: float, n_control: int, n_arm: int) -> float:
    units = n_control + n_arm
    _, ties = np.unique(ranks, return_counts=True)
    variance = n_control * n_arm / 12 * (units + 1 - float(np.sum(ties**3 - ties)) / (units * (units - 1)))
    if variance <= 0:
        return 1.0
    return 2 * float(special.ndtr((smaller + 0.5 - n_control * n_arm / 2) / math.sqrt(variance)))


def critical_pairs(n_control: int, n_arm: int, alpha: float) -> int | None:
    """Return the largest U that is significant (two-sided); None if even 0 is not."""
    pairs = n_control * n_arm
    if pairs > EXACT_PAIRS:
        deviation = math.sqrt(pairs * (n_control + n_arm + 1) / 12)
        cut = math.floor(pairs / 2 + float(special.ndtri(alpha / 2)) * deviation - 0.5)
        return cut if cut >= 0 else None
    rare = int(np.searchsorted(_pairs_at_most(n_control, n_arm), alpha / 2 * (1 + 1e-12), side="right"))
    return rare - 1 if rare else None


def hodges_lehmann(control: Array, arm: Array, alpha: float) -> tuple[Array, Array | None, Array | None]:
    """Return the median of all differences arm - control, and its interval; no interval if units are too few.

    The interval is exact unless there are many units.
    """
    n_control, n_arm = control.shape[1], arm.shape[1]
    pairs = n_control * n_arm
    cut = critical_pairs(n_control, n_arm, alpha)
    places = [(pairs - 1) // 2, pairs // 2, *(() if cut is None else (cut, pairs - 1 - cut))]
    found = np.empty((len(control), len(places)))
    if pairs > 1_000_000:
        for row in range(len(control)):
            found[row] = _search_differences(control[row], arm[row], places)
    else:
        for part in steps(len(control), pairs):
            differences = arm[part][:, :, np.newaxis] - control[part][:, np.newaxis, :]
            found[part] = np.sort(differences.reshape(-1, pairs), axis=1)[:, places]
    middle = (found[:, 0] + found[:, 1]) / 2
    return middle, None if cut is None else found[:, 2], None if cut is None else found[:, 3]


def _search_differences(control: Array, arm: Array, places: list[int]) -> list[float]:
    ordered = np.sort(arm)

    def not_above(value: float) -> int:
        return int(np.searchsorted(ordered, control + value, side="right").sum())

    low = float(np.nextafter(ordered[0] - control.max(), -np.inf))
    high = float(np.nextafter(ordered[-1] - control.min(), np.inf))
    return [find_sorted(not_above, place, low, high) for place in places]


@functools.lru_cache(maxsize=16)
def _picks(n_control: int, n_arm: int) -> tuple[Array, bool]:
    """Return weights for the difference of means, a column for each choice of the arm's units.

    Also return whether all choices are included.
    """
    units = n_control + n_arm
    if math.comb(units, n_arm) <= ALL_PICKS:
        picked = np.array(list(itertools.combinations(range(units), n_arm)), dtype=np.int64)
        complete = True
    else:
        drawn = np.tile(np.arange(units), (RESAMPLES, 1))
        picked = np.random.default_rng(7).permuted(drawn, axis=1)[:, :n_arm]
        complete = False
    weights = np.full((units, len(picked)), -1.0 / n_control)
    weights[picked.T, np.arange(len(picked))] = 1.0 / n_arm
    return weights, complete


def permutation_floor(n_control: int, n_arm: int) -> float:
    """Return the smallest p that `permutation` can give."""
    floor = unpaired_floor(n_control, n_arm)
    return floor if math.comb(n_control + n_arm, n_arm) <= ALL_PICKS else max(floor, 2 / (RESAMPLES + 1))


def permutation(control: Array, arm: Array) -> tuple[Array, Array] | None:
    """Return differences of means and their two-sided p over all relabellings or, if these are many, over a sample.

    Return None if there are too many units.
    """
    n_control, n_arm = control.shape[1], arm.shape[1]
    if n_control + n_arm > RELABELLED_UNITS:
        return None
    weights, complete = _picks(n_control, n_arm)
    clean = without_dust(np.concatenate([control, arm], axis=1))
    seen = clean[:, n_control:].mean(axis=1) - clean[:, :n_control].mean(axis=1)
    extra = 0 if complete else 1
    p = np.empty(len(control))
    for part in steps(len(control), weights.shape[1]):
        relabelled = clean[part] @ weights
        above = np.sum(relabelled >= seen[part, np.newaxis] - 1e-9, axis=1)
        below = np.sum(relabelled <= seen[part, np.newaxis] + 1e-9, axis=1)
        p[part] = 2 * (np.minimum(above, below) + extra) / (weights.shape[1] + extra)
    return arm.mean(axis=1) - control.mean(axis=1), np.minimum(p, 1.0)


def welch(control: Array, arm: Array) -> tuple[Array, Array]:
    """Return Welch's t and its p; p is NaN without spread or with a single value."""
    n_control, n_arm = control.shape[1], arm.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        share_control = np.var(control, axis=1, ddof=1) / n_control if n_control > 1 else np.full(len(control), np.nan)
        share_arm = np.var(arm, axis=1, ddof=1) / n_arm if n_arm > 1 else np.full(len(arm), np.nan)
        t = (arm.mean(axis=1) - control.mean(axis=1)) / np.sqrt(share_control + share_arm)
        freedom = (share_control + share_arm) ** 2 / (
            share_control**2 / max(n_control - 1, 1) + share_arm**2 / max(n_arm - 1, 1)
        )
    return t, 2 * special.stdtr(freedom, -np.abs(t))
