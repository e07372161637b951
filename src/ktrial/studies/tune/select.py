# SPDX-License-Identifier: Apache-2.0
"""Selects the candidates to keep: those that are better in a trial, alone and together, and break no guard.

The next step depends only on the trials so far, as in a blame, so ktrial can resume a tuning from the store alone.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence

import msgspec

from ktrial.studies.blame.model import BlamePart
from ktrial.studies.goals import Candidate
from ktrial.studies.tune.model import Tried, TuneArm, TuneGroup, TuneQuestion, TuneReceipt
from ktrial.trial.protocol.file import CONTROL, ArmFile, TrialFile

#: Maximum number of arms. With more, the machine would drift within a block, and each arm would get less of the error
#: rate.
MOST_ARMS = 8
TOGETHER = "together"
_UNNAMED = re.compile(r"[^A-Za-z0-9._+-]+")

Course = Generator[TrialFile, BlamePart, TuneReceipt]


def groups_of(candidates: Iterable[Candidate], template: TrialFile) -> tuple[TuneGroup, ...]:
    """Group candidates by measure, in groups that are small enough for one trial."""
    by_measure: dict[tuple[str, str], list[Candidate]] = {}
    for one in candidates:
        by_measure.setdefault((one.measure.suite, one.measure.primary), []).append(one)
    groups = []
    for (suite, primary), together in by_measure.items():
        trial = msgspec.structs.replace(template, suite=suite or None, primary=primary or None)
        for start in range(0, len(together), MOST_ARMS):
            some = together[start : start + MOST_ARMS]
            arms = tuple(_arm(number, one) for number, one in enumerate(some, start=1))
            groups.append(TuneGroup(trial=trial, arms=arms))
    return tuple(groups)


def _arm(number: int, one: Candidate) -> TuneArm:
    value = next(iter(one.settings.values()))
    text = _UNNAMED.sub("-", f"{number}-{re.split(r'[.:]', one.knob)[-1]}-{value}").strip("-.+_")
    return TuneArm(name=text[:20].rstrip("-.+_"), knob=one.knob, settings=one.settings)


def follow(question: TuneQuestion, parts: Iterable[BlamePart]) -> TrialFile | TuneReceipt:
    """Return the next trial of a tuning after the trials `parts`, or the receipt if no trial is left."""
    course = _course(question)
    try:
        following = next(course)
        for part in parts:
            following = course.send(part)
    except StopIteration as end:
        receipt: TuneReceipt = end.value
        return receipt
    return following


def _course(question: TuneQuestion) -> Course:
    tried: list[Tried] = []
    parts: list[BlamePart] = []
    for number, group in enumerate(question.groups, start=1):
        part = yield _trial(question, group, f"{number}", {one.name: one.settings for one in group.arms}, len(parts))
        parts.append(part)
        found = [_judge_arm(one, part) for one in group.arms]
        found = _one_value_each(group.arms, found)
        kept = [one for one in found if one.kept]
        if len(kept) > 1:
            settings = {address: value for one in kept for address, value in one.settings.items()}
            part = yield _trial(question, group, f"{number}.{TOGETHER}", {TOGETHER: settings}, len(parts))
            parts.append(part)
            found = _judge_together(found, part)
        tried += found
    return TuneReceipt(
        name=question.name,
        tried=tuple(tried),
        trials=tuple(part.trial for part in parts),
        runs=sum(part.runs for part in parts),
    )


def _trial(
    question: TuneQuestion, group: TuneGroup, kind: str, arms: Mapping[str, Mapping[str, str]], done: int
) -> TrialFile:
    given = group.trial
    # All trials share the error rate of one, so that no tuning keeps a useless setting more often than a trial would.
    alpha = given.design.alpha * (len(group.arms) / question.candidates)
    return msgspec.structs.replace(
        given,
        name=f"{question.name}.{kind}",
        part=question.name,
        design=msgspec.structs.replace(given.design, seed=question.seed + done, alpha=alpha),
        arms={CONTROL: ArmFile(), **{name: ArmFile(set=settings) for name, settings in arms.items()}},
    )


def _judge_arm(arm: TuneArm, part: BlamePart) -> Tried:
    """Return the result of an arm. It is kept only if the primary outcome is better and no guard is broken."""
    of_arm = [one for one in part.judgement.judged if one.arm == arm.name and one.against == CONTROL]
    primary = next(one for one in of_arm if one.role == "primary")
    broken = [one.outcome for one in of_arm if one.guard == "broken"]
    is_better = primary.verdict == "better"
    if broken:
        reason = f"{primary.verdict or 'undecided'}, but breaks the guard {', '.join(broken)}"
    elif is_better:
        reason = "better, and breaks no guard"
    else:
        reason = str(primary.verdict or "undecided")
    return Tried(
        settings=arm.settings,
        kept=is_better and not broken,
        reason=reason,
        trial=part.trial,
        outcome=primary.outcome,
        direction=part.directions.get(primary.outcome),
        verdict=primary.verdict,
        effect=primary.effect,
    )


def _one_value_each(arms: Sequence[TuneArm], found: Sequence[Tried]) -> list[Tried]:
    """Keep, of each knob with several better values, only the value with the largest effect."""
    best: dict[str, Tried] = {}
    for arm, one in zip(arms, found, strict=True):
        if one.kept and _size(one) > _size(best.get(arm.knob)):
            best[arm.knob] = one
    return [
        msgspec.structs.replace(one, kept=False, reason="better, but another value of the knob is better still")
        if one.kept and best[arm.knob] is not one
        else one
        for arm, one in zip(arms, found, strict=True)
    ]


def _size(one: Tried | None) -> float:
    return float("-inf") if one is None or one.effect is None else one.effect.estimate


def _judge_together(found: Sequence[Tried], part: BlamePart) -> list[Tried]:
    """Keep all these candidates if they are also better together; otherwise keep only the best candidate."""
    together = _judge_arm(TuneArm(name=TOGETHER, knob="", settings={}), part)
    if together.kept:
        note = f"; better together too, in {part.trial}"
        return [msgspec.structs.replace(one, reason=one.reason + note) if one.kept else one for one in found]
    best = max((one for one in found if one.kept), key=_size)
    reason = f"better alone, but all of them together are {together.reason}, in {part.trial}"
    return [
        msgspec.structs.replace(one, kept=False, reason=reason) if one.kept and one is not best else one
        for one in found
    ]
