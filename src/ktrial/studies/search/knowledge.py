# SPDX-License-Identifier: Apache-2.0
"""What a search knows: the points that it tried, the model of their scores, and what is worth a try next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ktrial.judge.collect_log import collect, visit_scores
from ktrial.judge.model.log import Event, RunEnded
from ktrial.judge.race_judge import comparable_score
from ktrial.judge.stats.arrays import Array
from ktrial.studies.search.model import (
    CrashRegion,
    Importance,
    Sampler,
    SearchPart,
    TriedPoint,
    crash_regions,
)
from ktrial.studies.search.propose import KnownValue, propose
from ktrial.studies.search.space import Point, Scalar, Space, key_of
from ktrial.studies.search.surrogate import SeenVisit, Surrogate, grid_of, importance_of
from ktrial.trial.protocol.file import CONTROL

#: Candidates that the model weighs for each new point: proposals of Optuna, and neighbours of the incumbent.
_PROPOSALS, _NEIGHBOURS = 2, 5
#: Dimensions that a neighbour changes, on average.
_MOVES = 1.5
#: Standard errors that count as certain.
CERTAIN = 1.96


class KnownPoint(msgspec.Struct, kw_only=True):
    """A point that the search tried; point number 0 is the control. `guard` is the guard that the point breaks."""

    point: dict[str, Scalar]
    visits: int = 0
    failures: int = 0
    refused: str | None = None
    guard: str | None = None

    @property
    def is_usable(self) -> bool:
        """Whether the point may win."""
        return self.visits > 0 and not self.failures and self.refused is None and self.guard is None

    @property
    def state(self) -> tuple[Literal["measured", "refused", "failed", "breaks a guard"], str | None]:
        """The state of the point and, unless it was measured, the reason."""
        if self.refused is not None:
            return "refused", self.refused
        if self.failures:
            return "failed", f"{self.failures} of its runs failed"
        return ("breaks a guard", self.guard) if self.guard is not None else ("measured", None)


class Knowledge:
    """The points of a search and their scores. `incumbent` is the number of the best point (0: control)."""

    #: Standard errors by which an estimate must lie beyond a guard: a point is left out if it is broken 4 times in 5.
    guard_errors = 0.84

    def __init__(self, space: Space, sampler: Sampler, seed: int) -> None:
        self.space = space
        self.entries: list[KnownPoint] = [KnownPoint(point=space.control)]
        self.incumbent = 0
        self.model: Surrogate | None = None
        self.crashes: tuple[CrashRegion, ...] = ()
        #: Why proposals were refused, each reason once.
        self.refusals: dict[str, None] = {}
        self._sampler = sampler
        self._seed = seed
        self._seen: dict[str, list[SeenVisit]] = {}
        self._blocks = 0
        self._proposed = 0

    def find(self, point: Point) -> int | None:
        """Return the number of a point; None if the search has not tried it."""
        key = key_of(point)
        return next((at for at, one in enumerate(self.entries) if key_of(one.point) == key), None)

    def add(self, point: Point, refused: str | None = None, *, crashed: bool = False) -> int:
        """Add a new point; return its number.

        `refused` says why the search cannot try the point. `crashed` is true if the point's guest failed.
        """
        self.entries.append(KnownPoint(point=dict(point), refused=refused, failures=int(crashed)))
        if crashed:
            self._find_crashes()
        if refused is not None:
            self.refusals[refused] = None
        return len(self.entries) - 1

    def choose(self, count: int) -> list[dict[str, Scalar]]:
        """Return at most `count` new points.

        Before the first race, they are proposals of Optuna. Later the model chooses among proposals and neighbours of
        the incumbent.
        """
        self._proposed += 1
        seed = (self._seed * 1_000_003 + self._proposed) % (1 << 31)
        wanted = count if self.model is None else count * _PROPOSALS
        found = propose(self.space, self._known_values(), wanted, seed, self._crash_reason, sampler=self._sampler)
        self.refusals |= {why: None for _, why in found.refused}
        pool = list(found.points)
        if self.model is None:
            return pool[:count]
        rng = np.random.default_rng(seed)
        pool += self._neighbours(count * _NEIGHBOURS, {key_of(point) for point in pool}, rng)
        return [pool[at] for at in self._draw(pool, count, rng)] if pool else []

    def _draw(self, pool: Sequence[Point], count: int, rng: np.random.Generator) -> list[int]:
        """Return places in the pool, each the best by one joint draw from the model (Thompson sampling)."""
        assert self.model is not None, "something was measured"
        draws = joint_draws(self.model, pool, rng)
        chosen: list[int] = []
        while len(chosen) < min(count, len(pool)):
            sample = next(draws)
            sample[chosen] = -np.inf
            chosen.append(int(np.argmax(sample)))
        return chosen

    def _base(self, rng: np.random.Generator) -> Point:
        """Return the point whose neighbours are worth a try."""
        del rng
        return self.entries[self.incumbent].point

    def _neighbours(
        self, count: int, known: set[tuple[tuple[str, str], ...]], rng: np.random.Generator
    ) -> list[dict[str, Scalar]]:
        taken = known | {key_of(one.point) for one in self.entries}
        share = _MOVES / len(self.space.dimensions)
        found = []
        for _ in range(count):
            base = self._base(rng)
            moved = self.space.settled(
                {one.name: one.draw(rng) if rng.random() < share else base[one.name] for one in self.space.dimensions}
            )
            if key_of(moved) not in taken and not self.space.problem(moved) and not self._crash_reason(moved):
                taken.add(key_of(moved))
                found.append(moved)
        return found

    def _known_values(self) -> list[KnownValue]:
        """Return what the optimiser gets: the present estimate of each point.

        A point that failed or breaks a guard gets a value worse than all others. A point without an estimate gets None.
        """
        if self.model is None:
            return [KnownValue(one.point, None) for one in self.entries[1:]]
        numbers = [at for at, one in enumerate(self.entries) if at and one.visits and not one.failures]
        points = [self.entries[at].point for at in numbers]
        value = dict(zip(numbers, self._values(points), strict=True)) if points else {}
        worst = min(value.values(), default=0.0)
        told = []
        for at, one in enumerate(self.entries[1:], start=1):
            spoilt = one.failures > 0 or one.guard is not None
            told.append(KnownValue(one.point, worst - max(abs(worst), 0.01) if spoilt else value.get(at)))
        return told

    def _values(self, points: Sequence[Point]) -> list[float]:
        """Return for each point the value that the optimiser should raise."""
        assert self.model is not None, "something was measured"
        values: list[float] = self.model.effects(points)[0].tolist()
        return values

    def _crash_reason(self, point: Point) -> str | None:
        region = next((one for one in self.crashes if one.holds(point[one.dimension])), None)
        return None if region is None else f"{region.text}: all {region.failures} points tried in this region failed"

    def learn(self, part: SearchPart, names: Mapping[str, int]) -> None:
        """Add the scores of a race to what is known, and fit the model again. `names` maps arms to point numbers."""
        numbers = {CONTROL: 0, **names}
        primary = primary_of(part)
        for outcome, blocks in part.scores.items():
            scale = part.scales.get(outcome, "log")
            for block, visits in blocks.items():
                for arm, score in visits.items():
                    if arm in numbers and math.isfinite(score):
                        one = SeenVisit(self._blocks + block, numbers[arm], comparable_score(score, scale))
                        self._seen.setdefault(outcome, []).append(one)
                        self.entries[numbers[arm]].visits += outcome == primary
        self._blocks += max((max(blocks, default=0) for blocks in part.scores.values()), default=0) + 1
        for arm, failures in part.failed.items():
            if arm in names:
                self.entries[names[arm]].failures += failures
        self._fit(part)

    def _fit(self, part: SearchPart) -> None:
        self._find_crashes()
        seen = self._seen.get(primary_of(part), [])
        if len({one.point for one in seen}) < 2:
            return
        points = [one.point for one in self.entries]
        self.model = Surrogate(self.space, points, seen, self.model)
        self._check_guards(part, points)
        self._choose_incumbent(part)

    def _choose_incumbent(self, part: SearchPart) -> None:
        """Choose the incumbent after the model has learnt from this trial."""
        del part
        ranked = self.ranked()
        self.incumbent = ranked[0] if ranked and self.estimate(ranked[0])[0] > 0 else 0

    def _find_crashes(self) -> None:
        failed = [one.point for one in self.entries if one.failures]
        fine = [one.point for one in self.entries if one.visits and not one.failures]
        self.crashes = crash_regions(self.space, failed, fine)

    def _check_guards(self, part: SearchPart, points: Sequence[Point]) -> None:
        """Mark the points that probably break a guard. The confirming trial decides about the others."""
        for one in self.entries:
            one.guard = None
        for outcome in {one.outcome for one in part.judgement.judged if one.role == "guard"}:
            mean, covariance = Surrogate(self.space, points, self._seen[outcome]).effects(points)
            highest = mean + self.guard_errors * np.sqrt(np.maximum(np.diag(covariance), 0.0))
            limit = -math.log1p(part.margins.get(outcome, 0.0))
            for one, effect in zip(self.entries, highest.tolist(), strict=True):
                if effect < limit and one.visits:
                    one.guard = outcome

    def ranked(self) -> list[int]:
        """Return the points that may win, the best estimate first."""
        usable = [at for at, one in enumerate(self.entries) if at and one.is_usable]
        if not usable or self.model is None:
            return []
        mean, _ = self.model.effects([self.entries[at].point for at in usable])
        return [usable[at] for at in np.argsort(-mean, kind="stable").tolist()]

    def estimate(self, number: int) -> tuple[float, float]:
        """Return the estimate of the effect of point `number`, and the standard error of this estimate."""
        assert self.model is not None, "something was measured"
        mean, covariance = self.model.effects([self.entries[number].point])
        return float(mean[0]), math.sqrt(max(float(covariance[0, 0]), 0.0))

    def block_sd(self) -> float | None:
        """Return the standard deviation of a block's difference; None before the first race."""
        return None if self.model is None else math.sqrt(2 * self.model.noise)

    def without(self, point: Point) -> dict[str, dict[str, Scalar]]:
        """Return, by setting, the points that lack one setting of `point` and that the space allows."""
        found = {
            name: self.space.settled({**point, name: self.space.control[name]}) for name in self.space.changes(point)
        }
        return {name: one for name, one in found.items() if self.space.problem(one) is None}

    def simplest(self, point: Point, loss: float) -> dict[str, Scalar]:
        """Return the point after removing settings one by one, while a removal costs at most `loss` by the model."""
        present = dict(point)
        while len(self.space.changes(present)) > 1 and (without := list(self.without(present).values())):
            losses = self._losses(present, without)
            least = int(np.argmin(losses))
            if losses[least] > loss:
                break
            present = without[least]
        return present

    def _losses(self, point: Point, others: Sequence[Point]) -> Array:
        """Return by how much each of the others is worse than the point, by the model."""
        assert self.model is not None, "something was measured"
        mean, _ = self.model.effects([point, *others])
        return np.asarray(mean[0] - mean[1:])

    def prefer_fewer(self, loss: float) -> None:
        """Make the point with the fewest settings the incumbent, if its estimate is close to the best estimate.

        The estimate may be lower by up to `loss`, but by no more than half of the best estimate.
        """
        ranked = self.ranked()
        best = self.estimate(ranked[0])[0]
        close = [at for at in ranked if self.estimate(at)[0] >= max(best - loss, best / 2)]
        self.incumbent = min(close, key=lambda at: len(self.space.changes(self.entries[at].point)))

    def narrow(self, kept: set[str], why: str) -> None:
        """Keep only the dimensions `kept` and the rules about them; `why` is the reason. Forget all points."""
        space = self.space
        left = {one.name: why for one in space.dimensions if one.name not in kept}
        dimensions = tuple(
            msgspec.structs.replace(one, when=tuple(rule for rule in one.when if rule.names <= kept))
            for one in space.dimensions
            if one.name in kept
        )
        self.space = msgspec.structs.replace(
            space,
            dimensions=dimensions,
            constraints=tuple(rule for rule in space.constraints if rule.names <= kept),
            left_out={**space.left_out, **left},
        )
        self.entries = [KnownPoint(point=self.space.control)]

    def history(self) -> tuple[TriedPoint, ...]:
        """Return every point that was tried, with its present estimate."""
        found = []
        for number, one in enumerate(self.entries[1:], start=1):
            mean, error = self.estimate(number) if one.visits and self.model is not None else (None, 0.0)
            state, reason = one.state
            found.append(
                TriedPoint(
                    number=number,
                    changes=self.space.changes(one.point),
                    visits=one.visits,
                    estimate=mean,
                    low=None if mean is None else mean - CERTAIN * error,
                    high=None if mean is None else mean + CERTAIN * error,
                    state=state,
                    reason=reason,
                )
            )
        return tuple(found)

    def importance(self) -> tuple[Importance, ...]:
        """Return what each dimension alone does, the strongest first. Return nothing before the first race."""
        if self.model is None:
            return ()
        found = []
        for name, (middle, low, high) in importance_of(self.model, self.space).items():
            values = grid_of(self.space.of(name))
            cut = self.model.slice_of(self.space.of(name), values)
            rows = tuple(
                (value, mean, mean - CERTAIN * error, mean + CERTAIN * error)
                for value, mean, error in zip(values, cut.means, cut.errors, strict=True)
            )
            found.append(Importance(dimension=name, range=middle, low=low, high=high, slice=rows))
        return tuple(sorted(found, key=lambda one: -one.range))


def part_of_log(trial: str, log: Sequence[Event], seconds: float) -> SearchPart:
    """Return a trial of a search from its log; `seconds` is how long the trial took."""
    from ktrial.judge.judge import judge

    found = collect(log)
    outcomes = {name: rule for name, rule in found.protocol.outcomes.items() if rule.role != "exploratory"}
    primary = found.protocol.primary
    return SearchPart(
        trial=trial,
        judgement=judge(log),
        scores={name: visit_scores(found, name) for name in outcomes},
        visits=sum(isinstance(event, RunEnded) and event.block is not None for event in log),
        seconds=seconds,
        failed={arm: failed for arm, failed in found.failed(primary).items() if failed},
        directions={name: rule.direction for name, rule in outcomes.items()},
        scales={name: rule.scale for name, rule in outcomes.items()},
        margins={name: rule.margin for name, rule in outcomes.items()},
    )


def primary_of(part: SearchPart) -> str:
    """Return the primary outcome; without a judgement, the first outcome with scores."""
    return next((one.outcome for one in part.judgement.judged if one.role == "primary"), next(iter(part.scores)))


def joint_draws(model: Surrogate, pool: Sequence[Point], rng: np.random.Generator) -> Iterator[Array]:
    """Yield endless joint random draws from the model, each with the effects of all points in `pool`."""
    mean, covariance = model.effects(pool)
    size = len(pool)
    scale = max(float(np.trace(covariance)) / size, 1e-12)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2 + 1e-9 * scale * np.eye(size))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    while True:
        yield mean + root @ rng.standard_normal(size)
