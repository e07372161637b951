# SPDX-License-Identifier: Apache-2.0
"""Several questions asked of one trial: how many of the answers may be believed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

#: Exploratory outcomes: the share of false ones among those that are named.
EXPLORATORY_RATE = 0.10


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
