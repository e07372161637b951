# SPDX-License-Identifier: Apache-2.0
"""Searches on a simulated machine: a formula gives the effect of a point on the score, and noise is added.

Course, trial loop and judge are those of a real search; only the visits are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ktrial.bench.record import Session
from ktrial.bench.suite import Task
from ktrial.judge.model.judgement import NextStep
from ktrial.judge.model.log import Event, RunEnded
from ktrial.studies.search.course import SearchCourse
from ktrial.studies.search.front import course_of
from ktrial.studies.search.knowledge import part_of_log
from ktrial.studies.search.model import (
    ProbeReply,
    ProbeRequest,
    Reply,
    Request,
    SearchAnswer,
    SearchPart,
    SearchQuestion,
    SearchStep,
)
from ktrial.studies.search.space import Dimension, Point, Space, checked_space
from ktrial.trial.protocol.file import DesignFile, TrialFile
from ktrial.trial.protocol.protocol import protocol_of
from ktrial.trial.run.loop import Standing, TrialLoop, Visit
from tests.support.bench import FakeBenchmark, outcome
from tests.support.trials import value_of

TOOL = FakeBenchmark(name="tool", outcomes=(outcome(), outcome("other", headline=False)))
TASKS = (Task(label="tool", benchmark=TOOL, parameters={}, cpus=None),)
SESSION = Session(
    session="made",
    suite="tool",
    label=None,
    seed=0,
    rounds=1,
    kernel_release=None,
    boot_id=None,
    machine={},
    ktrial_version="",
    agent_version=None,
)
Answer = TypeVar("Answer")
Effect = Callable[[Point], float | None]


def number(name: str, low: float, high: float, default: float, **more: object) -> Dimension:
    """Return a knob with a range of numbers."""
    return Dimension(name=name, kind="knob", default=default, low=low, high=high, **more)  # type: ignore[arg-type]


def choice(name: str, *values: str, default: str | None = None) -> Dimension:
    """Return a knob with a list of words; the first word is the default."""
    return Dimension(name=name, kind="knob", default=default or values[0], values=values)


def space_of(*dimensions: Dimension, constraints: Sequence[object] = ()) -> Space:
    """Return a space with these dimensions."""
    return checked_space(Space(name="made", dimensions=dimensions, constraints=tuple(constraints)))  # type: ignore[arg-type]


def question_of(space: Space, visits: int, seed: int = 1, **changes: object) -> SearchQuestion:
    """Return a search of this many visits, each a second long, judged by a time."""
    trial = TrialFile(name="test", suite="tool", primary="time", arms={}, design=DesignFile(settle="0s"))
    asked = {"name": "test", "space": space, "trial": trial, "seed": seed, "budget_s": float(visits), "visit_s": 1.0}
    return SearchQuestion(**{**asked, **changes})  # type: ignore[arg-type]


class MadeVisits:
    """Makes visits by formula. A point without an effect fails."""

    def __init__(self, standing: Standing, points: Mapping[str, Point], machine: MadeMachine) -> None:
        self._standing, self._points, self._machine = standing, points, machine

    def begin(self, blocks_left: int | None) -> None:
        """Do nothing."""

    def can_make(self, visit: Visit) -> bool:
        return True

    def make(self, visits: Sequence[Visit], blocks_left: int | None) -> bool:
        for visit in visits:
            self._standing.append(self._run(visit))
        return True

    def _run(self, visit: Visit) -> RunEnded:
        self._standing.next_run += 1
        measured: dict[str, float] = {}
        for name, rule in self._standing.protocol.outcomes.items():
            effects = self._machine.effects.get(name.partition(".")[2])
            effect = 0.0 if effects is None else effects(self._points[visit.arm])
            if effect is not None:
                value = value_of(effect + next(self._machine.noise), rule)
                measured[name] = float(max(0, round(value))) if rule.scale == "count" else value
        run, failed = self._standing.next_run, len(measured) < len(self._standing.protocol.outcomes)
        if failed:
            return RunEnded(run=run, block=visit.block, arm=visit.arm, failure="it crashed")
        return RunEnded(run=run, block=visit.block, arm=visit.arm, measurements=measured)

    def ends_for_time(self, step: NextStep) -> bool:
        return False

    def end(self) -> None:
        """Do nothing."""


class _InMemory:
    def append(self, trial: str, events: Sequence[Event]) -> None:
        """Store nothing: the loop keeps the log too."""


class MadeMachine:
    """A machine whose `effects` give the effect of a point by outcome.

    `clamp` returns the value that the kernel takes instead of a requested one.
    """

    def __init__(
        self,
        effects: Mapping[str, Effect],
        noise: Iterator[float],
        refuse: Callable[[Point], str | None] = lambda _: None,
        clamp: Callable[[Point], Mapping[str, object]] = lambda _: {},
        tasks: Sequence[Task] = TASKS,
    ) -> None:
        self.effects, self.noise = effects, noise
        self.refuse, self.clamp = refuse, clamp
        self.tasks = tasks
        self.steps: list[SearchStep] = []

    def reply(self, request: Request) -> Reply:
        """Return the answer of the machine to a request."""
        if isinstance(request, ProbeRequest):
            refused = tuple(self.refuse(point) for point in request.points)
            return ProbeReply(refused=refused, clamped=tuple(self.clamp(point) for point in request.points))  # type: ignore[misc]
        self.steps.append(request)
        return self.run_trial(request)

    def run_trial(self, step: SearchStep) -> SearchPart:
        log = self.log_of(step.file, step.points)
        visits = sum(isinstance(event, RunEnded) for event in log)
        return part_of_log(step.file.name, log, float(visits))

    def log_of(self, file: TrialFile, points: Mapping[str, Point]) -> list[Event]:
        """Run one trial to its end, in the loop of all trials."""
        assert file.design.seed is not None
        protocol = protocol_of(file, self.tasks, {}, file.design.seed, None, 1)
        standing = Standing(
            trial=file.name,
            protocol_sha256="",
            session=SESSION,
            log=[protocol],
            records=[],
            next_run=0,
            logs=_InMemory(),
        )
        TrialLoop(standing, MadeVisits(standing, points, self), lambda _: None).carry_out()
        return standing.log


def noise_of(seed: int, sd: float) -> Iterator[float]:
    """Yield endless normal noise."""
    rng = np.random.default_rng((seed, 77))
    while True:
        yield from rng.normal(0, sd, 64).tolist()


def run_search(asked: SearchQuestion, machine: MadeMachine) -> tuple[SearchAnswer, SearchCourse]:
    """Run a whole search."""
    walk = course_of(asked)
    return drive(walk.run(), machine), walk


def drive(course: Generator[Request, Reply, Answer], machine: MadeMachine) -> Answer:
    """Run a part of a search, with answers of the machine."""
    try:
        request = next(course)
        while True:
            request = course.send(machine.reply(request))
    except StopIteration as end:
        answer: Answer = end.value
        return answer
