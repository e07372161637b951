# SPDX-License-Identifier: Apache-2.0
"""Change points: the places at which a time series changes its level.

The candidates are the cuts of the best piecewise constant fit by least squares. Each cut costs 3 s^2 log n (exact
dynamic programming, "optimal partitioning", Jackson et al. 2005). s^2 comes from differences of neighbours, which a few
changes of level hardly affect.

Candidates count only if the series departs from one level more than its values do in random order. The departure is the
largest step, or a stretch at another level. Without a change, the chance of finding one is therefore at most `alpha` if
sessions are independent.

Each cut is then tested by the largest step in the two pieces beside it. The weakest is removed and the rest tested
again, until all are significant at `alpha`, corrected for their number.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from ktrial.judge.model.verdict import NEEDED
from ktrial.judge.stats.arrays import Array, steps

#: A level needs at least this many values.
FEWEST = 3
_PENALTY = 3.0
_ORDERS = 1999
_SEED = 20261121


class ChangePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A change of level before the value at `place` (from 0); `p` is not corrected for the number of change points."""

    place: int
    p: float


def change_points(values: Array, alpha: float = 0.05) -> tuple[ChangePoint, ...]:
    """Return the change points in order of place; none if there are too few values or all values are equal."""
    if len(values) < NEEDED or np.ptp(values) <= 1e-12 * float(np.max(np.abs(values))):
        return ()
    centred = values - np.median(values)
    cuts = _best_cuts(centred, _PENALTY * _noise(centred) * float(np.log(len(centred))))
    if not cuts or _chance(centred, _greatest_departure) > alpha:
        return ()
    while cuts:
        bounds = [0, *cuts, len(centred)]
        chances = [_chance(centred[bounds[one] : bounds[one + 2]], _greatest_step) for one in range(len(cuts))]
        weakest = int(np.argmax(chances))
        if chances[weakest] * len(cuts) <= alpha:
            return tuple(ChangePoint(place=cut, p=p) for cut, p in zip(cuts, chances, strict=True))
        del cuts[weakest]
    return ()


def _noise(values: Array) -> float:
    """Return the variance of one value from the median step between neighbours, or the mean step if most are equal."""
    between = np.diff(values)
    robust = float(np.median(np.abs(between)) / 0.6744897501960817) ** 2 / 2
    return robust or float(np.mean(between**2)) / 2


def _best_cuts(values: Array, penalty: float) -> list[int]:
    """Return the cuts of the cheapest partition into pieces of at least FEWEST values."""
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    squares = np.concatenate([[0.0], np.cumsum(values**2)])
    cost = np.full(n + 1, np.inf)
    cost[0] = -penalty
    last = np.zeros(n + 1, dtype=np.int64)
    for end in range(FEWEST, n + 1):
        begins = np.arange(0, end - FEWEST + 1)
        within = squares[end] - squares[begins] - (sums[end] - sums[begins]) ** 2 / (end - begins)
        total = cost[begins] + within + penalty
        last[end] = int(np.argmin(total))
        cost[end] = float(total[last[end]])
    cuts: list[int] = []
    end = int(last[n])
    while end:
        cuts.append(end)
        end = int(last[end])
    return cuts[::-1]


def _chance(values: Array, statistic: Callable[[Array], Array]) -> float:
    """Return how often values in random order reach the observed statistic; the observed order counts as one."""
    generator = np.random.default_rng(_SEED)
    seen = float(statistic(values[np.newaxis])[0]) * (1 - 1e-9)
    reached = 1
    for part in steps(_ORDERS, len(values)):
        rows = np.broadcast_to(values, (part.stop - part.start, len(values)))
        reached += int(np.sum(statistic(generator.permuted(rows, axis=1)) >= seen))
    return reached / (_ORDERS + 1)


def _greatest_step(rows: Array) -> Array:
    """Return the largest difference of means before and after a place, over its standard error for unit noise."""
    n = rows.shape[1]
    before = np.arange(FEWEST, n - FEWEST + 1)
    sums = np.cumsum(rows, axis=1)
    left = sums[:, before - 1]
    right = sums[:, -1:] - left
    greatest = np.abs(left / before - right / (n - before)) * np.sqrt(before * (n - before) / n)
    return np.asarray(greatest.max(axis=1))


def _greatest_departure(rows: Array) -> Array:
    """Return the largest step, or the largest difference of a stretch from the rest, over lengths growing by half."""
    n = rows.shape[1]
    found = _greatest_step(rows)
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    length = FEWEST
    while length <= n // 2:
        inside = sums[:, length:] - sums[:, :-length]
        apart = np.abs(inside / length - (sums[:, -1:] - inside) / (n - length)) * np.sqrt(length * (n - length) / n)
        found = np.maximum(found, apart.max(axis=1))
        length = max(length + 1, length * 3 // 2)
    return np.asarray(found)
