# SPDX-License-Identifier: Apache-2.0
"""The sequential decision of one comparison, from block differences, with looks after 7, 9, 12, … blocks.

Under "no difference" the sign of each block's difference is a fair coin, because the order within the block was drawn.
Nothing else is assumed about the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ktrial.judge.model.verdict import Verdict, WorthIt
from ktrial.judge.stats.critical import CRITICAL, LOOKS, ROWS, indices
from ktrial.kit.errors import BadInput

Array: TypeAlias = NDArray[np.float64]
Why = Literal["open", "fast path", "boundary", "cap", "futility"]

#: The error of the whole procedure that the tables were computed for.
ALPHA = 0.05
MOST_COMPARISONS = ROWS[-1]
#: The fast path may decide once, after this block.
FAST_BLOCKS = 4
#: The fast path needs a noise profile of at least this many A/A blocks.
PROFILE_BLOCKS = 10
#: The fast path needs each block beyond the profile's largest difference by this factor, for one comparison or several.
_FAST_FACTOR, _FAST_FACTOR_SEVERAL = 1.5, 2.0
_FAST_MOST_COMPARISONS = 4
#: From this look on a trial is given up if the chance of any verdict at the cap is below this.
_FUTILE_FROM, _FUTILE_CHANCE = 12, 0.10
#: Half width of the last look's interval in standard errors, and the interquartile range of Walsh averages per sd.
_LAST_LOOK_Z, _WALSH_IQR = 2.25, 0.95
#: Differences that agree to this many digits are ties; multiplying values by a constant leaves such rounding errors.
TIE_DIGITS = 12


class Rule(NamedTuple):
    """How to decide one comparison. `margin`, `profile` and `resolution` are on the scale of the differences.

    `row` is a row of the table; its error is 0.05/row. `comparisons` is how many comparisons the trial has. `profile`
    holds differences of A/A blocks (both arms the same); a trial without a profile cannot use the fast path, which
    decides after four blocks.
    """

    cap: int
    margin: float
    row: int = 1
    comparisons: int = 1
    profile: tuple[float, ...] | None = None
    resolution: float = 0.0


class Decision(NamedTuple):
    """The state of one comparison.

    `verdict` is None while the comparison is open; `low` and `high` are None before the first look.
    """

    verdict: Verdict | None
    why: Why
    blocks: int
    estimate: float
    low: float | None
    high: float | None


def cap_of(blocks: int) -> int:
    """Return the smallest cap of the table with at least this many blocks. Raise BadInput if all caps are smaller."""
    for cap in LOOKS:
        if cap >= blocks:
            return cap
    raise BadInput(
        f"{blocks} blocks are too many (maximum {LOOKS[-1]})",
        hint="lower --budget or --runs",
    )


def row_of(alpha: float, comparisons: int) -> int:
    """Return the row of the table at which all comparisons together have an error of at most `alpha`."""
    if not 0 < alpha <= ALPHA:
        raise BadInput(
            f"alpha: expected a value above 0 and up to {ALPHA}, got {alpha:g}", hint=f"for example  alpha = {ALPHA}"
        )
    return math.ceil(comparisons * ALPHA / alpha - 1e-9)


def looks(cap: int, row: int = 1) -> Mapping[int, int]:
    """Return the number of blocks at each deciding look, with its critical index. Raise BadInput if no look decides."""
    if cap not in CRITICAL:
        raise BadInput(
            f"cap: expected one of {', '.join(map(str, LOOKS))}, got {cap}", hint="correct cap in the protocol"
        )
    found = _looks(cap, row)
    if not found:
        raise BadInput(
            f"{cap} blocks cannot decide {row} comparisons at once",
            hint=f"use more blocks or fewer comparisons (at most {MOST_COMPARISONS})",
        )
    return found


@cache
def _looks(cap: int, row: int) -> Mapping[int, int]:
    return {blocks: index for blocks, index in zip(LOOKS, indices(cap, row), strict=False) if index is not None}


def block_differences(control: Array, arm: Array) -> Array:
    """Return the score of the arm minus the control's, block by block, rounded so that ties are equal."""
    return np.round(arm - control, TIE_DIGITS)


@cache
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = np.triu_indices(n)
    return first, second


def walsh(differences: Array) -> Array:
    """Return the sorted means of all pairs of differences, including pairs of a difference with itself."""
    first, second = _pairs(len(differences))
    means = (differences[first] + differences[second]) * 0.5
    means.sort()
    return means


def median_of_sorted(values: Array) -> float:
    half = len(values) // 2
    return float(values[half]) if len(values) % 2 else float(values[half - 1] + values[half]) / 2


def hodges_lehmann(differences: Array) -> float:
    return median_of_sorted(walsh(differences))


def call(low: float, high: float, margin: float) -> Verdict | None:
    """Return the verdict that an interval supports; None if it supports none."""
    if -margin < low and high < margin:
        return "equivalent"
    if low > 0:
        return "better"
    return "worse" if high < 0 else None


def worth_it(verdict: Verdict | None, estimate: float, low: float, high: float, margin: float) -> WorthIt | None:
    """Return how surely a difference is large enough to matter; None if the verdict claims no difference."""
    if verdict not in {"better", "worse"}:
        return None
    near = low if verdict == "better" else -high
    if near >= margin:
        return "yes"
    return "likely" if abs(estimate) >= margin else "unclear"


def decide(differences: Array, rule: Rule) -> Decision:
    """Return the decision after all blocks in `differences`. A decision at an earlier look is final."""
    return fast_path(differences, rule) or _looked_at(differences, rule)


def fast_path(differences: Array, rule: Rule) -> Decision | None:
    """Return the early decision after four blocks, if there is a profile and the effect is huge; otherwise None."""
    reach = _fast_reach(rule)
    if reach is None or len(differences) < FAST_BLOCKS:
        return None
    first = differences[:FAST_BLOCKS]
    low, high = float(first.min()), float(first.max())
    if not (low > 0 or high < 0) or min(abs(low), abs(high)) <= max(reach, 2 * rule.margin):
        return None
    around = max(reach, rule.resolution)
    estimate = hodges_lehmann(first)
    return Decision("better" if low > 0 else "worse", "fast path", FAST_BLOCKS, estimate, low - around, high + around)


def _fast_reach(rule: Rule) -> float | None:
    profile = rule.profile
    if profile is None or len(profile) < PROFILE_BLOCKS or rule.comparisons > _FAST_MOST_COMPARISONS:
        return None
    if max(profile) == min(profile):
        return None
    factor = _FAST_FACTOR if rule.comparisons == 1 else _FAST_FACTOR_SEVERAL
    return factor * float(max(abs(value) for value in profile))


class LookSeen(NamedTuple):
    """One look: the intersection of the intervals so far, and the sorted Walsh averages of the blocks up to it."""

    blocks: int
    low: float
    high: float
    means: Array


def intervals(differences: Array, cap: int, row: int) -> Iterator[LookSeen]:
    """Yield all looks so far, including looks after a verdict."""
    low, high = -math.inf, math.inf
    for blocks, index in looks(cap, row).items():
        if blocks > len(differences):
            return
        means = walsh(differences[:blocks])
        low, high = _intersected(low, high, float(means[index]), float(means[-1 - index]))
        yield LookSeen(blocks, low, high, means)


def _looked_at(differences: Array, rule: Rule) -> Decision:
    last = None
    for last in intervals(differences, rule.cap, rule.row):
        verdict = call(last.low, last.high, rule.margin)
        why: Why = "boundary"
        if verdict is None and last.blocks == rule.cap:
            verdict, why = "inconclusive", "cap"
        elif verdict is None and _is_futile(last, rule):
            verdict, why = "inconclusive", "futility"
        if verdict is not None:
            return Decision(verdict, why, last.blocks, median_of_sorted(last.means), last.low, last.high)
    estimate = hodges_lehmann(differences) if len(differences) else math.nan
    low, high = (None, None) if last is None else (last.low, last.high)
    return Decision(None, "open", len(differences), estimate, low, high)


def _is_futile(seen: LookSeen, rule: Rule) -> bool:
    return seen.blocks >= _FUTILE_FROM and chance_of_verdict(seen.means, seen.blocks, rule) < _FUTILE_CHANCE


def interval_at(differences: Array, cap: int, row: int) -> tuple[float, float] | None:
    """Return the intersection of the intervals of all looks so far; None before the first look."""
    ends = [(seen.low, seen.high) for seen in intervals(differences, cap, row)]
    return ends[-1] if ends else None


def first_exclusion(differences: Array, cap: int, row: int) -> Verdict | None:
    """Return the side, better or worse, of the first interval that excludes zero; None if none does."""
    for seen in intervals(differences, cap, row):
        if seen.low > 0 or seen.high < 0:
            return "better" if seen.low > 0 else "worse"
    return None


def _intersected(low: float, high: float, newest_low: float, newest_high: float) -> tuple[float, float]:
    """Return the intersection of two intervals; the newest one if they are disjoint."""
    both = max(low, newest_low), min(high, newest_high)
    return both if both[0] <= both[1] else (newest_low, newest_high)


def chance_of_verdict(means: Array, blocks: int, rule: Rule) -> float:
    """Return the chance of any verdict at the cap, from the current sorted Walsh averages."""
    spread = (_quantile(means, 0.75) - _quantile(means, 0.25)) / _WALSH_IQR
    if spread <= 0:
        return 1.0
    half = _LAST_LOOK_Z * spread / math.sqrt(rule.cap)
    error = spread * math.sqrt(1 / blocks - 1 / rule.cap)
    effect = abs(median_of_sorted(means))
    return _above((half - effect) / error) + _above(-(rule.margin - half - effect) / error)


def _above(z: float) -> float:
    """Return the upper tail probability of the standard normal distribution."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def _quantile(ordered: Array, share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    return float(ordered[below] + (ordered[below + 1] - ordered[below]) * (place - below))


def as_array(values: Sequence[float] | Any) -> Array:
    return np.asarray(values, dtype=np.float64)
