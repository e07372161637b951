# SPDX-License-Identifier: Apache-2.0
"""What the judge says of a trial, `ktrial.judgement/1`: verdicts, doubts, and what to do next."""

from __future__ import annotations

from typing import Literal

import msgspec

from ktrial.judge.model.comparison import Role
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.kit.finding import Finding

#: What led to a verdict. `open` has none yet.
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
#: A guard holds when the arm is surely not worse than allowed, is broken when it surely is.
Guard = Literal["holds", "broken", "open"]


class EValues(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence that may be watched for ever: against no difference, and for lying above -margin and below margin."""

    no_difference: float
    above_minus_margin: float
    below_margin: float


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of control and arm in paired blocks. `ratio` is arm over control, null where the control has no event.

    `low` and `high` are its interval, null where there is no bound. `bound` is the most events per block that fit to
    none in either arm.
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
    """One outcome of one arm against another.

    `verdict` is null while it is open, and of exploratory outcomes, which have `p` and `p_adjusted`. `blocks` are those
    that the verdict rests on, `needed` how many would detect what the protocol asks for, with the noise found here.
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
    """What turning one setting on does to the score (larger is better), after those that are named are taken out.

    The interval has the error of naming: a setting whose interval holds zero is not named.
    """

    setting: str
    effect: float
    low: float
    high: float
    named: bool


class Screened(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome of a screening; `blocks` are those up to its last look."""

    outcome: str
    role: Role
    blocks: int
    coefficients: tuple[Coefficient, ...]

    @property
    def named(self) -> tuple[Coefficient, ...]:
        """What is suspected, the largest effect first."""
        return tuple(sorted((one for one in self.coefficients if one.named), key=lambda one: -abs(one.effect)))


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """`go on` with this block and these arms, `repeat` a voided one under this number, or `stop`.

    `drawn` says that the block's order is drawn already and `arms` are what is left of it. `look` is the number of
    blocks at which the next verdict may fall.
    """

    action: Literal["go on", "repeat", "stop"]
    reason: str
    block: int | None = None
    arms: tuple[str, ...] = ()
    drawn: bool = False
    look: int | None = None


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """All of a trial, as far as it has come. `dropped` are arms of which nothing is left to decide.

    `screened` is of trials that look for the setting that did it; those judge nothing.
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
        """Return the verdicts of the primary outcome, by `arm:against`."""
        return {f"{one.arm}:{one.against}": one.verdict for one in self.judged if one.role == "primary"}

    def of(self, outcome: str, arm: str, against: str) -> OutcomeJudgement:
        return next(one for one in self.judged if (one.outcome, one.arm, one.against) == (outcome, arm, against))
