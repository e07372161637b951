# SPDX-License-Identifier: Apache-2.0
"""The visits of a trial that the machine makes by itself, from plans of one or more blocks.

The head writes a plan and fetches its log. The code of an ordinary trial then turns the log into records, on a machine
that answers from the log. The head makes the warm-ups itself, because they end when two runs are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ktrial.agent.session import AgentSession
from ktrial.bench.around.around_run import Around
from ktrial.bench.around.idle import MachineInUse
from ktrial.bench.around.start_gate import OTHERS_HOLD_S, OTHERS_S, StartGates
from ktrial.bench.run.executor import AgentExecutor
from ktrial.bench.run.folders import PlanFolders
from ktrial.bench.run.make_run import RunMaker
from ktrial.bench.run.sampling import AgentSampling
from ktrial.bench.run.undoable_command import ArmExtras
from ktrial.judge.model.judgement import NextStep
from ktrial.judge.model.log import BlockVoided, RunEnded, block_order
from ktrial.judge.planning import FEWEST_BLOCKS
from ktrial.kit.errors import AgentError, KtrialError, LimitPassed
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.gate_readings import Thermometers
from ktrial.machine.ports import Machine
from ktrial.machine.reading import Reading
from ktrial.machine.watch_run import ConditionWatch
from ktrial.trial.arms.arms import Arms
from ktrial.trial.record import StoredTrial
from ktrial.trial.run.events import TrialListener, VisitWaits
from ktrial.trial.run.guards import writers
from ktrial.trial.run.loop import Standing, Visit
from ktrial.trial.run.ports import TrialWorld
from ktrial.trial.run.prepare import Prepared, Rig
from ktrial.trial.run.records import INPUT
from ktrial.trial.run.visits import WAITS_FOR_IDLE, MachineVisits
from ktrial.trial.unattended.carrier import Carrier, Fetched, Turn
from ktrial.trial.unattended.log import Line, MadeVisit, PlanBegun, ended_in, made_visits
from ktrial.trial.unattended.plan import (
    LOOK_SOURCES,
    PlannedArm,
    PlannedCommand,
    PlannedVisit,
    Rest,
    UnattendedPlan,
    planned_gates,
    refuse_invocation,
    refuse_shape,
)
from ktrial.trial.unattended.replay import Answers, AnswerTransport, LogClock, LogExecutor, Unanswered
from ktrial.tuning.plans.wire import wire_plan
from ktrial.tuning.state.snapshot import take_state

#: A plan may take this many times the estimate, and this many seconds more.
_SLOWER, _MORE_S = 4.0, 600.0
_LONGEST_S = 6 * 86_400.0


class Unattended(NamedTuple):
    """Everything that a trial needs for plans: a root session, the user's agent, and the folders of runs."""

    root: Machine
    executor: AgentExecutor
    #: Makes the private folders of runs.
    folders: PlanFolders
    #: How many milliseconds the measured machine's clock is ahead of this machine's.
    ahead_ms: int = 0
    #: Keeps the connection to another machine open while nothing is sent; None if the machine is this one.
    asleep: Callable[[float], AbstractContextManager[None]] | None = None
    #: Set if the trial pauses when the machine has a plan, instead of waiting for the end of the plan.
    turn: Turn | None = None


class _KeptVisit(NamedTuple):
    """A visit that the machine has made, and its part of the plan. `used` describes what somebody used meanwhile."""

    made: MadeVisit
    planned: PlannedVisit
    plan: str
    #: The arms of the block in the order of the plan.
    order: tuple[str, ...]
    used: str | None = None


def refuse_uncarried(ready: Prepared) -> None:
    """Raise Refused for a trial that a plan cannot carry, before anything is measured."""
    between = ready.suite.between
    refuse_shape(
        [
            (
                "arms with commands, services, builds or schedulers",
                any(one != ArmExtras() for one in ready.extras.values()),
            ),
            ("a background load", ready.suite.load is not None),
            ("resets between runs", between.sync or between.reset_swap or between.drop_caches),
        ]
    )
    for task in {one.label: one for tasks in (ready.tasks, *ready.own_tasks.values()) for one in tasks}.values():
        refuse_invocation(task.label, task.benchmark.invocation(task.parameters, ready.facts))


class UnattendedVisits:
    """A `VisitMaker` whose visits the machine makes by itself; the head uses `live` and `arms` for the warm-ups."""

    def __init__(  # noqa: PLR0913, PLR0917 (everything that it needs from outside)
        self,
        world: TrialWorld,
        stored: StoredTrial,
        ready: Prepared,
        rig: Rig,
        needs: Unattended,
        standing: Standing,
        live: MachineVisits,
        arms: Arms,
        listen: TrialListener,
        make_visits: Callable[[Replayed, FactBook], MachineVisits],
    ) -> None:
        self._world = world
        self._ready = ready
        self._around = rig.around
        self._needs = needs
        self._standing = standing
        self._settle_s = stored.settle_s
        self._live = live
        self._arms = arms
        self._make_visits = make_visits
        self._carrier = Carrier(needs.root, world.clock, stored.trial, needs.asleep, needs.turn)
        self._replayed = Replayed(world, ready, rig, needs, standing)
        self._held: dict[tuple[int, str], _KeptVisit] = {}
        self._folders: set[Path] = set()
        self._visits: dict[str, MachineVisits] = {}
        self._failure: KtrialError | None = None
        self._has_looked = False
        self._listen = listen
        self._told_over: int | None = None
        #: Expected time of the machine's newest plan, if the trial pauses for it.
        self.sent_s: float | None = None
        #: The current use of the machine, if the trial pauses because of it.
        self.in_use: str | None = None
        if needs.turn is not None:
            self._around.refuse_use()

    def begin(self, blocks_left: int | None) -> None:
        try:
            self._live.begin(blocks_left)
        except MachineInUse as use:
            self.in_use = str(use)
        self._arms.leave()

    def can_make(self, visit: Visit) -> bool:
        return True

    def make(self, visits: Sequence[Visit], blocks_left: int | None) -> bool:
        """Make the visits in order, until a visit voids the block. Return False if the machine makes visits later."""
        for at, visit in enumerate(visits):
            if self._find(visit) is None:
                self._look_for_left()
            if self._find(visit) is None:
                self._raise_failure()
                if not self._carry_out(visits[at:], blocks_left):
                    return False
            if (held := self._find(visit)) is None:
                self._raise_failure()
                raise KtrialError(
                    f"the plan ended before the visit of {visit.arm} in block {visit.block}",
                    hint=f"run `ktrial trial resume {self._standing.trial} --unattended`",
                )
            del self._held[visit.block, visit.arm]
            if not self._replay(visit, held):
                return True
        return True

    def ends_for_time(self, step: NextStep) -> bool:
        return self._live.ends_for_time(step)

    def end(self) -> None:
        """Clean up after the last visit. Keep the folders of visits that are not yet turned into records."""
        try:
            self._live.end()
        finally:
            waiting = {Path(one.planned.runs[0][0].folder).parent for one in self._held.values()}
            for folder in self._folders - waiting:
                self._needs.folders.remove(folder)

    def _find(self, visit: Visit) -> _KeptVisit | None:
        """Return a visit that was made in the order that was drawn for its block; None if there is none."""
        held = self._held.get((visit.block, visit.arm))
        drawn = self._standing.drawn[visit.block].order
        if held is None or held.order != tuple(arm for arm in drawn if arm in held.order):
            return None
        return held

    def _look_for_left(self) -> None:
        """Fetch, once, the visits that the machine made while no head was there."""
        if self._has_looked:
            return
        self._has_looked = True
        for name in self._carrier.own_plans():
            self._keep(self._carrier.fetch(name), is_left=True)

    def _carry_out(self, visits: Sequence[Visit], blocks_left: int | None) -> bool:
        """Let the machine make these visits and later ones.

        Return False without waiting for them if the trial pauses.
        """
        if not self._is_idle():
            return False
        plan = self._plan([*visits, *self._ahead(visits[0].block, blocks_left)])
        expected_s = self._live.pace.visits_s(len(plan.visits)) or 0.0
        if self._needs.turn is not None:
            self._carrier.start(plan)
            self.sent_s = expected_s
            return False
        interrupts, self._told_over = self._world.interrupts, None
        # The agent watches the limits; a second watch here would only disturb the machine.
        watch, interrupts.watch = interrupts.watch, None
        try:
            self._start(plan)
            self._keep(self._carrier.follow(plan, expected_s, partial(self._tell, len(plan.visits))))
        finally:
            interrupts.watch = watch
        return True

    def _is_idle(self) -> bool:
        """Wait for an idle machine if the user asked for one. Return False if the trial pauses instead."""
        if self.in_use is None:
            try:
                self._around.wait(lambda used: self._listen(VisitWaits(waiting=f"{WAITS_FOR_IDLE}: {used}")))
            except MachineInUse as use:
                self.in_use = str(use)
        return self.in_use is None

    def _start(self, plan: UnattendedPlan) -> None:
        """Start a plan. If the agent refuses it, remove the plan's folder."""
        try:
            self._carrier.start(plan)
        except AgentError as error:
            if error.kind != "lost":  # the plan may have started
                self._needs.folders.remove(_folder_of(plan))
            raise

    def _tell(self, visits: int, over: int) -> None:
        """Report the progress of a plan whenever it changes."""
        if self._told_over != over:
            self._told_over = over
            told = f"this machine makes {visits} visits by itself; {over} are over"
            self._listen(VisitWaits(waiting=told))

    def _keep(self, fetched: Fetched, *, is_left: bool = False) -> None:
        """Store the visits that were made, and the reason why there are no more."""
        plan, lines = fetched
        used = self._used_since(lines)
        for made in made_visits(lines):
            planned = plan.visits[made.visit.visit]
            order = tuple(one.arm for one in plan.visits if one.block == planned.block)
            self._held[planned.block, planned.arm] = _KeptVisit(made, planned, plan.id, order, used)
        self._folders.add(_folder_of(plan))
        ended = ended_in(lines)
        hint = f"run `ktrial trial resume {self._standing.trial} --unattended`; everything has been restored"
        if ended is not None and ended.reason == "limit":
            self._failure = LimitPassed(
                ended.message,
                hint="remove the cause, or start a trial with a higher limit; all settings have been restored",
            )
        elif is_left or (ended is not None and ended.reason == "done"):
            self._failure = None
        elif ended is None:
            self._failure = KtrialError("the process that carried out the plan was killed", hint=hint)
        else:
            self._failure = KtrialError(f"the plan has ended early: {ended.message or ended.reason}", hint=hint)

    def _used_since(self, lines: Sequence[Line]) -> str | None:
        """Return what somebody has used since a plan began, if the user requires an idle machine."""
        begun = next((line for line in lines if isinstance(line, PlanBegun)), None)
        if begun is None or not self._around.waits_for_idle:
            return None
        now_ms = self._world.clock.unix_ms() + self._needs.ahead_ms
        return self._around.used_within(max(0.0, (now_ms - begun.at_unix_ms) / 1000))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _replay(self, visit: Visit, held: _KeptVisit) -> bool:
        """Turn a visit of a log into records and events. Return False if it made the block void."""
        if held.plan not in self._visits:
            self._visits[held.plan] = self._make_visits(self._replayed, self._facts_of(held.made))
        visits = self._visits[held.plan]
        visits.pace = self._live.pace
        first = len(held.planned.runs) - visit.runs
        self._replayed.load(held.made, held.planned, first)
        try:
            visits.make([visit], None)
        except Unanswered:
            if held.made.void is None:
                raise
        finally:
            self._replayed.arms.leave()
        void = held.made.void
        is_void = any(isinstance(event, BlockVoided) and event.block == visit.block for event in self._standing.log)
        if void is not None and not is_void:
            event = BlockVoided(block=visit.block, arm=visit.arm, cause=void.cause, reason=void.reason)
            self._standing.append(event)
        elif held.used is not None and not is_void:
            reason = f"{INPUT}: {held.used}"
            self._standing.append(BlockVoided(block=visit.block, arm=visit.arm, cause="reading", reason=reason))
            self._held = {place: one for place, one in self._held.items() if place[0] != visit.block}
        for command in (one for run in held.planned.runs[first:] for one in run):
            self._needs.folders.remove(Path(command.folder))
        return void is None and held.used is None and not is_void

    def _facts_of(self, made: MadeVisit) -> FactBook:
        """Return the facts of the boot in which a visit was made."""
        return FactBook({**self._ready.facts, "boot.id": Fact(value=made.begun.boot_id)})

    def _ahead(self, block: int, blocks_left: int | None) -> Iterator[Visit]:
        """Yield the visits of the next blocks up to the first one after which the judge can stop the trial."""
        standing, protocol = self._standing, self._standing.protocol
        voided = {event.block for event in standing.log if isinstance(event, BlockVoided)}
        done = sum(
            number not in voided and all(standing.runs_left(number, arm) == 0 for arm in drawn.order)
            for number, drawn in standing.drawn.items()
        )
        enough = protocol.cap if protocol.fixed and protocol.cap is not None else FEWEST_BLOCKS
        more = enough - done - 1
        if protocol.screen is not None or self._ready.file.time_s is not None or block != max(standing.drawn):
            more = 0
        if self._around.waits_for_idle:  # one block per plan, because the machine must be idle before each block
            more = 0
        if blocks_left is not None:
            more = min(more, blocks_left - 1)
        arms = [arm.name for arm in protocol.arms]
        for number in range(block + 1, block + 1 + more):
            order = block_order(protocol.seed, number, arms)
            yield from (
                Visit(number, arm, place, len(order), protocol.runs_per_visit) for place, arm in enumerate(order, 1)
            )

    def _plan(self, visits: Sequence[Visit]) -> UnattendedPlan:
        token = self._carrier.next_token()
        name = f"{self._standing.trial}-{token}"
        self._needs.folders.remove_others(self._carrier.all_plans())
        runs = sum(visit.runs * len(self._live.tasks_of(visit.arm)) for visit in visits)
        folder = self._needs.folders.make_for_plan(name, runs)
        try:
            return self._plan_in(folder, name, token, visits)
        except BaseException:
            self._needs.folders.remove(folder)
            raise

    def _plan_in(self, folder: Path, name: str, token: int, visits: Sequence[Visit]) -> UnattendedPlan:
        """Return the plan whose runs have their folders in `folder`. Raise Refused if a plan cannot carry a run."""
        world, standing = self._world, self._standing
        gates = self._around.gates
        assert gates is not None, "trials have gates"
        planned = tuple(self._planned(folder, visits))
        expected_s = self._live.pace.visits_s(len(visits)) or 0.0
        deadline_s = min(_LONGEST_S, _SLOWER * expected_s + _MORE_S)
        reference = self._replayed.gates.reference
        states = any(one.state for one in planned)
        return UnattendedPlan(
            id=name,
            trial=standing.trial,
            token=token,
            uid=self._needs.executor.user,
            deadline_unix_ms=world.clock.unix_ms() + self._needs.ahead_ms + int(deadline_s * 1000),
            settle_s=self._settle_s,
            rest=Rest(seconds=OTHERS_S, holds_s=OTHERS_HOLD_S),
            period_s=gates.watch.period_s,
            sources=None if gates.watch.period_s is None else LOOK_SOURCES,
            counters=tuple(path for counter in self._around.counters for path in counter.files),
            state=tuple(_state_questions(self._needs.root, world)) if states else (),
            follows=reference is not None,
            gates=planned_gates(standing.protocol.gates, reference, Thermometers.of(world.sampling.once())),
            limits=self._ready.file.safety,
            arms={arm.name: self._planned_arm(arm.name) for arm in standing.protocol.arms},
            visits=planned,
        )

    def _planned(self, folder: Path, visits: Sequence[Visit]) -> Iterator[PlannedVisit]:
        seen = {one.arm for one in self._standing.log if isinstance(one, RunEnded) and one.block is not None}
        number = 0
        for visit in visits:
            runs = []
            for _ in range(visit.runs):
                commands = []
                for task in self._live.tasks_of(visit.arm):
                    number += 1
                    place = folder / f"run-{number}"
                    invocation = self._live.invocation_of(task, visit.arm)
                    request = self._needs.executor.request_for(invocation, place)
                    kind = "exec" if invocation.load is None else "load"
                    commands.append(PlannedCommand(label=task.label, folder=str(place), **{kind: request}))
                runs.append(tuple(commands))
            state = self._ready.file.screen is None and visit.arm not in seen
            yield PlannedVisit(block=visit.block, arm=visit.arm, state=state, runs=tuple(runs))

    def _planned_arm(self, name: str) -> PlannedArm:
        plan = self._ready.plans.get(name)
        beside = {path: text or "" for path, text in self._arms.beside(name).items()}
        if plan is None or plan.empty:
            return PlannedArm(beside=beside)
        return PlannedArm(plan=wire_plan(plan, {"kind": "while-session"}), beside=beside)


class Replayed:
    """The machine, the arms and the tools of an ordinary trial, with answers from the log of a plan."""

    def __init__(self, world: TrialWorld, ready: Prepared, rig: Rig, needs: Unattended, standing: Standing) -> None:
        answers, live = Answers(), rig.around.gates
        assert live is not None, "trials have gates"
        self._answers = answers
        self.clock = LogClock(answers)
        machine = AgentSession(AnswerTransport(answers, "root"))
        sampling = AgentSampling(lambda: AnswerTransport(answers, "sampler"))
        watch = ConditionWatch(
            machine,
            sampling,
            self.clock,
            str(world.measuring_place.work),
            world.pack_samples,
            live.watch.period_s,
        )
        self.gates = StartGates(watch, self.clock, standing.protocol.gates, None, OTHERS_S)
        self.gates.take_up(standing.records)
        self.around = Around(
            machine,
            self.clock,
            take_state=lambda: take_state(machine, world.catalog).canonical(),
            gates=self.gates,
            counters=rig.around.counters,
        )
        self.arms = Arms(machine, ready.plans, writers(world, needs.root))
        self._executor = LogExecutor(answers, needs.executor, needs.folders)
        self.maker = RunMaker(self._executor, self.clock, None, self.around)

    def load(self, made: MadeVisit, planned: PlannedVisit, first_run: int) -> None:
        """Answer requests from this visit, beginning with run `first_run`."""
        self._answers.load(made, first_run)
        self._executor.load(one for run in planned.runs[first_run:] for one in run)


def _folder_of(plan: UnattendedPlan) -> Path:
    """Return the private folder of a plan, which contains a folder for each command."""
    return Path(plan.visits[0].runs[0][0].folder).parent


def _state_questions(root: Machine, world: TrialWorld) -> list[Mapping[str, Any]]:
    """Return the requests by which the machine's state is read."""
    asked = _AskedMachine(root)
    take_state(asked, world.catalog)
    return asked.questions


class _AskedMachine:
    """A machine that records what was read; implements `machine.ports.Machine`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.questions: list[Mapping[str, Any]] = []

    @property
    def is_root(self) -> bool:
        return self._machine.is_root

    def facts(self, only: Sequence[str] = ()) -> FactBook:
        self.questions.append({"do": "facts", **({"only": list(only)} if only else {})})
        return self._machine.facts(only)

    def list(self, patterns: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        if patterns:
            self.questions.append({"do": "list", "patterns": [*dict.fromkeys(patterns)]})
        return self._machine.list(patterns)

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        if paths:
            self.questions.append({"do": "read", "paths": [*dict.fromkeys(paths)]})
        return self._machine.read(paths)

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        return self._machine.request(do, **fields)
