# SPDX-License-Identifier: Apache-2.0
"""Corrections of p-values for several comparisons, and the smallest p that a layout can reach."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ktrial.judge.stats.arrays import Array

#: Random relabellings for a test that cannot try all; p is at least 1 / (this + 1).
RESAMPLES = 9_999


def unpaired_floor(n_control: int, n_arm: int) -> float:
    """Return the smallest two-sided p of a permutation test: 2 / (number of ways to choose the arm's units)."""
    return min(1.0, 2 / math.comb(n_control + n_arm, n_arm))


def blocked_floor(blocks: int) -> float:
    """Return the smallest two-sided p of a test on the signs of block differences."""
    return min(1.0, math.ldexp(2.0, -blocks))


def holm(p: Sequence[float]) -> Array:
    """Return p-values adjusted by Holm, which limits the chance of any false claim among them."""
    given = np.asarray(p, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    stepped = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def benjamini_hochberg(p: Sequence[float]) -> Array:
    """Return p-values adjusted by Benjamini and Hochberg, which limits the share of false claims among all claims."""
    given = np.asarray(p, dtype=np.float64)
    order = np.argsort(given, kind="stable")[::-1]
    stepped = np.minimum.accumulate(given[order] * len(given) / np.arange(len(given), 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
