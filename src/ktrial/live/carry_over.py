# SPDX-License-Identifier: Apache-2.0
"""Estimates the carry-over of an arm after the washout, and whether the outcome still moves within periods.

The estimate is the same as in the judge's check of carry-over. Its p comes from other random orders within blocks,
because ktrial drew nothing but the order. The noise may therefore be correlated in any way. An effect that never ends
after the first period of an arm makes no difference between periods, and this test cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ktrial.judge.model.verdict import Effect
from ktrial.judge.sequential import Array
from ktrial.judge.stats.signflip import difference_interval, sign_flip_p
from ktrial.judge.validity_checks import fit_carry_over
from ktrial.kit.finding import Finding

#: Number of times that the orders are drawn again, and the seed, which makes a report reproducible.
REDRAWS, _SEED = 499, 34
#: A carry-over with this p or a smaller one is a finding.
P_STAYS = 0.01
_CONFIDENCE = 0.95
_STAYS = "least squares of successive periods, interval by drawing the orders again"
_COURSE = "difference of the arms' late and early halves, interval by sign flips"


class PeriodScore(NamedTuple):
    """A period of a complete block: its score (log, larger is better), and the scores of its two halves."""

    block: int
    arm: str
    score: float
    early: float | None = None
    late: float | None = None


class CarryOver(msgspec.Struct, frozen=True, kw_only=True):
    """The carry-over of an arm. `stays` is the effect of the arm's period on the next period, after the washout.

    `course` is how much the arm's score changes from the first half of a period to the second, less the same change of
    the control; null if halves are unknown. The true effect is larger than the trial's estimate by half of `stays`.
    """

    arm: str
    against: str
    washout_s: float
    stays: Effect
    p: float
    course: Effect | None = None
    course_p: float | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        found = []
        if self.p < P_STAYS:
            found.append(self._stays_finding())
        if self.course is not None and self.course_p is not None and self.course_p < P_STAYS:
            sentence = (
                f"the effect of {self.arm} still changes within its periods, by {_percent(self.course.estimate)} from "
                f"the first half to the second (p = {self.course_p:.2g}): use a longer washout or longer periods"
            )
            values = {"change": self.course.estimate, "p": self.course_p}
            found.append(Finding(kind="effect-builds-up", level="suspect", sentence=sentence, values=values))
        return tuple(found)

    def _stays_finding(self) -> Finding:
        low, high = self.stays.low, self.stays.high
        between = "" if low is None or high is None else f"95 % interval {_percent(low)} to {_percent(high)}, "
        sentence = (
            f"an effect of {self.arm} stays after undo: {_percent(self.stays.estimate)} in the next period, "
            f"{self.washout_s:g} s after the switch and later ({between}p = {self.p:.2g}); the trial's estimate misses "
            "about half of that"
        )
        values = {"stays": self.stays.estimate, "p": self.p}
        return Finding(kind="effect-after-undo", level="suspect", sentence=sentence, values=values)


def estimate_carry_over(periods: Sequence[PeriodScore], arm: str, control: str, washout_s: float) -> CarryOver | None:
    """Return the carry-over of an arm, from the periods of complete blocks in order; None for too few periods."""
    scores = np.array([period.score for period in periods])
    arms = [period.arm for period in periods]
    found = fit_carry_over(scores, arms, arm, control, others_stay=True)
    if found is None:
        return None
    effects = _own_effects(periods, control)
    bare = scores - np.array([effects[name] for name in arms])
    sizes = _redrawn_sizes(bare, periods, arm, control, effects)
    # The observed order is one of the possible orders.
    p = (1 + int((sizes >= abs(found.t) - 1e-9).sum())) / (1 + len(sizes))
    reach = found.error * float(np.quantile(sizes, _CONFIDENCE))
    stays = Effect(estimate=found.estimate, low=found.estimate - reach, high=found.estimate + reach, method=_STAYS)
    course, course_p = _course(periods, arm, control)
    return CarryOver(arm=arm, against=control, washout_s=washout_s, stays=stays, p=p, course=course, course_p=course_p)


def _own_effects(periods: Sequence[PeriodScore], control: str) -> dict[str, float]:
    """Return, for each arm, the mean difference of its own periods from the control's over the blocks."""
    blocks: dict[int, dict[str, float]] = {}
    for period in periods:
        blocks.setdefault(period.block, {})[period.arm] = period.score
    names = {period.arm for period in periods}
    apart = {name: [held[name] - held[control] for held in blocks.values() if name in held] for name in names}
    return {name: float(np.mean(values)) for name, values in apart.items()}


def _redrawn_sizes(
    bare: Array, periods: Sequence[PeriodScore], arm: str, control: str, effects: dict[str, float]
) -> Array:
    """Return the sizes of t for other orders within blocks.

    Each arm then has an effect in its own period only.
    """
    generator = np.random.Generator(np.random.PCG64(_SEED))
    orders: dict[int, list[str]] = {}
    for period in periods:
        orders.setdefault(period.block, []).append(period.arm)
    sizes = []
    for _ in range(REDRAWS):
        drawn = [name for order in orders.values() for name in generator.permutation(order).tolist()]
        scores = bare + np.array([effects[name] for name in drawn])
        if (again := fit_carry_over(scores, drawn, arm, control, others_stay=True)) is not None:
            sizes.append(abs(again.t))
    return np.array(sizes)


def _course(periods: Sequence[PeriodScore], arm: str, control: str) -> tuple[Effect | None, float | None]:
    moves: dict[int, dict[str, float]] = {}
    for period in periods:
        if period.early is not None and period.late is not None:
            moves.setdefault(period.block, {})[period.arm] = period.late - period.early
    apart = np.array([held[arm] - held[control] for held in moves.values() if arm in held and control in held])
    if not len(apart) or not np.isfinite(apart).all():
        return None, None
    low, high = difference_interval(apart, 1 - _CONFIDENCE) or (None, None)
    course = Effect(estimate=float(apart.mean()), low=low, high=high, method=_COURSE)
    return course, sign_flip_p(apart)


def _percent(log_change: float) -> str:
    return f"{100 * math.expm1(log_change):+.2g} %"
