# SPDX-License-Identifier: Apache-2.0
"""Counters that may be zero: a sign-flip test of paired counts, which also gives the interval of the ratio of rates.

The test needs no logarithm and assumes no distribution: under "no difference", control and arm of a block are
exchangeable because a coin chose their order. The number of blocks is fixed beforehand; there is one look, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ktrial.judge.model.judgement import Counter
from ktrial.judge.sequential import Array

#: Up to this many blocks all sign patterns are tried; with more blocks, this many random patterns.
EXACT_BLOCKS = 13
FLIPS = 10_000
#: A fixed seed for the random patterns, so that a verdict can be recomputed.
_FLIP_SEED = 20
#: Rule of three: with no event in n blocks, this divided by n bounds the rate at 95 %.
_NO_EVENT = 3.0
_HALVINGS = 60
#: Sums closer than this share of their size are equal.
_SAME = 1e-9


def sign_flip_p(differences: Array) -> float:
    """Return the two-sided p of the sum of differences, zeros included.

    With more than 13 blocks, p comes from 10,000 random flips.
    """
    if not len(differences):
        return 1.0
    return _p_of(differences, signs_of(len(differences)))


def count_result(control: Array, arm: Array, alpha: float = 0.05) -> Counter:
    """Return the result of a counter, with the interval of the ratio at the confidence 1 - `alpha`."""
    blocks = len(control)
    signs = signs_of(blocks)
    control_total, arm_total = float(control.sum()), float(arm.sum())
    silent = control_total == 0 and arm_total == 0
    low, high = (None, None) if silent else _ratio_interval(control, arm, alpha, signs)
    return Counter(
        p=_p_of(control - arm, signs),
        control_total=control_total,
        arm_total=arm_total,
        control_zero_share=float((control == 0).mean()),
        arm_zero_share=float((arm == 0).mean()),
        ratio=arm_total / control_total if control_total else None,
        low=low,
        high=high,
        bound=_NO_EVENT / blocks if silent else None,
    )


def difference_interval(differences: Array, alpha: float = 0.05) -> tuple[float, float] | None:
    """Return the interval of shifts that the sign-flip test does not reject; None if there are too few blocks."""
    signs = signs_of(len(differences))
    return shift_interval(differences, lambda shifted: _p_of(shifted, signs), alpha)


def shift_interval(differences: Array, p_of: Callable[[Array], float], alpha: float) -> tuple[float, float] | None:
    """Return the interval of shifts that a test does not reject; None if there are too few blocks."""
    middle = float(differences.mean())
    # Equal differences have no spread, but still need an interval around them.
    reach = float(np.abs(differences - middle).max()) or abs(middle) or 1.0
    # Shifted this far, all differences have the same sign, which gives the smallest possible p.
    far = middle - 2 * len(differences) * reach, middle + 2 * len(differences) * reach
    ends = []
    for end in far:
        if p_of(differences - end) > alpha:
            return None
        ends.append(_edge(lambda shift: p_of(differences - shift) > alpha, inside=middle, outside=end))
    return ends[0], ends[1]


def _ratio_interval(control: Array, arm: Array, alpha: float, signs: Array) -> tuple[float | None, float | None]:
    """Return the interval of ratios of rates that the test does not reject; None for an end without bound."""

    def accepts(ratio: float) -> bool:
        return _p_of(ratio * control - arm, signs) > alpha

    control_total, arm_total = float(control.sum()), float(arm.sum())
    if control_total == 0:
        return None, None
    middle = arm_total / control_total
    low = 0.0 if accepts(0.0) else _edge(accepts, inside=middle, outside=0.0)
    if _p_of(control, signs) > alpha:
        return low, None
    outside = max(middle, 1.0)
    while accepts(outside):
        outside *= 2
        if not math.isfinite(outside):
            return low, None
    return low, _edge(accepts, inside=middle, outside=outside)


def _edge(accepts: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the last accepted value between an accepted and a rejected one, by bisection."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if middle in {inside, outside}:
            break
        if accepts(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _p_of(differences: Array, signs: Array) -> float:
    total = abs(float(differences.sum()))
    sums = np.abs(signs @ differences)
    slack = _SAME * float(np.abs(differences).sum())
    return share_of_flips(int((sums >= total - slack).sum()), len(differences))


def share_of_flips(hits: int, blocks: int) -> float:
    """Return p from the number of sign patterns at least as extreme as the observed one."""
    # The full set contains the observed pattern; a random sample must count it as one more.
    return hits / 2**blocks if blocks <= EXACT_BLOCKS else (1 + hits) / (1 + FLIPS)


@lru_cache(maxsize=8)
def signs_of(blocks: int) -> Array:
    """Return sign patterns, one a row: all patterns of up to 13 blocks, otherwise 10,000 random ones."""
    if blocks <= EXACT_BLOCKS:
        patterns = np.arange(2**blocks)[:, None] >> np.arange(blocks)
        return np.where(patterns & 1, 1.0, -1.0)
    generator = np.random.Generator(np.random.PCG64(_FLIP_SEED))
    return generator.choice(np.array((-1.0, 1.0)), (FLIPS, blocks))
