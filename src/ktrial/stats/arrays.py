# SPDX-License-Identifier: Apache-2.0
"""What the questions share: the type of an array, and sorted positions that need not be built to be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
#: How many numbers one step holds at most.
STEP = 4_000_000


def steps(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows such that one slice of that width fits into a step."""
    size = max(1, STEP // max(1, width))
    for begin in range(0, rows, size):
        yield slice(begin, min(rows, begin + size))


def without_dust(values: Array) -> Array:
    """Rows rounded to 12 digits of their largest value: what differs by the rounding of a logarithm is a tie."""
    largest = np.max(np.abs(values), axis=1, keepdims=True)
    largest[largest == 0] = 1.0
    return np.asarray(np.round(values / largest, 12))


def find_sorted(count: Callable[[float], int], position: int, low: float, high: float) -> float:
    """The value at a position of a sorted collection between two bounds; `count` tells how many are not above one."""
    for _ in range(200):
        middle = low + (high - low) / 2
        if middle in {low, high}:
            break
        if count(middle) > position:
            high = middle
        else:
            low = middle
    return high
