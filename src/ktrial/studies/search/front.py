# SPDX-License-Identifier: Apache-2.0
"""A search for several outcomes at once: a front of points to choose from, confirmed by one trial of all of them.

The front holds the points that no other point beats: none is better in one outcome and at least as good in all others,
by the model. Guards are limits: a point that breaks a guard is not on the front.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import msgspec
import numpy as np

from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.judge.planning import affordable_cap, blocks_to_detect, largest_cap, smallest_effect
from ktrial.judge.sequential import ALPHA, MOST_COMPARISONS, row_of
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.critical import LOOKS
from ktrial.kit.errors import BadInput, Contradiction
from ktrial.studies.search.course import (
    CHALLENGERS,
    CONFIRM_SHARE,
    COUNTER_BLOCKS,
    FEWEST_CONFIRM,
    HOPE,
    MOST_CONFIRM,
    Course,
    SearchCourse,
    broken_guards,
)
from ktrial.studies.search.everywhere import FleetCourse
from ktrial.studies.search.knowledge import CERTAIN, Knowledge, joint_draws, primary_of
from ktrial.studies.search.model import (
    FrontPoint,
    FrontState,
    Interval,
    Reply,
    Request,
    Sampler,
    SearchAnswer,
    SearchPart,
    SearchProgress,
    SearchQuestion,
    SearchStep,
    TriedPoint,
)
from ktrial.studies.search.space import Point, Space
from ktrial.studies.search.surrogate import Surrogate
from ktrial.trial.protocol.file import full_names

#: Half of the error is for the primary outcome, half for all others.
_ALPHA = ALPHA / 2
#: Points of the front that one trial confirms at most.
MOST_POINTS = 5
#: Points of the front that each race measures again, those that were measured least.
_AGAIN = 2
#: Points of the front in the last race, and its blocks.
_FINALISTS, _FINAL_BLOCKS = 4, 2
#: How much the sum of all outcomes counts beside the worst one, in a combination of outcomes.
_SUM_SHARE = 0.05


def course_of(question: SearchQuestion) -> SearchCourse:
    """Return the course of a search for several outcomes, on a fleet, or for one outcome on one machine."""
    if question.also:
        return FrontCourse(question)
    return FleetCourse(question) if question.fleet else SearchCourse(question)


def refuse_outcomes(question: SearchQuestion) -> None:
    """Raise BadInput if an outcome is named twice, or if the outcomes are too many for one trial."""
    if len(set(question.also)) != len(question.also):
        twice = next(name for name in question.also if question.also.count(name) > 1)
        raise Contradiction(f"--also names {twice} twice", hint=f"name {twice} once")
    trial, most = question.trial, MOST_COMPARISONS // 2
    if question.also and _largest_row(question, 1) > MOST_COMPARISONS:
        raise BadInput(
            f"cannot confirm a point in {len(trial.secondary)} secondary outcomes and {len(trial.guards)} guards "
            "at once",
            hint=f"name at most {most} with --also and --secondary, and at most {most} with --guard",
        )


def _largest_row(question: SearchQuestion, points: int) -> int:
    """Return the table row of the largest group of comparisons in a trial of `points` points."""
    trial = question.trial
    return row_of(_ALPHA, points * max(1, len(trial.secondary), len(trial.guards)))


def front_places(rows: Array) -> list[int]:
    """Return the places of the rows that no other row beats.

    A row beats another one if it is at least as large in every column, and larger in one.
    """
    no_less = (rows[:, None, :] >= rows[None, :, :]).all(axis=2)
    more = (rows[:, None, :] > rows[None, :, :]).any(axis=2)
    return [int(at) for at in np.nonzero(~(no_less & more).any(axis=0))[0]]


def places_apart(rows: Array, count: int) -> list[int]:
    """Return the places of `count` rows: the best of each column, then repeatedly the row farthest from these rows."""
    size = np.ptp(rows, axis=0)
    scaled = rows / np.where(size > 0, size, 1.0)
    chosen = list(dict.fromkeys(int(at) for at in scaled.argmax(axis=0)))[:count]
    while len(chosen) < min(count, len(rows)):
        apart = np.linalg.norm(scaled[:, None, :] - scaled[None, chosen, :], axis=2).min(axis=1)
        apart[chosen] = -1.0
        chosen.append(int(apart.argmax()))
    return chosen


def combine_scores(rows: Array, weights: Array, scale: Array) -> Array:
    """Return one number for each row, larger if better: the weighted distance to the best of each column, negated."""
    behind = weights * (rows.max(axis=0) - rows) / scale
    return np.asarray(-behind.max(axis=1) - _SUM_SHARE * behind.sum(axis=1))


class FrontKnowledge(Knowledge):
    """What a search for several outcomes knows. `incumbent` is the point of the front that was measured least."""

    #: The answer shows unconfirmed points too: none that more likely breaks a guard than not.
    guard_errors = 0.0

    def __init__(self, space: Space, sampler: Sampler, seed: int, also: Sequence[str]) -> None:
        super().__init__(space, sampler, seed)
        self._also = also
        #: The outcomes to improve, the primary one first, each with its margin on the logarithmic scale.
        self.margins: dict[str, float] = {}
        self._others: dict[str, Surrogate] = {}

    @property
    def models(self) -> dict[str, Surrogate]:
        """The model of each outcome to improve, the primary one first."""
        assert self.model is not None, "something was measured"
        return dict(zip(self.margins, (self.model, *self._others.values()), strict=True))

    def _choose_incumbent(self, part: SearchPart) -> None:
        names = objectives_of(part, self._also)
        self.margins = {name: math.log1p(part.margins.get(name, 0.02)) for name in names}
        points = [one.point for one in self.entries]
        for name in names[1:]:
            self._others[name] = Surrogate(self.space, points, self._seen[name], self._others.get(name))
        self.incumbent = next(iter(self.least_measured()), 0)

    def least_measured(self) -> list[int]:
        """Return the points of the front, those with the fewest runs first."""
        return sorted(self.front(), key=lambda at: (self.entries[at].visits, at))

    def means(self, points: Sequence[Point]) -> Array:
        """Return a row of estimates for each point, with a column for each outcome."""
        return np.column_stack([model.effects(points)[0] for model in self.models.values()])

    def rows_of(self, numbers: Sequence[int]) -> Array:
        """Return `means` of the points with these numbers."""
        return self.means([self.entries[at].point for at in numbers])

    def front(self) -> list[int]:
        """Return the points that neither the control nor another point beats, the best in the primary outcome first."""
        usable = [at for at, one in enumerate(self.entries) if at and one.is_usable]
        if not usable or self.model is None:
            return []
        rows = np.vstack([np.zeros((1, len(self.margins))), self.rows_of(usable)])
        places = [at for at in front_places(rows) if at and rows[at].max() > 0]
        return [usable[at - 1] for at in sorted(places, key=lambda at: (-rows[at, 0], at))]

    def short_front(self) -> list[int]:
        """Return the front without points that lead another remaining point by at most the margin in each outcome."""
        front = self.front()
        rows = dict(zip(front, self.rows_of(front), strict=True)) if front else {}
        margins = self._margins()
        kept: list[int] = []
        for at in sorted(front, key=lambda at: (-float((rows[at] / margins).sum()), at)):
            floor = np.where(rows[at] > 0, np.maximum(rows[at] - margins, rows[at] / 2), rows[at] - margins)
            if not any((rows[other] >= floor).all() for other in kept):
                kept.append(at)
        return [at for at in front if at in kept]

    def _margins(self) -> Array:
        return np.asarray(np.maximum(list(self.margins.values()), 1e-6))

    def pick_apart(self, numbers: Sequence[int], count: int) -> list[int]:
        """Return `count` of these points, far from each other in their outcomes."""
        return [numbers[at] for at in places_apart(self.rows_of(numbers), count)] if numbers else []

    def _scale(self) -> Array:
        """Return the range of the measured points' estimates for each outcome, and at least its margin."""
        measured = [at for at, one in enumerate(self.entries) if one.visits]
        return np.asarray(np.maximum(np.ptp(self.rows_of(measured), axis=0), self._margins()))

    def _values(self, points: Sequence[Point]) -> list[float]:
        rng = np.random.default_rng((self._seed, self._proposed, 3))
        weights = rng.dirichlet(np.ones(len(self.margins)))
        values: list[float] = combine_scores(self.means(points), weights, self._scale()).tolist()
        return values

    def _draw(self, pool: Sequence[Point], count: int, rng: np.random.Generator) -> list[int]:
        draws = [joint_draws(model, pool, rng) for model in self.models.values()]
        scale = self._scale()
        chosen: list[int] = []
        while len(chosen) < min(count, len(pool)):
            sample = np.column_stack([next(one) for one in draws])
            value = combine_scores(sample, rng.dirichlet(np.ones(len(draws))), scale)
            value[chosen] = -np.inf
            chosen.append(int(value.argmax()))
        return chosen

    def _base(self, rng: np.random.Generator) -> Point:
        front = self.front()
        return self.entries[front[int(rng.integers(len(front)))] if front else 0].point

    def _losses(self, point: Point, others: Sequence[Point]) -> Array:
        rows = self.means([point, *others])
        return np.asarray(((rows[0] - rows[1:]) / self._margins()).max(axis=1))

    def intervals(self, number: int) -> dict[str, Interval]:
        """Return the estimates of a point with their 95 % intervals, by outcome."""
        found = {}
        for name, model in self.models.items():
            mean, covariance = model.effects([self.entries[number].point])
            middle, reach = float(mean[0]), CERTAIN * math.sqrt(max(float(covariance[0, 0]), 0.0))
            found[name] = (middle, middle - reach, middle + reach)
        return found

    def history(self) -> tuple[TriedPoint, ...]:
        return tuple(
            one
            if one.estimate is None
            else msgspec.structs.replace(one, others=dict(list(self.intervals(one.number).items())[1:]))
            for one in super().history()
        )


class _FrontPlan(NamedTuple):
    """A trial that confirms these points in at most `cap` blocks."""

    points: tuple[int, ...]
    cap: int

    @property
    def visits(self) -> int:
        return self.cap * (1 + len(self.points))


class FrontCourse(SearchCourse):
    """Walks through the steps of a search for several outcomes."""

    known: FrontKnowledge

    def __init__(self, question: SearchQuestion) -> None:
        super().__init__(question)
        self.known = FrontKnowledge(question.space, question.sampler, question.seed, question.also)

    def reserved_visits(self) -> int:
        total = math.inf if not self.visit_s else self.question.budget_s / self.visit_s
        fewest = self.fewest_to_confirm
        front = self.known.front()
        if not front:
            return int(min((1 + MOST_POINTS) * COUNTER_BLOCKS, max(fewest, CONFIRM_SHARE * total)))
        last = _FINAL_BLOCKS * (1 + min(len(front), _FINALISTS))
        return self._plan(front, max(fewest, total / 2)).visits + last

    @property
    def fewest_to_confirm(self) -> int:
        """The smallest number of visits that can confirm two points."""
        return 3 * FEWEST_CONFIRM

    def progress(self) -> SearchProgress:
        found = super().progress()
        return msgspec.structs.replace(found, best={}, estimate=None, front=len(self.known.front()))

    def _affordable(self, left: float) -> int:
        again = min(_AGAIN, len(self.known.front()))
        return next((count for count in range(CHALLENGERS, 1, -1) if 1 + again + count <= left), 0)

    def _race_new(self, numbers: Sequence[int]) -> Generator[Request, Reply, None]:
        """Measure new points, and points of the front again."""
        again = [at for at in self.known.least_measured()[1:_AGAIN] if at not in numbers]
        yield from self._race([*again, *numbers], 1)

    def _strongest(self, part: SearchPart) -> list[str]:
        names = objectives_of(part, self.question.also)
        clear: dict[str, float] = {}
        for one in part.judgement.screened:
            for row in one.coefficients if one.outcome in names else ():
                # An effect in widths of its interval, because outcomes differ in their noise.
                clear[row.setting] = max(clear.get(row.setting, 0.0), abs(row.effect) / max(row.high - row.low, 1e-12))
        return sorted(clear, key=lambda name: -clear[name])

    def _finals(self) -> Generator[Request, Reply, None]:
        """Measure points of the front once more, without the settings that seem to do nothing."""
        known = self.known
        chosen = list(dict.fromkeys((yield from self._simplify(known.pick_apart(known.short_front(), _FINALISTS)))))
        room = self.visits_left - self.fewest_to_confirm
        blocks = int(min(_FINAL_BLOCKS, room // (1 + len(chosen)))) if room < math.inf else _FINAL_BLOCKS
        if blocks >= 1 and chosen:
            known.incumbent = 0
            yield from self._race(chosen, blocks)

    def _simplify(self, numbers: Sequence[int]) -> Generator[Request, Reply, list[int]]:
        """Return each of these points without the settings whose removal costs less than the margins, by the model."""
        known = self.known
        found: list[int] = []
        for number in numbers:
            simple = known.simplest(known.entries[number].point, 1.0)
            at = known.find(simple)
            if at is None:
                at = next(iter((yield from self._probe_points([simple]))), number)
            entry = known.entries[at]
            is_barred = entry.failures > 0 or entry.refused is not None or entry.guard is not None
            found.append(number if is_barred else at)
        return found

    def _row(self, points: int) -> int:
        return _largest_row(self.question, points)

    def _needed(self, number: int, points: int) -> int:
        """Return how many blocks show that a point is better in its clearest outcome, in a trial of `points` points."""
        strict = _strictness(self._row(points))
        means = self.known.rows_of([number])[0].tolist()
        blocks = [
            blocks_to_detect(strict * math.sqrt(2 * model.noise), math.expm1(HOPE * mean))
            for model, mean in zip(self.known.models.values(), means, strict=True)
            if mean > 0
        ]
        return min(blocks, default=MOST_CONFIRM + 1)

    def _plan(self, front: Sequence[int], room: float) -> _FrontPlan:
        """Return the trial that confirms as many points as this number of visits allows."""
        for count in range(min(len(front), MOST_POINTS), 0, -1):
            caps = {at: self._cap_for(at, count) for at in front}
            fair = [at for at in front if caps[at] * (1 + count) <= room]
            if len(fair) >= count:
                points = self.known.pick_apart(fair, count) if count > 1 else [min(fair, key=lambda at: caps[at])]
                return _FrontPlan(tuple(points), int(max(caps[at] for at in points)))
        surest = min(front, key=lambda at: self._needed(at, 1))
        able = affordable_cap(self._fewest_blocks(), self._row(1)) or MOST_CONFIRM
        return _FrontPlan((surest,), largest_cap(max(able, int(min(room // 2, MOST_CONFIRM))), self._row(1)))

    def _cap_for(self, number: int, points: int) -> float:
        """Return the cap of a trial of `points` points that can confirm this one; infinite if no cap suffices."""
        needed = self._needed(number, points)
        cap = affordable_cap(max(needed, self._fewest_blocks()), self._row(points)) if needed <= MOST_CONFIRM else None
        return math.inf if cap is None else cap

    def _confirm_winner(self) -> Course:
        """Confirm as many points of the front as the budget allows, all in one trial."""
        front = self.known.short_front()
        plan = self._plan(front, self.visits_left)
        points = yield from self._measure_simpler(plan)
        arms = {f"front-{place}": number for place, number in enumerate(points, start=1)}
        cap = self._ample(plan.cap, len(points))
        part = yield from self._run_step(self._front_step(arms, cap))
        others = [at for at in front if at not in {*points, *plan.points}]
        return self._front_answer(others, arms, part, cap)

    def _measure_simpler(self, plan: _FrontPlan) -> Generator[Request, Reply, list[int]]:
        """Measure simpler forms of a plan's points; return each simpler form that works, otherwise the point itself."""
        known = self.known
        simple = yield from self._simplify(plan.points)
        fresh = [at for at in dict.fromkeys(simple) if not known.entries[at].visits]
        if fresh and self.visits_left - plan.visits >= 1 + len(fresh):
            known.incumbent = 0
            yield from self._race(fresh, 1)
        pairs = zip(plan.points, simple, strict=True)
        return list(dict.fromkeys(fewer if known.entries[fewer].is_usable else whole for whole, fewer in pairs))

    def _ample(self, cap: int, points: int) -> int:
        """Return up to twice as many blocks as needed, if there is time: nothing else is left to do."""
        most = min(2 * cap, MOST_CONFIRM, self.visits_left // (1 + points))
        return max((look for look in LOOKS if cap <= look <= most), default=cap)

    def _front_step(self, arms: Mapping[str, int], cap: int) -> SearchStep:
        step = self._step("front", arms, cap=cap)
        design = msgspec.structs.replace(step.file.design, alpha=_ALPHA, until_all_decided=True)
        return step._replace(file=msgspec.structs.replace(step.file, design=design, front=self.question.also))

    def _front_answer(self, others: Sequence[int], arms: Mapping[str, int], part: SearchPart, cap: int) -> SearchAnswer:
        points = [self._front_point(number, arm, part) for arm, number in arms.items()]
        points += [self._front_point(number, None, part) for number in others]
        confirmed = sum(one.state == "confirmed" for one in points)
        strict = _strictness(self._row(len(arms)))
        limits = [smallest_effect(strict * math.sqrt(2 * one.noise), cap) for one in self.known.models.values()]
        reason = f"one trial confirms {confirmed} of {len(arms)} points"
        if not confirmed:
            reason = "fresh blocks confirm no point of the front"
        return msgspec.structs.replace(
            self._answer("confirmed" if confirmed else "nothing found", reason, cap=cap),
            confirmed_by=part.trial,
            detectable=max(limits) if math.isfinite(max(limits)) else None,
            directions={name: part.directions[name] for name in self.known.margins},
            front=tuple(points),
        )

    def _front_point(self, number: int, arm: str | None, part: SearchPart) -> FrontPoint:
        names = list(self.known.margins)
        state: FrontState
        reason: str | None
        judged: dict[str, OutcomeJudgement] = {
            one.outcome: one for one in part.judgement.judged if one.arm == arm and one.outcome in names
        }
        verdicts = {name: judged[name].verdict for name in names if name in judged}
        guards = broken_guards(part, arm) if arm else []
        if arm is None:
            is_small = self._needed(number, 1) > MOST_CONFIRM
            state, reason = "unconfirmed", "its effect is small" if is_small else "the budget had no room for it"
        elif guards:
            state, reason = "breaks a guard", f"it breaks the guard {', '.join(guards)}"
        elif "better" in verdicts.values():
            state, reason = "confirmed", None
        else:
            state, reason = "not confirmed", "fresh blocks find it better in no outcome"
        return FrontPoint(
            number=number,
            arm=arm,
            changes=self.known.space.changes(self.known.entries[number].point),
            state=state,
            reason=reason,
            estimates=self.known.intervals(number),
            effects={name: judged[name].effect for name in verdicts},
            verdicts=verdicts,
        )


def objectives_of(part: SearchPart, also: Sequence[str]) -> tuple[str, ...]:
    """Return the full names of the outcomes to improve, the primary one first."""
    return (primary_of(part), *full_names(also, list(part.scores)))


def _strictness(row: int) -> float:
    """Return the factor by which noise counts more at an error of 0.05/row than in a single comparison."""
    power = NormalDist().inv_cdf(0.9)
    return (NormalDist().inv_cdf(1 - ALPHA / (2 * row)) + power) / (NormalDist().inv_cdf(1 - ALPHA / 2) + power)
