# SPDX-License-Identifier: Apache-2.0
"""Shared array helpers: types, ranks, and order statistics of collections that are too large to build."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]
#: One step of a computation holds at most this many numbers.
STEP = 4_000_000


def steps(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows of this width, each small enough to be computed at once."""
    size = max(1, STEP // max(1, width))
    for begin in range(0, rows, size):
        yield slice(begin, min(rows, begin + size))


def without_dust(values: Array) -> Array:
    """Return each row divided by its largest absolute value and rounded to 12 digits: rounding errors become ties."""
    largest = np.max(np.abs(values), axis=1, keepdims=True)
    largest[largest == 0] = 1.0
    return np.asarray(np.round(values / largest, 12))


def mean_ranks(values: Array) -> Array:
    """Return ranks within each row, from 1; equal values get the mean of their ranks."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    last = values.shape[1] - 1
    places = np.broadcast_to(np.arange(last + 1), values.shape)
    steps_up = ordered[:, 1:] != ordered[:, :-1]
    edge = np.ones((len(values), 1), dtype=bool)
    begins = np.maximum.accumulate(np.where(np.hstack([edge, steps_up]), places, 0), axis=1)
    ends = np.minimum.accumulate(np.where(np.hstack([steps_up, edge]), places, last)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (begins + ends) / 2 + 1, axis=1)
    return ranks


def find_sorted(count: Callable[[float], int], position: int, low: float, high: float) -> float:
    """Return the value at a position of a sorted collection, by bisection between two bounds.

    `count` returns how many values are not above its argument.
    """
    for _ in range(200):
        middle = low + (high - low) / 2
        if middle in {low, high}:
            break
        if count(middle) > position:
            high = middle
        else:
            low = middle
    return high
