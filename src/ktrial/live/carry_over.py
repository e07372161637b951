# SPDX-License-Identifier: Apache-2.0
"""What stays of an arm after it was undone, beyond the washout; and whether the outcome still moves within periods.

The estimate is that of the judge's check of carry-over. Its p comes from drawing the order within blocks again: only
that was drawn by ktrial, so the noise may depend on itself as it likes. An effect that never ends after the first
period of an arm is in no difference between periods, and cannot be seen here.
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

#: How often the orders are drawn again, and from which seed, so that a report can be recomputed.
REDRAWS, _SEED = 499, 34
#: From this p on, what stays is a finding.
P_STAYS = 0.01
_CONFIDENCE = 0.95
_STAYS = "least squares of successive periods, interval by drawing the orders again"
_COURSE = "difference of the arms' late and early halves, interval by sign flips"


class PeriodScore(NamedTuple):
    """A period of a complete block: its score (log, larger is better), and the scores of its first and second half."""

    block: int
    arm: str
    score: float
    early: float | None = None
    late: float | None = None


class CarryOver(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm leaves behind. `stays` is the effect of its period on the one after it, washout already dropped.

    `course` is how much more the arm's periods move from their first to their second half than the control's do; null
    if halves are unknown. A true effect is larger than the trial's estimate by half of what stays.
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
    """Return what an arm leaves behind, from the periods of complete blocks in order; None if there are too few."""
    scores = np.array([period.score for period in periods])
    arms = [period.arm for period in periods]
    found = fit_carry_over(scores, arms, arm, control, others_stay=True)
    if found is None:
        return None
    effects = _own_effects(periods, control)
    bare = scores - np.array([effects[name] for name in arms])
    sizes = _redrawn_sizes(bare, periods, arm, control, effects)
    # The observed order is one of those that could have been drawn.
    p = (1 + int((sizes >= abs(found.t) - 1e-9).sum())) / (1 + len(sizes))
    reach = found.error * float(np.quantile(sizes, _CONFIDENCE))
    stays = Effect(estimate=found.estimate, low=found.estimate - reach, high=found.estimate + reach, method=_STAYS)
    course, course_p = _course(periods, arm, control)
    return CarryOver(arm=arm, against=control, washout_s=washout_s, stays=stays, p=p, course=course, course_p=course_p)


def _own_effects(periods: Sequence[PeriodScore], control: str) -> dict[str, float]:
    """Return how much each arm's own periods differ from the control's, in the mean over blocks."""
    blocks: dict[int, dict[str, float]] = {}
    for period in periods:
        blocks.setdefault(period.block, {})[period.arm] = period.score
    names = {period.arm for period in periods}
    apart = {name: [held[name] - held[control] for held in blocks.values() if name in held] for name in names}
    return {name: float(np.mean(values)) for name, values in apart.items()}


def _redrawn_sizes(
    bare: Array, periods: Sequence[PeriodScore], arm: str, control: str, effects: dict[str, float]
) -> Array:
    """Return the sizes of t if each block had another order, and an arm nothing but an effect in its own period."""
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
