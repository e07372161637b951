# SPDX-License-Identifier: Apache-2.0
"""The smallest p that a layout can reach at all, whatever the data."""

from __future__ import annotations

import math

#: Random relabellings of a test that cannot try all of them; p is at least 1 / (this + 1).
RESAMPLES = 9_999


def unpaired_floor(n_control: int, n_arm: int) -> float:
    """Two-sided, of every test on labels that could be exchanged: two of all ways to pick the arm's units."""
    if not n_control or not n_arm:
        return 1.0
    return min(1.0, 2 / math.comb(n_control + n_arm, n_arm))


def blocked_floor(blocks: int) -> float:
    """Two-sided, of every test on the signs of block differences."""
    return min(1.0, math.ldexp(2.0, -blocks))
