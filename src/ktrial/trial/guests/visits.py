# SPDX-License-Identifier: Apache-2.0
"""The visits of a guest trial: each visit is a boot.

Exact guests of a block run at the same time, one on each CPU, because none can observe the others. Other guests run one
after the other, in the order that was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from ktrial.bench.availability import is_program
from ktrial.bench.benchmark import Invocation, RawOutput, pinned
from ktrial.bench.guest_tools import ODD_BOOT, GuestDiffers, GuestPlace, GuestRun
from ktrial.bench.record import Execution, RunRecord, TrialPlace, Watch
from ktrial.bench.run.make_run import RunMaker, RunRequest
from ktrial.bench.run.ports import RunStore
from ktrial.bench.schedule import RunPlace
from ktrial.bench.suite import Task
from ktrial.guests.agreement import agreement
from ktrial.judge.model.judgement import NextStep
from ktrial.judge.model.log import RunEnded, TrialEnd
from ktrial.kit.errors import BadRun, KtrialError
from ktrial.machine.ports import Clock
from ktrial.trial.guests.guest_visit import GuestTask, asked_of, came_of, job_of
from ktrial.trial.guests.model import perturbation
from ktrial.trial.guests.prepare import GuestLab, GuestReady
from ktrial.trial.guests.programs import RUNS, environment_of, in_guest
from ktrial.trial.protocol.protocol import refuse_few_events
from ktrial.trial.record import StoredTrial
from ktrial.trial.run.conduct import CarriedOut, take_up
from ktrial.trial.run.events import TrialListener, VisitBegan, VisitEnded
from ktrial.trial.run.loop import Standing, TrialLoop, Visit
from ktrial.trial.run.ports import TrialWorld
from ktrial.trial.run.prepare import version_of
from ktrial.trial.run.records import run_event

#: Seconds between two checks for an interruption.
_LOOK_S = 0.2


class BootedGuest(NamedTuple):
    """A visit's boot. `odd` describes how one of three boots differed, `differs` why no two boots were equal."""

    run: GuestRun
    odd: str | None = None
    differs: str | None = None


class _GuestFacts:
    """An executor for `RunMaker` that returns the results that a guest has already delivered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.left: list[Execution] = []

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        return self.left.pop(0)


class GuestVisits:
    """Makes the visits of a trial in guests, as a `VisitMaker`."""

    def __init__(  # noqa: PLR0913, PLR0917 (everything that it needs from outside)
        self,
        standing: Standing,
        guests: GuestReady,
        lab: GuestLab,
        runs: RunStore,
        clock: Clock,
        check: Callable[[], None],
        listen: TrialListener,
        versions: Mapping[str, str | None],
    ) -> None:
        """Prepare the visits.

        `check` raises KeyboardInterrupt after Ctrl-C; `versions` are the benchmarks' versions.
        """
        self._standing = standing
        self._protocol = standing.protocol
        self._guests = guests
        self._guest = guests.ready.file.guest
        self._lab = lab
        self._runs = runs
        self._clock = clock
        self._check = check
        self._listen = listen
        self._versions = versions
        self._told = _GuestFacts(clock)
        self._maker = RunMaker(self._told, clock)
        self._is_exact = self._guest is not None and self._guest.mode == "exact"
        self._proven: set[str] = set()

    def begin(self, blocks_left: int | None) -> None: ...

    def can_make(self, visit: Visit) -> bool:
        self._check()
        return True

    def make(self, visits: Sequence[Visit], blocks_left: int | None) -> bool:
        with self._booting(visits) as boots:
            for visit, boot in zip(visits, boots, strict=True):
                began = VisitBegan(block=visit.block, visit=visit.place, visits=visit.visits, left_s=None)
                self._listen(began)
                self._take(visit, self._awaited(boot))
        return True

    def ends_for_time(self, step: NextStep) -> bool:
        """Return False, because a trial in guests has no time limit."""
        return False

    def end(self) -> None: ...

    @contextmanager
    def _booting(self, visits: Sequence[Visit]) -> Iterator[list[Future[BootedGuest]]]:
        """Start all boots of a block; stop them if an error or interruption ends it."""
        with ThreadPoolExecutor(self._lab.workers if self._is_exact else 1) as pool:
            boots = [pool.submit(self._boot, visit) for visit in visits]
            try:
                yield boots
            except BaseException:
                for boot in boots:
                    boot.cancel()
                self._lab.stop()
                raise

    def _awaited(self, boot: Future[BootedGuest]) -> BootedGuest:
        while True:
            try:
                return boot.result(timeout=_LOOK_S)
            except TimeoutError:
                if boot.done():
                    raise
                self._check()

    def _boot(self, visit: Visit) -> BootedGuest:
        """Boot once. An arm's first visit in an exact guest boots until two boots agree, at most three times."""
        place, asked = self._place(visit), self._tasks_of(visit.arm)
        ready = self._guests.ready
        job, files = job_of(ready.plans[visit.arm], asked, ready.suite.load, place.shape, self._guests.tools)

        def boot() -> GuestRun:
            return self._lab.boot(place, job, files)

        run = boot()
        if not self._is_exact or self._proof(visit.arm) in self._proven:
            return BootedGuest(run)
        try:
            return BootedGuest(*agreement(run, boot(), boot))
        except GuestDiffers as error:
            return BootedGuest(run, differs=error.message)

    def _proof(self, arm: str) -> str:
        """Return the arm that two equal boots prove to be exact or, in a screening or race, its kernel.

        A screening or race has many arms, which get only one or two visits each.
        """
        file = self._guests.ready.file
        return self._guests.places[arm].kernel if file.screen is not None or file.race else arm

    def _place(self, visit: Visit) -> GuestPlace:
        place = self._guests.places[visit.arm]
        word = perturbation(self._protocol.seed, visit.block, visit.arm)
        shape = msgspec.structs.replace(place.shape, append=(*place.shape.append, word))
        return msgspec.structs.replace(place, shape=shape)

    def _tasks_of(self, arm: str) -> tuple[GuestTask, ...]:
        ready = self._guests.ready
        tasks = ready.own_tasks.get(arm, ready.tasks)

        def invocation_of(task: Task) -> Invocation:
            found = in_guest(task.benchmark.invocation(task.parameters, ready.facts), self._guests.tools)
            return pinned(found, task.cpus)

        return asked_of(tasks, self._protocol.runs_per_visit, invocation_of)

    def _take(self, visit: Visit, booted: BootedGuest) -> None:
        """Write the records of a visit, then all its events at once. Raise KtrialError if no two boots were equal."""
        if booted.differs is not None:
            told = f"{visit.arm}: {booted.differs}"
            self._standing.append(TrialEnd(reason=f"stopped: {told}"))
            raise KtrialError(told, hint='start a new trial with --mode kvm or emulated (in a protocol: mode = "kvm")')
        self._proven.add(self._proof(visit.arm))
        asked = self._tasks_of(visit.arm)
        came = came_of(booted.run, asked)
        word = perturbation(self._protocol.seed, visit.block, visit.arm)
        where = TrialPlace(
            trial=self._standing.trial,
            protocol_sha256=self._standing.protocol_sha256,
            block=visit.block,
            arm=visit.arm,
            kernel_release=came.kernel_release,
            # All boots of exact guests have the same boot id, because their randomness is fixed. The word differs.
            boot_id=word if self._is_exact else came.boot_id,
        )
        each = len(asked) // self._protocol.runs_per_visit
        # This boot repeats the runs of an exact visit that a killed ktrial had already recorded.
        first = len(asked) - each * visit.runs
        notes = () if booted.odd is None else (f"{ODD_BOOT}: {booted.odd}",)
        records = [self._record(visit, where, asked[at], came.outputs[at], notes) for at in range(first, len(asked))]
        runs = [records[at : at + each] for at in range(0, len(records), each)]
        events = [_event(visit, run) for run in runs]
        if not any(isinstance(event, RunEnded) for event in self._standing.log):
            refuse_few_events(self._protocol, events[0].events.get(self._protocol.primary))
        self._refuse_never(visit.arm, events)
        self._standing.append(*events)

    def _record(
        self, visit: Visit, where: TrialPlace, asked: GuestTask, raw: RawOutput, notes: tuple[str, ...]
    ) -> RunRecord:
        standing, task = self._standing, asked.task
        number, standing.next_run = standing.next_run, standing.next_run + 1
        session = standing.session.session
        self._runs.start(session, number, task.label, warm_up=False)
        self._told.left = [
            Execution(
                argv=asked.invocation.argv,
                environment=environment_of(asked.invocation),
                directory=RUNS if asked.invocation.argv else "/",
                started_monotonic_ns=self._clock.monotonic_ns(),
                started_unix_ms=self._clock.unix_ms(),
                raw=raw,
            )
        ]
        place = RunPlace(task.label, visit.block, visit.place)
        wanted = RunRequest(number, place, task, asked.invocation, self._versions[task.label], None)
        record, parts = self._maker.make(wanted, standing.session)
        record = msgspec.structs.replace(record, trial=where, notes=(*record.notes, *notes))
        name = self._runs.save(record, parts)
        standing.records.append(record)
        self._listen(VisitEnded(block=visit.block, record=record, name=name, failure=record.failure, void=None))
        return record

    def _refuse_never(self, arm: str, events: Sequence[RunEnded]) -> None:
        """Raise BadRun for an arm without any measurement, for example because its kernel doesn't boot.

        A race goes on without such an arm, unless it is the control.
        """
        if any(event.measurements for event in events) or self._standing.has_measured(arm):
            return
        if self._protocol.race and arm != self._protocol.control:
            return
        told = f"arm {arm} gave no measurement: {events[0].failure}"
        self._standing.append(TrialEnd(reason=f"stopped: {told}"))
        hint = f"remove this cause; `ktrial kernel boot {self._guests.places[arm].kernel}` shows what the guest prints"
        raise BadRun(told, hint=hint)


def _event(visit: Visit, records: Sequence[RunRecord]) -> RunEnded:
    failure = next((f"{one.benchmark}: {one.failure}" for one in records if one.failure is not None), None)
    return run_event(visit.block, visit.arm, records, failure)


def _version(world: TrialWorld, task: Task) -> str | None:
    """Return the version of a benchmark's program on this machine, which guests use too; None if unknown."""
    if not is_program(task.benchmark):
        return world.executor.agent_version
    return version_of(task.benchmark, world.executor)


def carry_on_in_guests(
    world: TrialWorld,
    stored: StoredTrial,
    guests: GuestReady,
    lab: GuestLab,
    check: Callable[[], None],
    listen: TrialListener,
) -> CarriedOut:
    guest = stored.file.guest
    labels = [task.label for task in guests.ready.tasks]
    standing = take_up(world, stored, labels, boots_end=guest is not None and guest.mode != "exact")
    versions = {task.label: _version(world, task) for task in guests.ready.tasks}
    visits = GuestVisits(standing, guests, lab, world.run_store, world.clock, check, listen, versions)
    loop = TrialLoop(standing, visits, listen)
    world.trials.hold()
    return CarriedOut(loop.carry_out(), loop.interrupted)
