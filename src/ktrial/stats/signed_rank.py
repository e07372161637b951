# SPDX-License-Identifier: Apache-2.0
"""The exact signed-rank test and its interval at one look, for any number of blocks, with ties and zeros.

Both rest on the coin that chose the order in each block: given the sizes of the differences, all signs are as likely.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ktrial.stats.sequential import Array, median_of_sorted, walsh

#: Sums of ranks are kept as twice their value, so that mean ranks of ties are whole numbers.
_DOUBLE = 2


def smallest_p(blocks: int) -> float:
    """The smallest two-sided p that so many blocks can reach at all."""
    return min(1.0, 2.0 ** (1 - blocks))


def signed_rank_p(differences: Array) -> float:
    """Two-sided exact p; zeros take their ranks and then leave the sum (Pratt), tied sizes share their mean rank."""
    if not len(differences):
        return 1.0
    doubled = np.rint(_DOUBLE * _mean_ranks(np.abs(differences))).astype(np.int64)
    signed = differences != 0
    ranks = doubled[signed]
    positive = int(doubled[differences > 0].sum())
    chances = _sum_chances(ranks)
    tail = min(positive, int(ranks.sum()) - positive)
    return min(1.0, 2 * float(chances[: tail + 1].sum()))


def single_look(blocks: int, alpha: float = 0.05) -> int | None:
    """The index of the one-look interval into the sorted Walsh averages; None where so few blocks have none."""
    cumulative = np.cumsum(_whole_rank_chances(blocks))
    allowed = np.nonzero(2 * cumulative <= alpha * (1 + 1e-12))[0]
    return int(allowed[-1]) if len(allowed) else None


def single_look_interval(differences: Array, alpha: float = 0.05) -> tuple[float, float, float] | None:
    """Hodges-Lehmann estimate with its one-look interval: (estimate, low, high)."""
    index = single_look(len(differences), alpha)
    if index is None:
        return None
    means = walsh(differences)
    return median_of_sorted(means), float(means[index]), float(means[-1 - index])


def _mean_ranks(sizes: Array) -> Array:
    """Ranks from 1; equal sizes share the mean of theirs."""
    ordered = np.sort(sizes)
    below = np.searchsorted(ordered, sizes, side="left")
    up_to = np.searchsorted(ordered, sizes, side="right")
    ranks: Array = (below + up_to + 1) / 2.0
    return ranks


@cache
def _whole_rank_chances(blocks: int) -> Array:
    return _sum_chances(np.arange(1, blocks + 1))


def _sum_chances(ranks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Array:
    """Chance of each sum of positive ranks, when each rank is positive or not by a fair coin."""
    chances = np.zeros(int(ranks.sum()) + 1)
    chances[0] = 1.0
    reached = 0
    for rank in ranks.tolist():
        moved = chances[: reached + 1] / 2
        chances[: reached + 1] = moved
        chances[rank : rank + reached + 1] += moved
        reached += rank
    return chances
