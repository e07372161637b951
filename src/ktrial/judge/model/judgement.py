# SPDX-License-Identifier: Apache-2.0
"""The judgement of a trial, `ktrial.judgement/1`: verdicts, doubts and the next step."""

from __future__ import annotations

from typing import Literal

import msgspec

from ktrial.judge.model.comparison import Role
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.kit.finding import Finding

#: The reason for a verdict; `open` means that there is none yet.
Why = Literal[
    "open",
    "fast path",
    "boundary",
    "cap",
    "futility",
    "e-value",
    "counter",
    "failures",
    "few-events",
    "check",
    "holm",
    "ended",
]
#: A guard `holds` if the arm is certainly not worse than allowed, and is `broken` if it certainly is.
Guard = Literal["holds", "broken", "open"]


class EValues(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence (e-values) that may be checked after any block.

    `no_difference` is evidence that there is a difference, `above_minus_margin` that the effect is above -margin, and
    `below_margin` that the effect is below the margin.
    """

    no_difference: float
    above_minus_margin: float
    below_margin: float


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of control and arm in paired blocks. `ratio` is arm over control, null if the control has no event.

    `low` and `high` are the bounds of the ratio's interval, null if there is no bound. If neither arm has an event,
    `bound` is the highest rate per block that the data still allow.
    """

    p: float
    control_total: float
    arm_total: float
    control_zero_share: float
    arm_zero_share: float
    ratio: float | None
    low: float | None
    high: float | None
    bound: float | None


class OutcomeJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one outcome of one arm, compared with another arm.

    `verdict` is null while it is open, and for exploratory outcomes, which have `p` and `p_adjusted` instead. `blocks`
    is how many blocks the verdict rests on. `needed` is how many blocks would detect the requested effect with the
    noise of this trial.
    """

    outcome: str
    role: Role
    arm: str
    against: str
    placebo: bool
    verdict: Verdict | None
    why: Why
    blocks: int
    effect: Effect | None
    worth: WorthIt | None = None
    guard: Guard | None = None
    e_values: EValues | None = None
    counter: Counter | None = None
    needed: int | None = None
    p: float | None = None
    p_adjusted: float | None = None
    findings: tuple[Finding, ...] = ()


class Coefficient(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of turning one setting on, adjusted for the suspected settings; larger is better.

    `named` marks a suspected setting. The interval uses the error rate of suspecting a setting wrongly; a setting
    whose interval includes zero is not suspected.
    """

    setting: str
    effect: float
    low: float
    high: float
    named: bool


class Screened(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome of a screening, the search for the responsible setting.

    `blocks` counts the blocks up to the last look.
    """

    outcome: str
    role: Role
    blocks: int
    coefficients: tuple[Coefficient, ...]

    @property
    def named(self) -> tuple[Coefficient, ...]:
        """Return the suspected settings, the largest effect first."""
        return tuple(sorted((one for one in self.coefficients if one.named), key=lambda one: -abs(one.effect)))


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next: `go on` with a block, `repeat` a void block, or `stop`.

    `block` is the number of the block to run, `arms` are its arms. If `drawn` is true, the order of the block is drawn
    already, and `arms` are the arms that remain. `look` is the number of blocks at which the next verdict is possible.
    """

    action: Literal["go on", "repeat", "stop"]
    reason: str
    block: int | None = None
    arms: tuple[str, ...] = ()
    drawn: bool = False
    look: int | None = None


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of a trial so far. `dropped` are the arms that have nothing left to decide.

    `screened` is filled for screenings (trials that search for the responsible setting), which have no `judged`.
    """

    schema: Literal["ktrial.judgement/1"] = "ktrial.judgement/1"
    cap: int | None
    comparisons: int
    blocks: int
    voided: int
    judged: tuple[OutcomeJudgement, ...]
    dropped: tuple[str, ...]
    findings: tuple[Finding, ...]
    next: NextStep
    screened: tuple[Screened, ...] = ()

    @property
    def primary_verdicts(self) -> dict[str, Verdict | None]:
        """Return the verdicts on the primary outcome, by `arm:against`."""
        return {f"{one.arm}:{one.against}": one.verdict for one in self.judged if one.role == "primary"}

    def of(self, outcome: str, arm: str, against: str) -> OutcomeJudgement:
        return next(one for one in self.judged if (one.outcome, one.arm, one.against) == (outcome, arm, against))
