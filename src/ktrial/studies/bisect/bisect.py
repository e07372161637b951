# SPDX-License-Identifier: Apache-2.0
"""Bisects kernel commits by verdict: builds, boots and measures each commit until it is clearly good or bad."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

from ktrial.bench.text import duration
from ktrial.judge.judge import judge
from ktrial.judge.model.bisect_answer import BisectAnswer, BisectStep, Standing, Why
from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.judge.model.log import BlockDrawn, Event, OutcomeRule, Protocol, RunEnded, TrialArm, block_order
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.judge.sequential import MOST_COMPARISONS, cap_of
from ktrial.kit.commits import Commit, Search, Untellable
from ktrial.kit.errors import Refused

T = TypeVar("T")
#: Runs at the judge's first look.
_FIRST_RUNS = 7
_ALPHA = 0.05
#: Answers besides the search: good against bad, and the commit against its parent; and some answers in reserve.
_BESIDE, _TO_SPARE = 2, 3
#: A kernel whose distance from the middle is below this share of the difference is on neither side.
_BETWEEN = 0.25
_GOOD, _OTHER = "good", "other"


class SideQuestion(NamedTuple):
    """Which outcome to compare, and in how many runs at most. `alpha` is the error rate of one answer."""

    outcome: str
    alpha: float
    most_runs: int
    seed: int


def compare(
    question: SideQuestion, control: Sequence[float], other: Sequence[float], margin: float = 0.02
) -> OutcomeJudgement:
    """Judge the values of `other` against those of `control`. An effect above zero means that `other` is lower."""
    rule = OutcomeRule(direction="lower", role="primary", margin=margin)
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


def side(question: SideQuestion, difference: float, good: Sequence[float], other: Sequence[float]) -> Standing | None:
    """Return whether the values `other` are good, bad, between good and bad, or unclear.

    Return None if more runs are needed. `difference` is the log effect of the bad kernel against the good one. The
    function compares `good` with `other` shifted by half of `difference`. A good kernel then shows an effect in one
    direction, and a bad kernel in the other direction.
    """
    shifted = [value * math.exp(difference / 2) for value in other]
    judged = compare(question, good[: len(other)], shifted, math.expm1(abs(difference) * _BETWEEN))
    if judged.verdict is None:
        return None
    if judged.verdict == "equivalent":
        return "between"
    if judged.verdict not in ("better", "worse"):
        return "unclear"
    return "bad" if (judged.verdict == "better") == (difference > 0) else "good"


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


class Measures(typing.Protocol):
    """Builds a commit if it is not built yet, boots it and measures the outcome."""

    def __call__(self, commit: str, run: int) -> float:
        """Boot the commit for the `run`-th time (from 1) and return the value. Raise Untellable if that fails."""


Say = Callable[[str], None]


class BisectRequest(NamedTuple):
    """What to bisect. `commits` are the commits after `good` up to and including `bad`.

    The bisection boots each commit at most `most_runs` times.
    """

    good: str
    bad: str
    commits: Sequence[Commit]
    outcome: str
    most_runs: int
    seed: int


def bisect(wanted: BisectRequest, measure: Measures, say: Say, now_s: Callable[[], float]) -> BisectAnswer:
    """Find the commit that causes the difference. Raise Refused if `good` and `bad` show no difference."""
    return _Bisect(wanted, measure, say, now_s).run()


class _Bisect:
    def __init__(self, wanted: BisectRequest, measure: Measures, say: Say, now_s: Callable[[], float]) -> None:
        self._now_s, self._began_s = now_s, now_s()
        self._good, self._bad = wanted.good, wanted.bad
        self._search = Search(wanted.commits)
        self._measure, self._say = measure, say
        #: The error rate is divided by this number of answers.
        self._answers = min(self._search.steps_left + _BESIDE + _TO_SPARE, MOST_COMPARISONS)
        self._asked = 0
        self._question = SideQuestion(wanted.outcome, _ALPHA / self._answers, wanted.most_runs, wanted.seed)
        self._values: dict[str, list[float]] = {}
        self._steps: list[BisectStep] = []

    def run(self) -> BisectAnswer:
        self._say(
            f"ktrial tests good, bad and about {self._search.steps_left} commits between them, with {_FIRST_RUNS} to "
            f"{self._question.most_runs} boots of each; good and bad show how long one test takes"
        )
        ends = self._ends()
        self._say(f"about {self._search.steps_left} commits to test, about {self._time_to_end()}")
        while (commit := self._search.next()) is not None:
            if self._asked + 1 >= self._answers:
                return self._conclude("spent", ends)
            if self._look_at(commit, ends.estimate) == "between":
                return self._conclude("several steps", ends)
            left = len(self._search.suspects)
            more = f"about {self._search.steps_left} more to test, about {self._time_to_end()}"
            self._say(f"{left} commit{'s'[: left != 1]} left, {more}")
        if len(self._search.suspects) > 1:
            return self._conclude("untold", ends)
        return self._confirmed(self._search.suspects[0], ends)

    def _time_to_end(self) -> str:
        """Return the estimated time to the end, from the mean time per commit so far.

        It covers each remaining commit and one more comparison.
        """
        each_s = (self._now_s() - self._began_s) / len(self._values)
        return duration(each_s * (self._search.steps_left + 1))

    def _ends(self) -> Effect:
        """Return the difference between good and bad. Raise Refused if there is none."""
        judged = self._decided(self._good, self._bad, lambda: self._verdict(self._good, self._bad))
        self._asked += 1
        outcome, boots = self._question.outcome, f"after {self._runs(self._bad)} boots of each"
        verdict = "inconclusive" if judged is None else judged.verdict
        if judged is not None and judged.effect is not None and verdict in ("better", "worse"):
            return judged.effect
        if verdict == "equivalent":
            raise Refused(
                f"nothing to bisect: good and bad do not differ in {outcome} {boots}",
                hint="choose commits that differ, or another outcome",
            )
        if verdict == "not comparable":
            raise Refused(f"cannot compare {outcome}: it is zero, negative or not finite", hint="use another outcome")
        raise Refused(
            f"cannot bisect: good and bad show no difference in {outcome} {boots}",
            hint="allow more boots with --runs, or use a longer run or another outcome",
        )

    def _look_at(self, commit: Commit, difference: float) -> Standing | None:
        """Boot a commit until its side is clear, report a clear side to the search, and return the side.

        Return None if the commit cannot be measured.
        """
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
        decided: Standing = standing or "unclear"
        values = self._values[commit.id]
        self._steps.append(BisectStep(commit=commit, standing=decided, runs=len(values), value=median(values)))
        self._say(f"{commit.id[:12]} is {decided} after {len(values)} boots")
        if decided == "unclear":
            self._search.leave_out(commit.id)
        elif decided != "between":
            self._search.tell(commit.id, decided)
        return decided

    def _confirmed(self, found: Commit, ends: Effect) -> BisectAnswer:
        """Compare the found commit with its first parent, and return the final answer."""
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
        return side(self._question, difference, self._values[self._good], self._values[commit])

    def _decided(self, one: str, other: str, answer: Callable[[], T | None]) -> T | None:
        """Boot `one` and `other` in turn until `answer` returns an answer.

        Return None if `most_runs` boots are not enough.
        """
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
