# SPDX-License-Identifier: Apache-2.0
"""Several questions asked of one trial: how many of the answers may be believed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

Found = TypeVar("Found")

#: Exploratory outcomes: the share of false ones among those that are named.
EXPLORATORY_RATE = 0.10


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p by Holm's step-down method, in the order given."""
    count = len(p_values)
    order = np.argsort(np.asarray(p_values, dtype=np.float64), kind="stable")
    adjusted = [0.0] * count
    largest = 0.0
    for place, index in enumerate(order.tolist()):
        largest = max(largest, min(1.0, (count - place) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p by Benjamini and Hochberg's method, in the order given."""
    count = len(p_values)
    order = np.argsort(np.asarray(p_values, dtype=np.float64), kind="stable")
    adjusted = [0.0] * count
    smallest = 1.0
    for place in range(count - 1, -1, -1):
        index = int(order[place])
        smallest = min(smallest, p_values[index] * count / (place + 1))
        adjusted[index] = smallest
    return tuple(adjusted)


def holm_over_tables(members: int, read: Callable[[int, int], Found | None]) -> tuple[Found | None, ...]:
    """Holm's method over sequential tables: all are read at row `members`; each one found lets the rest be read wider.

    `read(member, row)` is what one member shows at 0.05/row, None where nothing. Rows are nested, so that what was
    found once stays found.
    """
    found: list[Found | None] = [None] * members
    row = members
    while row:
        for member in range(members):
            if found[member] is None:
                found[member] = read(member, row)
        left = sum(one is None for one in found)
        if left == row:
            break
        row = left
    return tuple(found)
