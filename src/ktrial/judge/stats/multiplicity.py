# SPDX-License-Identifier: Apache-2.0
"""The smallest p that a layout can reach at all, and what remains of p-values when several questions were asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ktrial.judge.stats.arrays import Array

#: Random relabellings of a test that cannot try all of them; p is at least 1 / (this + 1).
RESAMPLES = 9_999


def unpaired_floor(n_control: int, n_arm: int) -> float:
    """Two-sided, of every test on labels that could be exchanged: two of all ways to pick the arm's units."""
    return min(1.0, 2 / math.comb(n_control + n_arm, n_arm))


def blocked_floor(blocks: int) -> float:
    """Two-sided, of every test on the signs of block differences."""
    return min(1.0, math.ldexp(2.0, -blocks))


def holm(p: Sequence[float]) -> Array:
    """Adjusted by Holm: the chance of any false claim in the family stays below alpha."""
    given = np.asarray(p, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    stepped = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def benjamini_hochberg(p: Sequence[float]) -> Array:
    """Adjusted by Benjamini and Hochberg: the share of false claims among all claims stays below alpha."""
    given = np.asarray(p, dtype=np.float64)
    order = np.argsort(given, kind="stable")[::-1]
    stepped = np.minimum.accumulate(given[order] * len(given) / np.arange(len(given), 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
