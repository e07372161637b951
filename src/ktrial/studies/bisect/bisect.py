# SPDX-License-Identifier: Apache-2.0
"""Bisect by verdict: each commit is built, booted and measured until it is surely good or surely bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple, Protocol, TypeVar

from ktrial.judge.model.bisect_answer import BisectAnswer, BisectStep, Standing, Why
from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.judge.sequential import MOST_COMPARISONS
from ktrial.judge.stats.halfway import SideQuestion, compare, side
from ktrial.kit.commits import Commit, Search, Untellable
from ktrial.kit.errors import Refused

T = TypeVar("T")
#: The judge's first look.
_FIRST_RUNS = 7
_ALPHA = 0.05
#: Answers beside those of the search: the two ends, and the commit against its parent; and some to spare.
_BESIDE, _TO_SPARE = 2, 3


class Measures(Protocol):
    """Builds a commit where it is not built yet, boots it and measures the outcome."""

    def __call__(self, commit: str, run: int) -> float:
        """Return the value of the boot of this number. Raises Untellable."""


Say = Callable[[str], None]


class BisectRequest(NamedTuple):
    """What is looked for: `commits` are those after `good` up to `bad`, each booted `most_runs` times at most."""

    good: str
    bad: str
    commits: Sequence[Commit]
    outcome: str
    most_runs: int
    seed: int


def bisect(wanted: BisectRequest, measure: Measures, say: Say) -> BisectAnswer:
    """Raises Refused if good and bad do not differ, or cannot be told apart."""
    return _Bisect(wanted, measure, say).run()


class _Bisect:
    def __init__(self, wanted: BisectRequest, measure: Measures, say: Say) -> None:
        self._good, self._bad = wanted.good, wanted.bad
        self._search = Search(wanted.commits)
        self._measure, self._say = measure, say
        #: So many answers share the error.
        self._answers = min(self._search.steps_left + _BESIDE + _TO_SPARE, MOST_COMPARISONS)
        self._asked = 0
        self._question = SideQuestion(wanted.outcome, _ALPHA / self._answers, wanted.most_runs, wanted.seed)
        self._values: dict[str, list[float]] = {}
        self._steps: list[BisectStep] = []

    def run(self) -> BisectAnswer:
        ends = self._ends()
        while (commit := self._search.next()) is not None:
            if self._asked + 1 >= self._answers:
                return self._conclude("spent", ends)
            if self._look_at(commit, ends.estimate) == "between":
                return self._conclude("several steps", ends)
            left = len(self._search.suspects)
            self._say(f"{left} commit{'s'[: left != 1]} left, about {self._search.steps_left} more to look at")
        if len(self._search.suspects) > 1:
            return self._conclude("untold", ends)
        return self._confirmed(self._search.suspects[0], ends)

    def _ends(self) -> Effect:
        """Return the difference that is looked for. Raises Refused if there is none."""
        judged = self._decided(self._good, self._bad, lambda: self._verdict(self._good, self._bad))
        self._asked += 1
        outcome, boots = self._question.outcome, f"after {self._runs(self._bad)} boots of each"
        verdict = "inconclusive" if judged is None else judged.verdict
        if judged is not None and judged.effect is not None and verdict in ("better", "worse"):
            return judged.effect
        if verdict == "equivalent":
            raise Refused(f"good and bad do not differ in {outcome} {boots}: there is nothing to look for")
        if verdict == "not comparable":
            raise Refused(f"{outcome} cannot be compared: it is zero, negative or not finite")
        raise Refused(
            f"good and bad cannot be told apart in {outcome} {boots}",
            hint="--runs gives it more boots; a longer run or another outcome may show more",
        )

    def _look_at(self, commit: Commit, difference: float) -> Standing | None:
        """Return boots a commit until it is told; what it is goes to the search."""
        self._say(f"{commit.id[:12]} {commit.subject}"[:100])
        try:
            standing: Standing | None = self._decided(
                self._good, commit.id, lambda: self._standing(commit.id, difference)
            )
        except Untellable as error:
            self._search.leave_out(commit.id)
            runs = self._runs(commit.id)
            self._steps.append(BisectStep(commit=commit, standing=None, runs=runs, value=None, why=error.message))
            return None
        self._asked += 1
        told: Standing = standing or "unclear"
        values = self._values[commit.id]
        self._steps.append(BisectStep(commit=commit, standing=told, runs=len(values), value=median(values)))
        self._say(f"{commit.id[:12]} is {told} after {len(values)} boots")
        if told == "unclear":
            self._search.leave_out(commit.id)
        elif told != "between":
            self._search.tell(commit.id, told)
        return told

    def _confirmed(self, found: Commit, ends: Effect) -> BisectAnswer:
        """Return the commit against its first parent: what it changes by itself."""
        parent = found.parents[0]
        try:
            judged = self._decided(parent, found.id, lambda: self._verdict(parent, found.id))
        except Untellable as error:
            self._steps.append(BisectStep(commit=found, standing=None, runs=0, value=None, why=error.message))
            return self._conclude("unconfirmed", ends)
        self._asked += 1
        effect = None if judged is None else judged.effect
        verdict = None if judged is None else judged.verdict
        is_it = verdict in ("better", "worse") and effect is not None and effect.estimate * ends.estimate > 0
        return self._conclude("found" if is_it else "unconfirmed", ends, effect, verdict)

    def _verdict(self, control: str, other: str) -> OutcomeJudgement | None:
        judged = compare(self._question, self._values[control], self._values[other])
        return None if judged.verdict is None else judged

    def _standing(self, commit: str, difference: float) -> Standing | None:
        return side(self._question, difference, self._values[self._good], self._values[commit]).standing

    def _decided(self, one: str, other: str, answer: Callable[[], T | None]) -> T | None:
        """Return boots both in turn until there is an answer; None if all boots that there may be gave none."""
        for number in range(1, self._question.most_runs + 1):
            for commit in (one, other):
                values = self._values.setdefault(commit, [])
                if len(values) < number:
                    values.append(self._measure(commit, number))
            if number >= _FIRST_RUNS and (found := answer()) is not None:
                return found
        return None

    def _runs(self, commit: str) -> int:
        return len(self._values.get(commit, ()))

    def _conclude(
        self, why: Why, ends: Effect, effect: Effect | None = None, verdict: Verdict | None = None
    ) -> BisectAnswer:
        return BisectAnswer(
            outcome=self._question.outcome,
            good=self._good,
            bad=self._bad,
            ends=ends,
            why=why,
            suspects=self._search.suspects,
            steps=tuple(self._steps),
            effect=effect,
            verdict=verdict,
            confidence=1 - self._question.alpha * self._asked,
            boots=sum(map(len, self._values.values())),
        )
