# SPDX-License-Identifier: Apache-2.0
"""What remains of p-values when several questions were asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktrial.judge.stats.arrays import Array


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
