# SPDX-License-Identifier: Apache-2.0
"""The steps of a search: screen many knobs, race challengers against the incumbent, confirm the winner, prune it.

The next step depends only on the replies so far and on the seed. An interrupted search therefore resumes from the
stored trials alone.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence

import msgspec
import numpy as np

from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.judge.model.log import Race, Screen
from ktrial.judge.planning import blocks_to_detect, blocks_to_show_equivalence, smallest_effect
from ktrial.judge.screening_judge import screened_arms
from ktrial.judge.stats.critical import LOOKS
from ktrial.studies.search.knowledge import CERTAIN, Knowledge, primary_of
from ktrial.studies.search.model import (
    Ending,
    ProbeReply,
    ProbeRequest,
    Removal,
    Reply,
    Request,
    SearchAnswer,
    SearchPart,
    SearchProgress,
    SearchQuestion,
    SearchStep,
    StepKind,
)
from ktrial.studies.search.space import Dimension, Point, Scalar, plain
from ktrial.studies.search.surrogate import grid_of
from ktrial.trial.protocol.file import CONTROL, DesignFile

Course = Generator[Request, Reply, SearchAnswer]
INCUMBENT = "incumbent"
WINNER = "winner"
#: New points in a race. A race has one block: another ten points show more than the same ones once more.
CHALLENGERS = 10
#: Points of the last race, its blocks, and the share of the points that stays after each.
FINALISTS, FINAL_BLOCKS, KEEP = 8, 3, 0.5
#: Blocks of a confirmation, and the share of the budget that is kept for it before anything is known.
FEWEST_CONFIRM, MOST_CONFIRM, CONFIRM_SHARE = 9, 40, 0.3
#: A confirmation has this many blocks, unless the budget is small: races show too little of rare disturbances.
_SAFE_CONFIRM = 12
#: A counter is judged once, after this many blocks.
COUNTER_BLOCKS = 20
#: A search must be able to afford a confirmation and this many races.
_FEWEST_RACES = 2
#: With more dimensions than this, and enough time, ktrial screens the knobs first and keeps SCREEN_KEEP of them.
SCREEN_ABOVE, SCREEN_KEEP, SCREEN_BLOCKS, _SCREEN_SHARE = 16, 10, 24, 0.25
#: The share of the estimated effect that a confirmation is planned for: estimates of winners are too high.
HOPE = 0.7
#: What fewer settings may cost by the model before the confirmation, as a share of the margin.
NO_LOSS = 0.25
#: Most settings whose removal one trial tests, the fewest blocks of such a trial, and its largest share of the budget.
_MOST_REMOVALS, _REMOVAL_BLOCKS, _REMOVAL_SHARE = 7, 12, 0.25
#: A search ends if this many points failed before one was measured.
_HOPELESS = 20
#: Attempts to find points that the machine takes.
_ATTEMPTS = 3


def fewest_visits(outcomes: int = 1) -> int:
    """Return how many visits a search needs at least to confirm a point, or two points if it has several outcomes."""
    points = 1 if outcomes == 1 else 2
    return _FEWEST_RACES * race_visits(CHALLENGERS, 1) + (1 + points) * FEWEST_CONFIRM


def race_visits(challengers: int, stay: int, blocks: int = 1, keep: float = 1.0) -> int:
    """Return the number of visits in a race in which nothing fails.

    Of the challengers, the share `keep` stays after each block; `stay` other points, and the control, are in every
    block.
    """
    visits, left = 0, challengers
    for _ in range(blocks):
        visits += 1 + stay + left
        left = max(1, math.ceil(keep * left - 1e-9))
    return visits


class SearchCourse:
    """Walks through the steps of a search."""

    def __init__(self, question: SearchQuestion) -> None:
        self.question = question
        self.known = Knowledge(question.space, question.sampler, question.seed)
        self.parts: list[SearchPart] = []
        self._probes_s = 0.0
        #: Settings of the winner that a trial tried without.
        self.removals: tuple[Removal, ...] = ()

    @property
    def spent_s(self) -> float:
        return self._probes_s + sum(part.seconds for part in self.parts)

    @property
    def visit_s(self) -> float | None:
        """The mean seconds of a visit in this search or, before its first trial, in earlier runs; None if unknown."""
        visits = sum(part.visits / part.machines for part in self.parts)
        return sum(part.seconds for part in self.parts) / visits if visits else self.question.visit_s

    @property
    def visits_left(self) -> float:
        """How many visits the budget still allows; infinite while the time of a visit is unknown."""
        return math.inf if not self.visit_s else (self.question.budget_s - self.spent_s) / self.visit_s

    @property
    def fewest(self) -> int:
        """The number of visits that the search needs at least."""
        return fewest_visits(self.question.outcomes) + 2 * (self._fewest_blocks() - FEWEST_CONFIRM)

    def reserved_visits(self) -> int:
        """Return how many visits are reserved for the last race, the confirmation and, if affordable, the removals."""
        return 2 * self.reserve() + self._final_visits() + self._removal_visits()

    def reserve(self) -> int:
        """Return how many blocks the confirmation should get, from the effect and the noise known so far."""
        if self._is_count():
            return COUNTER_BLOCKS
        total = math.inf if not self.visit_s else self.question.budget_s / self.visit_s
        sd = self.known.block_sd()
        if sd is None or not self.known.incumbent:
            return int(min(COUNTER_BLOCKS, max(FEWEST_CONFIRM, CONFIRM_SHARE * total / 2)))
        mean, _ = self.known.estimate(self.known.incumbent)
        needed = blocks_to_detect(sd, math.expm1(HOPE * mean)) if mean > 0 else MOST_CONFIRM
        if needed > min(MOST_CONFIRM, max(FEWEST_CONFIRM, total / 4)):
            # This budget cannot confirm the incumbent: the races should find something better first.
            return int(min(COUNTER_BLOCKS, max(FEWEST_CONFIRM, total / 10)))
        return int(max(needed, FEWEST_CONFIRM, min(_SAFE_CONFIRM, total / 8)))

    def run(self) -> Course:
        """Yield each request and receive its reply, which the caller sends. Return the answer."""
        if self.visits_left < self.fewest:
            return self._answer("budget too small", self._too_small())
        yield from self._screen_dimensions()
        while (left := self.visits_left - self.reserved_visits()) > 0:
            points = yield from self._next_points(self._affordable(left))
            if not points:
                break
            yield from self._race_new(points)
            if self.known.model is None and self._failed_points() >= _HOPELESS:
                break
            if len(self.parts) == 1 and self.visits_left < 2 * self._fewest_blocks():
                return self._answer("budget too small", self._too_small())
        if self.known.model is None:
            failed = self._failed_points()
            why = f"all {failed} points that were tried failed" if failed else "the machine refuses all points"
            return self._answer("nothing could be tried", why)
        yield from self._finals()
        if not self.known.incumbent:
            return self._answer("nothing found", "no point looks better than the control")
        return (yield from self._confirm_winner())

    def _failed_points(self) -> int:
        return sum(one.failures > 0 for one in self.known.entries)

    def progress(self) -> SearchProgress:
        """Return how far the search has come. Call this after its first trial."""
        known, part = self.known, self.parts[-1]
        best = known.incumbent
        return SearchProgress(
            trial=part.trial,
            points=sum(one.visits > 0 for one in known.entries[1:]),
            visits=sum(one.visits for one in self.parts),
            spent_s=self.spent_s,
            budget_s=self.question.budget_s,
            direction=part.directions.get(primary_of(part)),
            best=known.space.changes(known.entries[best].point),
            estimate=self._interval(best) if best else None,
        )

    def _interval(self, number: int) -> tuple[float, float, float]:
        mean, error = self.known.estimate(number)
        return mean, mean - CERTAIN * error, mean + CERTAIN * error

    def _too_small(self) -> str:
        total = int(self.visits_left) + sum(part.visits for part in self.parts)
        return f"a search needs at least {self.fewest} visits, and {max(0, total)} fit into the budget"

    def _affordable(self, left: float) -> int:
        """Return how many challengers a race may have; 0 if none."""
        stay = 1 if self.known.incumbent else 0
        return next((count for count in range(CHALLENGERS, 1, -1) if race_visits(count, stay) <= left), 0)

    def _is_count(self) -> bool:
        """Return whether the primary outcome is a count, whose trial has a fixed number of blocks."""
        return bool(self.parts) and self.parts[-1].scales.get(primary_of(self.parts[-1])) == "count"

    def _fewest_blocks(self) -> int:
        """Return the number of blocks of the smallest confirmation."""
        return COUNTER_BLOCKS if self._is_count() else FEWEST_CONFIRM

    def _final_visits(self) -> int:
        return race_visits(FINALISTS, 0, FINAL_BLOCKS, KEEP) if self.known.incumbent else 0

    def _next_points(self, count: int) -> Generator[Request, Reply, list[int]]:
        """Return the numbers of new points that this machine accepts."""
        found: list[int] = []
        for _ in range(_ATTEMPTS):
            wanted = self.known.choose(count - len(found)) if count > len(found) else []
            if not wanted:
                break
            found += yield from self._probe_points(wanted)
        return found

    def _probe_points(self, points: Sequence[Point]) -> Generator[Request, Reply, list[int]]:
        """Probe points on the machine; return the numbers of the new points that it accepts.

        A point with a clamped value counts, with the value that the kernel took.
        """
        probed = yield ProbeRequest(tuple(points))
        assert isinstance(probed, ProbeReply), "a probe is answered by what it found"
        self._probes_s += probed.seconds
        numbers: list[int] = []
        for at, (point, why, clamped) in enumerate(zip(points, probed.refused, probed.clamped, strict=True)):
            if why is not None:
                self.known.add(point, refused=why, crashed=any(probed.crashed[at : at + 1]))
                continue
            if clamped:
                instead = ", ".join(f"{name} = {plain(value)}" for name, value in clamped.items())
                self.known.add(point, refused=f"the kernel took {instead}")
            taken = self.known.space.settled({**point, **clamped})
            if self.known.find(taken) is None:
                numbers.append(self.known.add(taken))
        return numbers

    def _race_new(self, numbers: Sequence[int]) -> Generator[Request, Reply, None]:
        yield from self._race(numbers, 1)

    def _race(self, numbers: Sequence[int], blocks: int, keep: float = 1.0) -> Generator[Request, Reply, None]:
        """Race these points against the control and the incumbent, and learn from the race."""
        names = {f"p{number}": number for number in numbers}
        stay: tuple[str, ...] = ()
        if self.known.incumbent and self.known.incumbent not in numbers:
            names = {INCUMBENT: self.known.incumbent, **names}
            stay = (INCUMBENT,)
        part = yield from self._run_step(self._step("race", names, cap=blocks, race=Race(keep=keep, stay=stay)))
        self.known.learn(part, names)

    def _run_step(self, step: SearchStep) -> Generator[Request, Reply, SearchPart]:
        part = yield step
        assert isinstance(part, SearchPart), "a trial is answered by its part"
        self.parts.append(part)
        return part

    def _step(
        self, kind: StepKind, names: Mapping[str, int], *, cap: int, race: Race | None = None, base: int = 0
    ) -> SearchStep:
        """Return a trial of these points against the control, or against another point `base`."""
        given = self.question.control_trial
        control = CONTROL if base == 0 else WINNER
        numbers = {control: base, **names}
        points: dict[str, Point] = {name: self.known.entries[number].point for name, number in numbers.items()}
        number = len(self.parts) + 1
        file = msgspec.structs.replace(
            given,
            name=f"{self.question.name}.{number}-{kind}",
            part=self.question.name,
            control=control,
            design=self._design(cap, number),
            arms={name: self.question.arm(point) for name, point in points.items()},
            race=race or msgspec.UNSET,
        )
        return SearchStep(kind, file, points)

    def _design(self, cap: int, number: int) -> DesignFile:
        given = self.question.control_trial
        # In a guest every visit is a boot, with as many runs as the guests' workloads say.
        runs = 1 if given.guest is None else None
        return msgspec.structs.replace(given.design, cap=cap, seed=self.question.seed + number, runs_per_visit=runs)

    def _screen_dimensions(self) -> Generator[Request, Reply, None]:
        """Find out which of many dimensions matter at all, and search only these."""
        every = self.question.space.dimensions
        visits = self.visits_left
        if len(every) <= SCREEN_ABOVE or not 2 * SCREEN_BLOCKS <= _SCREEN_SHARE * visits < math.inf:
            return
        part = yield from self._run_step(self._screening())
        strong = self._strongest(part)[:SCREEN_KEEP]
        if strong:
            self.known.narrow(set(strong), "other settings moved the outcome more in the screening")

    def _strongest(self, part: SearchPart) -> list[str]:
        """Return the dimensions of a screening, those that move the outcome most first."""
        rows = next(one.coefficients for one in part.judgement.screened if one.role == "primary")
        return [one.setting for one in sorted(rows, key=lambda one: (not one.named, -abs(one.effect)))]

    def _screening(self) -> SearchStep:
        """Return a screening in which each dimension is either at its default or at a value far from it."""
        question, space = self.question, self.question.space
        rng = np.random.default_rng((question.seed, 40))
        far = {one.name: _far(one, rng) for one in space.dimensions}
        points: dict[str, Point] = {}
        for name in screened_arms(len(far), question.seed, SCREEN_BLOCKS):
            bits = int(name.rpartition("-")[2], 16)
            points[name] = space.settled({each: far[each] for at, each in enumerate(far) if bits >> at & 1})
        arms = {name: question.arm(point) for name, point in points.items()}
        given, control = question.control_trial, question.arm(space.control)
        file = msgspec.structs.replace(
            given,
            name=f"{question.name}.1-screen",
            part=question.name,
            design=self._design(SCREEN_BLOCKS, 0),
            arms={
                CONTROL: control,
                **{name: msgspec.structs.replace(arm, placebo=arm == control) for name, arm in arms.items()},
            },
            screen=Screen(settings=tuple(far)),
        )
        return SearchStep("screen", file, {CONTROL: space.control, **points})

    def _finals(self) -> Generator[Request, Reply, None]:
        """Race the best points once more, with a candidate that has fewer settings."""
        known = self.known
        if not known.incumbent:
            return
        loss = NO_LOSS * self._margin()
        chosen = known.ranked()[: FINALISTS - 1]
        fewer = known.simplest(known.entries[known.incumbent].point, loss)
        at = known.find(fewer)
        if at is None:
            chosen += yield from self._probe_points([fewer])
        elif at not in chosen and known.entries[at].is_usable:
            chosen.append(at)
        room = self.visits_left - 2 * self._fewest_blocks()
        fitting = (count for count in range(FINAL_BLOCKS, 0, -1) if race_visits(len(chosen), 0, count, KEEP) <= room)
        if len(chosen) > 1 and (blocks := next(fitting, 0)):
            yield from self._race(chosen, blocks, KEEP)
        if known.incumbent:
            known.prefer_fewer(loss)

    def _margin(self) -> float:
        part = self.parts[-1]
        return math.log1p(part.margins.get(primary_of(part), 0.02))

    def _confirm_winner(self) -> Course:
        """Confirm the winner by an ordinary trial of fresh blocks, then remove what it does not need."""
        candidate = self.known.incumbent
        estimate = self._interval(candidate)
        cap = self._cap()
        part = yield from self._run_step(self._step("confirm", {WINNER: candidate}, cap=cap))
        if not _is_better(part, WINNER):
            return self._answer("nothing found", _why_not(part), candidate, estimate, part, cap=cap)
        winner, confirming = yield from self._prune_winner(candidate, part)
        return self._answer("confirmed", "the trial confirms it", winner, estimate, confirming, cap=cap)

    def _cap(self) -> int:
        """Return the cap of the confirmation: blocks that suffice or, if the budget is too small, those that fit."""
        if self._is_count():
            return COUNTER_BLOCKS
        fitting = [look for look in LOOKS if look <= MOST_CONFIRM and 2 * look <= self.visits_left] or [LOOKS[0]]
        return next((look for look in fitting if look >= self.reserve()), fitting[-1])

    def _prune_winner(self, winner: int, confirmed: SearchPart) -> Generator[Request, Reply, tuple[int, SearchPart]]:
        """Return the winner without the settings whose removal is equivalent, and the trial that confirms it."""
        known = self.known
        point = known.entries[winner].point
        without = known.without(point) if len(known.space.changes(point)) > 1 else {}
        tried, cap = self._removable(without)
        if not tried:
            return winner, confirmed
        arms = {f"less-{at}": known.add(without[name]) for at, name in enumerate(tried, start=1)}
        part = yield from self._run_step(self._step("remove", arms, cap=cap, base=winner))
        verdicts = {name: _of_arm(part, arm).verdict for name, arm in zip(tried, arms, strict=True)}
        spare = [name for name, verdict in verdicts.items() if verdict == "equivalent"]
        fewer = known.space.settled({**point, **{name: known.space.control[name] for name in spare}})
        number, trial = winner, confirmed
        if spare and known.space.problem(fewer) is None and self.visits_left >= 2 * self._fewest_blocks():
            rest = known.find(fewer)
            rest = known.add(fewer) if rest is None else rest
            again = yield from self._run_step(self._step("fewest", {WINNER: rest}, cap=self._cap()))
            if _is_better(again, WINNER):
                number, trial = rest, again
        self.removals = tuple(
            Removal(dimension=name, verdict=verdict, removed=name in spare and number != winner)
            for name, verdict in verdicts.items()
        )
        return number, trial

    def _removable(self, without: Mapping[str, Point]) -> tuple[list[str], int]:
        """Return the settings whose removal the budget can test, the least useful first, and the blocks for it."""
        cap, model = self._removal_cap(), self.known.model
        if cap is None or model is None or not without:
            return [], 0
        mean, _ = model.effects(list(without.values()))
        ranked = [name for _, name in sorted(zip((-mean).tolist(), without, strict=True))][:_MOST_REMOVALS]
        room = self.visits_left - 2 * self._fewest_blocks()
        return ranked[: max(0, int(min(room // cap - 1, _MOST_REMOVALS)))], cap

    def _removal_cap(self) -> int | None:
        """Return the blocks that show that a removal makes no difference; None if no trial is long enough."""
        if self._is_count():
            return COUNTER_BLOCKS
        sd = self.known.block_sd()
        if sd is None:
            return None
        needed = max(blocks_to_show_equivalence(sd, math.expm1(self._margin())), _REMOVAL_BLOCKS)
        return next((look for look in LOOKS if look >= needed), None)

    def _removal_visits(self) -> int:
        """Return the visits that the removals from the incumbent need; 0 if that is too large a share of the budget."""
        cap = self._removal_cap()
        count = min(len(self.known.space.changes(self.known.entries[self.known.incumbent].point)), _MOST_REMOVALS)
        if cap is None or count < 2 or not self.visit_s:
            return 0
        needed = (1 + count) * cap + 2 * self._fewest_blocks()
        return needed if needed * self.visit_s <= _REMOVAL_SHARE * self.question.budget_s else 0

    def _answer(
        self,
        ending: Ending,
        reason: str,
        candidate: int = 0,
        estimate: tuple[float, float, float] | None = None,
        part: SearchPart | None = None,
        *,
        cap: int | None = None,
    ) -> SearchAnswer:
        known, space = self.known, self.question.space
        judged = None if part is None else _of_arm(part, WINNER)
        primary = primary_of(self.parts[-1]) if self.parts else None
        changes = known.space.changes(known.entries[candidate].point)
        sd = known.block_sd()
        limit = math.inf if sd is None else smallest_effect(sd, cap or max(FEWEST_CONFIRM, self.reserve()))
        return SearchAnswer(
            name=self.question.name,
            space=space.name,
            outcome=primary,
            direction=self.parts[-1].directions.get(primary) if primary else None,
            ending=ending,
            reason=reason,
            candidate=changes,
            winner=changes if ending == "confirmed" else {},
            kinds={one.name: one.kind for one in space.dimensions},
            estimate=estimate,
            effect=judged.effect if judged else None,
            verdict=judged.verdict if judged else None,
            confirmed_by=part.trial if part else None,
            detectable=limit if math.isfinite(limit) else None,
            removals=self.removals,
            history=known.history(),
            importance=known.importance(),
            crashes=known.crashes,
            refused=tuple(known.refusals),
            left_out=known.space.left_out,
            trials=tuple(one.trial for one in self.parts),
            runs=sum(one.visits for one in self.parts),
            seconds=self.spent_s,
            needed_s=self._probes_s + self.fewest * self.visit_s
            if self.visit_s and ending == "budget too small"
            else None,
            in_guests=self.question.trial.guest is not None,
            machines={one.trial: one.machines for one in self.parts if one.machines > 1},
        )


def _far(one: Dimension, rng: np.random.Generator) -> Scalar:
    """Return a value of the dimension far from its default."""
    values = grid_of(one)
    if one.is_range:
        return max(values, key=lambda value: abs(one.place(value) - one.place(one.default)))
    others = [value for value in values if value != one.default]
    return others[int(rng.integers(len(others)))] if others else one.default


def _of_arm(part: SearchPart, arm: str) -> OutcomeJudgement:
    return next(one for one in part.judgement.judged if one.role == "primary" and one.arm == arm)


def broken_guards(part: SearchPart, arm: str) -> list[str]:
    """Return the guards that an arm certainly breaks."""
    return [one.outcome for one in part.judgement.judged if one.arm == arm and one.guard == "broken"]


def _is_better(part: SearchPart, arm: str) -> bool:
    """Return whether the trial found the arm better, without a broken guard."""
    return _of_arm(part, arm).verdict == "better" and not broken_guards(part, arm)


def _why_not(part: SearchPart) -> str:
    if broken := broken_guards(part, WINNER):
        return f"the best candidate breaks the guard {', '.join(broken)}"
    return f"fresh blocks do not confirm the best candidate: {_of_arm(part, WINNER).verdict or 'undecided'}"
