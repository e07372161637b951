# SPDX-License-Identifier: Apache-2.0
"""Which of several settings did it: screen, confirm, see whether the suspects act alone, look at the rest.

The course of a blame is a pure function of its trials, so it goes on from the store alone.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence

import msgspec

from ktrial.judge.model.judgement import Judgement, OutcomeJudgement, Screened
from ktrial.judge.model.log import Screen
from ktrial.judge.model.verdict import Verdict
from ktrial.studies.blame.model import Blame, BlamePart, BlameQuestion, Culprit, Fate, Kind, KnownFacts, Recovery
from ktrial.trial.protocol.file import CONTROL, ArmFile, TrialFile


def recoveries_of(judgement: Judgement) -> tuple[Recovery, ...]:
    """Return each outcome of the trial that confirms, with the arms `all` and `without`; explored ones are left out."""
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
    """`whole` and `rest` are to the control, with and without the culprits; `step` is the second to the first."""
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


#: Rounds of screening, confirming, and looking at the rest.
ROUNDS = 3
#: What does not matter: this share of the whole effect, and of the least that was named.
_NEGLIGIBLE, _REST = 0.5, 0.85
ALL, WITHOUT = "all", "without"
ONLY, LESS = "only-", "less-"
_OPPOSITE = {"better": "worse", "worse": "better"}

Names = tuple[str, ...]
Course = Generator[TrialFile, BlamePart, Blame]


def follow(question: BlameQuestion, parts: Iterable[BlamePart]) -> TrialFile | Blame:
    """Return the trial that comes after these, or the answer."""
    course = _BlameCourse(question).run()
    wanted = next(course)
    for part in parts:
        try:
            wanted = course.send(part)
        except StopIteration as end:
            answer: Blame = end.value
            return answer
    return wanted


class _BlameCourse:
    """Walks through the trials of a blame, and keeps what they said."""

    def __init__(self, question: BlameQuestion) -> None:
        self._question = question
        self._known: KnownFacts | None = question.known
        #: What the whole set does to the score, as far as is known; 0 before anything was seen.
        self._effect = 0.0
        #: What the least of those named by the newest screening does.
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
        return self._answer(f"{ROUNDS} rounds are over, and the rest still differs from the control")

    def _round(self, number: int, held: Names) -> Generator[TrialFile, BlamePart, tuple[str | None, Names]]:
        """Screen, confirm, each alone. Why nothing more is to be done, and what must stay on in the next screening."""
        named = yield from self._suspected(number, held)
        if not named:
            return self._unnamed(held), ()
        without = tuple(one for one in self._pool if one not in named)
        confirm = yield self._confirming(number, without)
        cure = self._noted(confirm, WITHOUT if without else CONTROL, ALL)
        if cure.verdict != _OPPOSITE[str(self._known)]:
            self._suspects += named
            self._lonely(held)
            return f"without {_join_names(named)} the set is not shown to be {_OPPOSITE[str(self._known)]}", ()
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
            return "one setting is left, and it still differs from the control", ()
        return None, ()

    def _suspected(self, number: int, held: Names) -> Generator[TrialFile, BlamePart, Names]:
        candidates = tuple(one for one in self._pool if one not in held)
        if len(candidates) == 1:
            return candidates
        part = yield self._screening(number, candidates, held)
        self._note(part)
        self._screenings.append(part.judgement.screened)
        named = _primary_of(part).named
        if not self._effect:
            self._effect = sum(abs(one.effect) for one in named)
        self._least = min((abs(one.effect) for one in named), default=0.0)
        return tuple(one.setting for one in named)

    def _unnamed(self, held: Names) -> str:
        self._lonely(held)
        if held:
            return f"{_join_names(held)} does it only with something else, and no partner could be named"
        more = " more" if self._culprits else ""
        return f"no{more} setting could be named: the effects that are left are too small, or too many share them"

    def _lonely(self, held: Names) -> None:
        if held:
            self._culprits.append(Culprit(factors=held, kind="needs a partner"))

    @staticmethod
    def _alone_arms(named: Names, held: Names) -> dict[str, Names]:
        """Return each that was named by itself; with what is held it is known already to be less than the whole."""
        arms = {f"{ONLY}{place}": (one,) for place, one in enumerate(named, start=1)}
        return arms | ({"together": (*held, *named)} if len(held) + len(named) > 1 else {})

    def _sorted_out(
        self, number: int, part: BlamePart, named: Names, held: Names
    ) -> Generator[TrialFile, BlamePart, Names]:
        """Yield who acts alone, and who together; those that want a partner which is not among them."""
        self._note(part)
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
        """Of a group that acts together only, those without whom it does not: a screening may name one too many."""
        while len(group) > 2:
            arms = {f"{LESS}{place}": tuple(one for one in group if one != out) for place, out in enumerate(group, 1)}
            part = yield self._trial(f"needed-{number}-{len(group)}", arms)
            self._note(part)
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
        self._note(part)
        for place, one in enumerate(named, start=1):
            judged = _of(part, f"{ONLY}{place}", CONTROL)
            if judged.verdict in _OPPOSITE:
                self._culprits.append(_culprit((one,), "alone", judged))
            else:
                self._suspects.append(one)
        return self._answer("each was tried alone; either direction was looked for")

    def _note(self, part: BlamePart) -> None:
        self._parts.append(part)

    def _noted(self, part: BlamePart, arm: str, against: str) -> OutcomeJudgement:
        """Return a contrast of a trial, whichever way round it was asked; the trial is noted once."""
        if part not in self._parts:
            self._note(part)
        judged = _of(part, arm, against)
        if ALL in (arm, against) and CONTROL in (arm, against) and judged.effect is not None and not self._effect:
            self._effect = abs(judged.effect.estimate)
        return judged

    def _confirming(self, number: int, without: Names) -> TrialFile:
        """Return all, all without those named, and the control.

        What is left without them matters where it is as large as the least of them, and a part of the whole.
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

        It is to see an effect of that size, the whole set's where it is not given; less than `negligible` is nothing.
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
        assert self._known is not None, "what the set does is known before it is screened"
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
        return "whether anything of the effect is left without them could not be told: more blocks (--budget)"
    return "nothing of the effect is left without them"


def _nothing_shown(verdict: Verdict | None) -> str:
    if verdict == "equivalent":
        return "all of them together are equivalent to the control: there is nothing to blame anybody for"
    return "what all of them together do could not be told: more blocks, a longer benchmark, or --known"


def _primary_of(part: BlamePart) -> Screened:
    return next(one for one in part.judgement.screened if one.role == "primary")


def _of(part: BlamePart, arm: str, against: str) -> OutcomeJudgement:
    """Return the primary outcome of one arm against another, turned round where it was asked the other way."""
    judged = [one for one in part.judgement.judged if one.role == "primary"]
    for one in judged:
        if (one.arm, one.against) == (arm, against):
            return one
    turned = next(one for one in judged if (one.arm, one.against) == (against, arm))
    verdict = turned.verdict if turned.verdict is None else _OPPOSITE.get(turned.verdict, turned.verdict)
    return msgspec.structs.replace(turned, arm=arm, against=against, verdict=verdict, effect=None)


def _is_little(judged: OutcomeJudgement, effect: float) -> bool:
    """Return whether an arm that is not decided as the whole set is does surely less than the set, or seems to."""
    if judged.verdict == "equivalent":
        return True
    return judged.effect is not None and abs(judged.effect.estimate) < _NEGLIGIBLE * effect


def _culprit(names: Names, kind: Kind, judged: OutcomeJudgement) -> Culprit:
    return Culprit(factors=names, kind=kind, verdict=judged.verdict, effect=judged.effect)


def _least_margin(given: TrialFile) -> float:
    from ktrial.trial.protocol.file import share

    return share(given.margin, "margin") if given.margin is not None else 0.02


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(names)
