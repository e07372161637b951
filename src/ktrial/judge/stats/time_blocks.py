# SPDX-License-Identifier: Apache-2.0
"""Intervals for figures of one recording, by a circular block bootstrap over its time."""

from __future__ import annotations

import numpy as np

from ktrial.judge.model.interval import Interval
from ktrial.judge.stats.arrays import Array

#: The length of resampled blocks, or a sixtieth of the recording if that is longer: events in a block may be related.
BLOCK_S = 10.0
_FEWEST_BLOCKS = 6
#: Cells per block; a block may begin at any cell.
_CELLS = 4
_DRAWS = 1999
_SEED = 20261122


def cells_of(length_s: float) -> int | None:
    """Return the number of cells into which to cut a recording; None if it is too short for blocks."""
    blocks = int(length_s / max(BLOCK_S, length_s / 60)) if length_s > 0 else 0
    return blocks * _CELLS if blocks >= _FEWEST_BLOCKS else None


def cell_of_each(at_s: Array, begin_s: float, length_s: float, cells: int) -> Array:
    return np.clip(((at_s - begin_s) / length_s * cells).astype(np.int64), 0, cells - 1)


def drawn_again(table: Array) -> Array:
    """Return the sums of resampled recordings of the same length, a row per draw; `table` has a row per cell."""
    cells = len(table)
    begins = np.random.default_rng(_SEED).integers(0, cells, size=(_DRAWS, cells // _CELLS))
    return np.asarray(sum(table[(begins + step) % cells].sum(axis=1) for step in range(_CELLS)))


def mean_over(times_s: Array, values: Array, begin_s: float, end_s: float) -> Interval:
    estimate = float(values.mean())
    cells = cells_of(end_s - begin_s)
    if cells is None:
        return Interval(estimate=estimate)
    place = cell_of_each(times_s, begin_s, end_s - begin_s, cells)
    sums = np.bincount(place, weights=values, minlength=cells)
    drawn = drawn_again(np.stack([sums, np.bincount(place, minlength=cells)], axis=1))
    read = drawn[:, 1] > 0
    low, high = np.quantile(drawn[read, 0] / drawn[read, 1], [0.025, 0.975])
    return Interval(estimate=estimate, low=float(low), high=float(high))
