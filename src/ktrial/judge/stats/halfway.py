# SPDX-License-Identifier: Apache-2.0
"""The side of a third kernel: whether it lies nearer to the good or the bad one, by judging shifted values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ktrial.judge.judge import judge
from ktrial.judge.model.bisect_answer import Standing
from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.judge.model.log import BlockDrawn, Event, OutcomeRule, Protocol, RunEnded, TrialArm, block_order
from ktrial.judge.sequential import cap_of

#: A kernel closer than this share of the difference to its half is on neither side.
_BETWEEN = 0.25
_GOOD, _OTHER = "good", "other"


class SideQuestion(NamedTuple):
    """What is compared. `alpha` is the error of one answer; `quantile` is set if the outcome is a percentile."""

    outcome: str
    alpha: float
    most_runs: int
    seed: int
    quantile: float | None = None


class SideAnswer(NamedTuple):
    """The answer of one comparison; more runs are needed if `standing` is None."""

    standing: Standing | None
    judged: OutcomeJudgement


def compare(
    question: SideQuestion, control: Sequence[float], other: Sequence[float], margin: float = 0.02
) -> OutcomeJudgement:
    """Return the judgement of one kernel against another, run by run; an effect above zero is less of the outcome."""
    rule = OutcomeRule(direction="lower", role="primary", margin=margin, quantile=question.quantile)
    protocol = Protocol(
        name="bisect",
        arms=(TrialArm(name=_GOOD), TrialArm(name=_OTHER)),
        control=_GOOD,
        outcomes={question.outcome: rule},
        cap=cap_of(question.most_runs),
        alpha=question.alpha,
        seed=question.seed,
        replicate="boot",
        varies=("kernel",),
    )
    values = {_GOOD: control, _OTHER: other}
    return judge(_log(protocol, question, values)).of(question.outcome, _OTHER, _GOOD)


def side(question: SideQuestion, difference: float, good: Sequence[float], other: Sequence[float]) -> SideAnswer:
    """Return where `other` lies; `difference` is the effect of bad against good, on the scale of logarithms.

    Its scores are shifted by half the difference; the rest of the effect is on the side of good or bad.
    """
    shifted = [value * math.exp(difference / 2) for value in other]
    judged = compare(question, good[: len(other)], shifted, math.expm1(abs(difference) * _BETWEEN))
    if judged.verdict is None:
        return SideAnswer(None, judged)
    if judged.verdict == "equivalent":
        return SideAnswer("between", judged)
    if judged.verdict not in ("better", "worse"):
        return SideAnswer("unclear", judged)
    is_bad = (judged.verdict == "better") == (difference > 0)
    return SideAnswer("bad" if is_bad else "good", judged)


def _log(protocol: Protocol, question: SideQuestion, values: dict[str, Sequence[float]]) -> list[Event]:
    log: list[Event] = [protocol]
    blocks = min(map(len, values.values()))
    for block in range(1, blocks + 1):
        order = block_order(protocol.seed, block, tuple(values))
        log.append(BlockDrawn(block=block, order=order))
        for place, arm in enumerate(order):
            run = 2 * block - 1 + place
            measured = {question.outcome: values[arm][block - 1]}
            log.append(RunEnded(run=run, block=block, arm=arm, measurements=measured))
    return log
