# SPDX-License-Identifier: Apache-2.0
"""The steps of a blame: screen the settings, confirm the suspects, test each one alone, then check the rest.

The next step depends only on the trials so far, so ktrial can resume a blame from the store alone.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable

import msgspec

from ktrial.judge.model.judgement import Judgement, OutcomeJudgement, Screened
from ktrial.judge.model.log import Screen
from ktrial.judge.model.verdict import Verdict
from ktrial.studies.blame.model import Blame, BlamePart, BlameQuestion, Culprit, Fate, Kind, KnownFacts, Recovery
from ktrial.trial.protocol.file import CONTROL, ArmFile, TrialFile


def recoveries_of(judgement: Judgement) -> tuple[Recovery, ...]:
    """Return what removing the culprits does to each outcome that is not exploratory."""
    by = {(one.outcome, one.arm, one.against): one for one in judgement.judged}
    found = []
    for outcome in dict.fromkeys(one.outcome for one in judgement.judged if one.role != "exploratory"):
        whole = by[outcome, "all", "control"]
        rest = by.get((outcome, "without", "control"))
        step = by.get((outcome, "without", "all"))
        fate: Fate = "recovered" if rest is None and whole.verdict == "worse" else "unclear"
        if rest is not None and step is not None:
            fate = fate_of(whole, rest, step)
        elif rest is None and whole.verdict == "better":
            fate = "lost"
        found.append(Recovery(outcome=outcome, fate=fate, all=whole.effect, without=rest.effect if rest else None))
    return tuple(found)


def fate_of(whole: OutcomeJudgement, rest: OutcomeJudgement, step: OutcomeJudgement) -> Fate:
    """Return what removing the culprits did to an outcome.

    `whole` compares all settings with the control, and `rest` compares all settings except the culprits with the
    control. `step` compares all settings except the culprits with all settings.
    """
    if whole.verdict == "worse":
        if step.verdict == "better":
            return "recovered in part" if rest.verdict == "worse" else "recovered"
        return "not recovered" if step.verdict in {"equivalent", "worse"} else "unclear"
    if whole.verdict == "better":
        if step.verdict == "worse":
            return "lost"
        is_there = step.verdict in {"equivalent", "better"} or rest.verdict == "better"
        return "retained" if is_there else "unclear"
    return "unchanged" if whole.verdict == "equivalent" and rest.verdict == "equivalent" else "unclear"


#: Maximum number of rounds of screening, confirming and checking the rest.
ROUNDS = 3
#: Shares of the whole effect, and of the smallest effect of a named setting, below which an effect does not matter.
_NEGLIGIBLE, _REST = 0.5, 0.85
ALL, WITHOUT = "all", "without"
ONLY, LESS = "only-", "less-"
_OPPOSITE = {"better": "worse", "worse": "better"}

Names = tuple[str, ...]
Course = Generator[TrialFile, BlamePart, Blame]


def follow(question: BlameQuestion, parts: Iterable[BlamePart]) -> TrialFile | Blame:
    """Return the next trial of a blame after the trials `parts`, or the answer if no trial is left."""
    course = _BlameCourse(question).run()
    following = next(course)
    for part in parts:
        try:
            following = course.send(part)
        except StopIteration as end:
            answer: Blame = end.value
            return answer
    return following


class _BlameCourse:
    """Walks through the trials of a blame and collects their results."""

    def __init__(self, question: BlameQuestion) -> None:
        self._question = question
        self._known: KnownFacts | None = question.known
        #: The effect of the whole set on the score; 0 before the first trial.
        self._effect = 0.0
        #: The smallest effect of a setting that the latest screening named.
        self._least = 0.0
        self._pool = tuple(one.name for one in question.factors)
        self._culprits: list[Culprit] = []
        self._suspects: list[str] = []
        self._parts: list[BlamePart] = []
        self._confirmed: BlamePart | None = None
        self._screenings: list[tuple[Screened, ...]] = []

    def run(self) -> Course:
        if self._known is None:
            shown = yield self._trial("shown", {ALL: self._pool})
            judged = self._noted(shown, ALL, CONTROL)
            if judged.verdict not in _OPPOSITE:
                return self._answer(_nothing_shown(judged.verdict))
            self._known = "better" if judged.verdict == "better" else "worse"
        if self._known == "either":
            return (yield from self._each_on_its_own())
        held: Names = ()
        for number in range(1, ROUNDS + 1):
            reason, held = yield from self._round(number, held)
            if reason is not None:
                return self._answer(reason)
        return self._answer(f"all {ROUNDS} rounds are done, but the rest still differs from the control")

    def _round(self, number: int, held: Names) -> Generator[TrialFile, BlamePart, tuple[str | None, Names]]:
        """Screen, confirm, and test each suspect alone.

        Return why the search ends, or None, and the settings that must stay on in the next screening.
        """
        named = yield from self._suspected(number, held)
        if not named:
            return self._unnamed(held), ()
        without = tuple(one for one in self._pool if one not in named)
        confirm = yield self._confirming(number, without)
        cure = self._noted(confirm, WITHOUT if without else CONTROL, ALL)
        if cure.verdict != _OPPOSITE[str(self._known)]:
            self._suspects += named
            self._lonely(held)
            return f"removing {' and '.join(named)} was not shown to make the set {_OPPOSITE[str(self._known)]}", ()
        self._confirmed = confirm
        whole = _of(confirm, ALL, CONTROL).effect
        self._effect = self._effect if whole is None else abs(whole.estimate)
        group = (*held, *named)
        alone = yield self._trial(f"alone-{number}", self._alone_arms(named, held), size=self._least)
        needs = yield from self._sorted_out(number, alone, named, held)
        if needs and without and number < ROUNDS:
            return None, needs
        self._lonely(needs)
        self._pool = tuple(one for one in without if one not in group)
        rest = self._noted(confirm, WITHOUT, CONTROL) if without else None
        if rest is None or rest.verdict != self._known or len(self._pool) < 1:
            return _what_is_left(rest), ()
        if len(self._pool) == 1:
            self._culprits.append(_culprit(self._pool, "by removal", rest))
            return "only one setting is left, and it still differs from the control", ()
        return None, ()

    def _suspected(self, number: int, held: Names) -> Generator[TrialFile, BlamePart, Names]:
        candidates = tuple(one for one in self._pool if one not in held)
        if len(candidates) == 1:
            return candidates
        part = yield self._screening(number, candidates, held)
        self._parts.append(part)
        self._screenings.append(part.judgement.screened)
        named = next(one for one in part.judgement.screened if one.role == "primary").named
        if not self._effect:
            self._effect = sum(abs(one.effect) for one in named)
        self._least = min((abs(one.effect) for one in named), default=0.0)
        return tuple(one.setting for one in named)

    def _unnamed(self, held: Names) -> str:
        self._lonely(held)
        if held:
            return f"{' and '.join(held)} acts only together with another setting, which could not be identified"
        further = " further" if self._culprits else ""
        return f"no{further} setting could be identified: the remaining effects are too small, or too many share them"

    def _lonely(self, held: Names) -> None:
        if held:
            self._culprits.append(Culprit(factors=held, kind="needs a partner"))

    @staticmethod
    def _alone_arms(named: Names, held: Names) -> dict[str, Names]:
        """Return one arm for each named setting alone, and one arm for the named and held settings together."""
        arms = {f"{ONLY}{place}": (one,) for place, one in enumerate(named, start=1)}
        return arms | ({"together": (*held, *named)} if len(held) + len(named) > 1 else {})

    def _sorted_out(
        self, number: int, part: BlamePart, named: Names, held: Names
    ) -> Generator[TrialFile, BlamePart, Names]:
        """Record which settings act alone or together; return those that need a partner outside the group."""
        self._parts.append(part)
        group = (*held, *named)
        found = {one: _of(part, f"{ONLY}{place}", CONTROL) for place, one in enumerate(named, start=1)}
        acting = [one for one, judged in found.items() if judged.verdict == self._known]
        self._culprits += [_culprit((one,), "alone", found[one]) for one in acting]
        idle = tuple(one for one in group if one not in acting)
        if len(group) > 1:
            together = _of(part, "together", CONTROL)
            if not acting and together.verdict == self._known:
                group, together = yield from self._those_needed(number, group, together)
                self._culprits.append(_culprit(group, "together", together))
            else:
                self._suspects += [one for one in idle if one not in held]
                self._lonely(held)
            return ()
        if idle and _is_little(found[idle[0]], self._effect):
            return idle
        self._culprits += [_culprit(idle, "by removal", found[idle[0]])] if idle else []
        return ()

    def _those_needed(
        self, number: int, group: Names, together: OutcomeJudgement
    ) -> Generator[TrialFile, BlamePart, tuple[Names, OutcomeJudgement]]:
        """Return the settings of a group that its effect needs, and their judgement together.

        The group acts only together, but a screening may have named a setting that the effect does not need.
        """
        while len(group) > 2:
            arms = {f"{LESS}{place}": tuple(one for one in group if one != out) for place, out in enumerate(group, 1)}
            part = yield self._trial(f"needed-{number}-{len(group)}", arms)
            self._parts.append(part)
            spare = [name for name in arms if _of(part, name, CONTROL).verdict == self._known]
            if not spare:
                break
            self._suspects += [one for one in group if one not in arms[spare[-1]]]
            group, together = arms[spare[-1]], _of(part, spare[-1], CONTROL)
        return group, together

    def _each_on_its_own(self) -> Course:
        named = yield from self._suspected(1, ())
        if not named:
            return self._answer(self._unnamed(()))
        part = yield self._trial("alone-1", self._alone_arms(named, ()), size=self._least)
        self._parts.append(part)
        for place, one in enumerate(named, start=1):
            judged = _of(part, f"{ONLY}{place}", CONTROL)
            if judged.verdict in _OPPOSITE:
                self._culprits.append(_culprit((one,), "alone", judged))
            else:
                self._suspects.append(one)
        return self._answer("each suspect was tried alone, for effects in either direction")

    def _noted(self, part: BlamePart, arm: str, against: str) -> OutcomeJudgement:
        """Return the judgement of these two arms, in either order, and record the trial only once."""
        if part not in self._parts:
            self._parts.append(part)
        judged = _of(part, arm, against)
        if ALL in (arm, against) and CONTROL in (arm, against) and judged.effect is not None and not self._effect:
            self._effect = abs(judged.effect.estimate)
        return judged

    def _confirming(self, number: int, without: Names) -> TrialFile:
        """Return a trial of three arms: all settings, all settings without the named ones, and the control.

        The margin is 85 % of the smallest named effect or half of the whole effect, whichever is larger. It is at most
        the smallest named effect.
        """
        matters = min(self._least, max(_REST * self._least, _NEGLIGIBLE * self._effect))
        return self._trial(f"confirm-{number}", {ALL: self._pool, WITHOUT: without}, ladder=True, negligible=matters)

    def _trial(
        self,
        kind: str,
        arms: dict[str, Names],
        *,
        ladder: bool = False,
        size: float | None = None,
        negligible: float | None = None,
    ) -> TrialFile:
        """Return a trial of sets of factors against the control; an empty set is the control.

        It is planned to detect an effect of `size`, by default the effect of the whole set; the margin is `negligible`.
        """
        made = {name: self._question.arm(names) for name, names in arms.items() if names}
        given = self._question.trial
        size = size or self._effect
        margin = given.margin
        if size:
            margin = max(math.expm1(negligible or _NEGLIGIBLE * size), _least_margin(given))
        return msgspec.structs.replace(
            given,
            name=f"{self._question.name}.{kind}",
            part=self._question.name,
            detect=math.expm1(size) if size else given.detect,
            margin=margin,
            questions="ladder" if ladder else "control",
            design=msgspec.structs.replace(
                given.design, cap=self._question.budget, seed=self._question.seed + len(self._parts)
            ),
            arms={CONTROL: ArmFile(), **made},
        )

    def _screening(self, number: int, candidates: Names, held: Names) -> TrialFile:
        from ktrial.judge.screening import on_in
        from ktrial.judge.screening_judge import screened_arms

        question = self._question
        seed, cap = question.seed + len(self._parts), question.cap
        arms = {CONTROL: ArmFile()}
        for name in screened_arms(len(candidates), seed, cap):
            on = tuple(candidates[place] for place in on_in(name, len(candidates)))
            arms[name] = question.arm((*held, *on))
        assert self._known is not None, "the effect of the set is known before a screening"
        given = question.trial
        return msgspec.structs.replace(
            given,
            name=f"{question.name}.screen-{number}",
            part=question.name,
            questions="control",
            design=msgspec.structs.replace(given.design, cap=cap, seed=seed),
            arms=arms,
            screen=Screen(settings=candidates, known=self._known),
        )

    def _answer(self, reason: str) -> Blame:
        question = self._question
        return Blame(
            name=question.name,
            factors=tuple(one.name for one in question.factors),
            known=self._known,
            culprits=tuple(self._culprits),
            suspects=tuple(self._suspects),
            reason=reason,
            recoveries=recoveries_of(self._confirmed.judgement) if self._confirmed is not None else (),
            screenings=tuple(self._screenings),
            trials=tuple(part.trial for part in self._parts),
            runs=sum(part.runs for part in self._parts),
        )


def _what_is_left(rest: OutcomeJudgement | None) -> str:
    if rest is not None and rest.verdict == "inconclusive":
        return "it is undecided whether an effect remains without the culprits: allow more blocks with --budget"
    return "no effect remains without the culprits"


def _nothing_shown(verdict: Verdict | None) -> str:
    if verdict == "equivalent":
        return "all settings together are equivalent to the control: no setting is to blame"
    return "the effect of all settings together is undecided: use more blocks, a longer benchmark, or --known"


def _of(part: BlamePart, arm: str, against: str) -> OutcomeJudgement:
    """Return the judgement of the primary outcome, reversed if the trial compared the arms the other way round."""
    judged = [one for one in part.judgement.judged if one.role == "primary"]
    for one in judged:
        if (one.arm, one.against) == (arm, against):
            return one
    turned = next(one for one in judged if (one.arm, one.against) == (against, arm))
    verdict = turned.verdict if turned.verdict is None else _OPPOSITE.get(turned.verdict, turned.verdict)
    return msgspec.structs.replace(turned, arm=arm, against=against, verdict=verdict, effect=None)


def _is_little(judged: OutcomeJudgement, effect: float) -> bool:
    """Return whether an arm's effect is, or seems, clearly smaller than the effect of the whole set."""
    if judged.verdict == "equivalent":
        return True
    return judged.effect is not None and abs(judged.effect.estimate) < _NEGLIGIBLE * effect


def _culprit(names: Names, kind: Kind, judged: OutcomeJudgement) -> Culprit:
    return Culprit(factors=names, kind=kind, verdict=judged.verdict, effect=judged.effect)


def _least_margin(given: TrialFile) -> float:
    from ktrial.trial.protocol.file import share

    return share(given.margin, "margin") if given.margin is not None else 0.02
