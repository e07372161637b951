# SPDX-License-Identifier: Apache-2.0
"""Measure: runs the benchmarks of a suite in rounds, in random order, and records each run as soon as it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ktrial import __version__
from ktrial.domain.benchmark import Invocation, ParsedRun, RawOutput, check_exit, check_measurements
from ktrial.domain.errors import BadRun, KtrialError
from ktrial.domain.facts import Fact, FactBook
from ktrial.domain.run import (
    LOAD_THROUGHPUT,
    MACHINE_FACTS,
    Artefact,
    Execution,
    Exit,
    Kept,
    Resources,
    RunRecord,
    Session,
    Summary,
    Watch,
    raw_parts,
    summarise,
)
from ktrial.domain.suite import Task
from ktrial.services.around import Around
from ktrial.services.availability import Availability, examine
from ktrial.services.background import Background, Ended
from ktrial.services.ports import Clock, Executor, RunStore
from ktrial.services.schedule import Order, Place, places, places_done, plan_of


class Began(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="began"):
    """The measurement begins. `missing` benchmarks are left out. `expected_s` is null when it cannot be told yet.

    `done` runs were made before it was interrupted; it goes on with the others.
    """

    session: Session
    where: str
    done: int
    benchmarks: tuple[str, ...]
    missing: tuple[Hole, ...]
    runs: int
    expected_s: float | None


class RunBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run-began"):
    """A run begins: the one at `place` of `runs`, whatever was interrupted or is made again before it.

    `left_s` is the time to the end of all, null when nothing can be told.
    `left_is_least` says that the time of some runs is not known yet and not in it.
    """

    run: int
    place: int
    runs: int
    round: int
    benchmark: str
    left_s: float | None
    left_is_least: bool


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="waiting"):
    """The next run waits for an idle machine; `used` is what is in use."""

    used: str


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run"):
    """A run ended and is kept as `name`. `so_far` are the benchmark's summaries up to here."""

    record: RunRecord
    name: str
    so_far: tuple[Summary, ...]


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that is missing from the results, wholly or in some runs: why, and the next step if known."""

    benchmark: str
    why: str
    next: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="ended"):
    """What was measured. `complete` of `wanted` benchmarks have all their runs; `holes` names the others."""

    session: Session
    where: str
    wanted: int
    complete: int
    holes: tuple[Hole, ...]
    interrupted: bool
    summaries: tuple[Summary, ...]


#: So often a run that was disturbed by input is made again.
MOST_REPEATS = 3
_RESETS = {
    "sync": "files could not be written back",
    "swap": "swap could not be reset",
    "caches": "caches could not be dropped",
}
Event = Began | Waiting | RunBegan | RunEnded | Result
Listener = Callable[[Event], None]


def measure(
    order: Order,
    executor: Executor,
    store: RunStore,
    clock: Clock,
    facts: FactBook,
    listen: Listener,
    around: Around | None = None,
) -> tuple[Result, tuple[RunRecord, ...]]:
    """Carry the order out. An interruption ends it in order: what was measured is kept and summarised."""
    missing = _missing(order, executor)
    tasks = tuple(task for task in order.tasks if task.label not in missing)
    if not tasks:
        listed = "; ".join(f"{label}: {found.why}" for label, found in missing.items())
        step = next((found.next for found in missing.values() if found.next), None)
        raise KtrialError(f"nothing of {order.suite} can run here: {listed}", hint=step)
    background = None
    if order.load is not None:
        background = Background(order.load, facts.value("cpu.threads") or 1, executor, clock)
        background.check()
    rounds = _Rounds(order, tasks, executor, store, clock, facts, background, listen, around)
    interrupted = False
    try:
        rounds.begin(missing)
        rounds.carry_out()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if around is not None:
            around.end()
    result = rounds.result(missing, interrupted)
    listen(result)
    return result, tuple(rounds.records)


def _missing(order: Order, executor: Executor) -> dict[str, Availability]:
    found = examine((task.benchmark for task in order.tasks), executor)
    return {task.label: one for task, one in zip(order.tasks, found, strict=True) if not one.ready}


class _Rounds:
    """The course of one measurement."""

    def __init__(  # noqa: PLR0913, PLR0917 (what `measure` was given, and what it made of it)
        self,
        order: Order,
        tasks: Sequence[Task],
        executor: Executor,
        store: RunStore,
        clock: Clock,
        facts: FactBook,
        background: Background | None,
        listen: Listener,
        around: Around | None,
    ) -> None:
        self._order = order
        self._tasks = {task.label: task for task in tasks}
        self._executor = executor
        self._store = store
        self._clock = clock
        self._facts = facts
        self._background = background
        self._listen = listen
        self._around = around
        self._versions: dict[str, str | None] = {}
        self._took_s: dict[str, float] = {}
        self.records: list[RunRecord] = []
        self._invocations = {label: self._invocation(task) for label, task in self._tasks.items()}
        self._plan = ""
        self._next_run = 1
        self._goes_on = False
        self._schedule: tuple[Place, ...] = places(self._invocations, order.rounds, order.seed)
        self._runs = len(self._schedule)
        self._session = session_of(order, facts, executor.agent_version, store.new_name())

    def _take_up(self) -> bool:
        """Go on with an earlier measurement of the same plan: the same tools in the same places too."""
        programs = self._executor.programs([name for task in self._tasks.values() for name in task.benchmark.needs])
        container = self._executor.container
        tools = {"programs": programs, "versions": self._versions, "container": container and container.image_id}
        self._plan = plan_of(self._order, self._facts, self._executor.agent_version, tools)
        earlier = None if self._order.fresh else self._store.earlier(self._plan)
        if earlier is not None:
            done = places_done(earlier.records)
            all_places = places(self._invocations, self._order.rounds, earlier.session.seed)
            left = tuple(place for place in all_places if place not in done)
            if left:
                self._schedule = left
                self._session = earlier.session
                self._next_run = earlier.next_run
                self.records += earlier.records
                self._took_s |= {
                    record.benchmark: record.resources.wall_ns / 1e9
                    for record in earlier.records
                    if record.resources.wall_ns is not None and not record.exit.interrupted
                }
                return True
        return False

    def begin(self, missing: Mapping[str, Availability]) -> None:
        """Ask for root where that is needed, the tools for their versions, and tell that it begins."""
        needy = [f"{label} ({task.benchmark.root_reason})" for label, task in self._tasks.items() if _needs_root(task)]
        if needy:
            self._executor.obtain_root(", ".join(needy))
        for label, task in self._tasks.items():
            asked = task.benchmark.version_invocation()
            told = task.benchmark.parse_version(self._run(asked).raw) if asked else None
            own = self._invocations[label].load is not None
            self._versions[label] = told or (self._executor.agent_version if own else None)
        self._goes_on = self._take_up()
        expected_s, least = self._left(0)
        if self._around is not None:
            quiet = self._around.begin(None if least else expected_s)
            if not self._goes_on:
                self._session = msgspec.structs.replace(self._session, **msgspec.structs.asdict(quiet))
        if not self._goes_on:
            self._store.begin(self._session, self._plan)
        self._keep_state(f"begin-{self._next_run}" if self._goes_on else "begin")
        self._listen(
            Began(
                session=self._session,
                where=self._store.where(self._session.session),
                done=len(places_done(self.records)),
                benchmarks=tuple(self._tasks),
                missing=_holes(missing),
                runs=len(self._schedule),
                expected_s=None if least else expected_s,
            )
        )

    def carry_out(self) -> None:
        """The warm-ups, then all rounds."""
        for done, place in enumerate(self._schedule):
            for again in range(MOST_REPEATS, -1, -1):
                if not self._carry_out(done, place, may_repeat=again > 0).repeated:
                    break
        self._keep_state("end")

    def _keep_state(self, place: str) -> None:
        """The tunable state of the machine: what changed while it was measured can be told later."""
        state = self._around.state() if self._around is not None else None
        if state is not None:
            self._store.keep_state(self._session.session, place, state)

    def _carry_out(self, done: int, place: Place, *, may_repeat: bool) -> RunRecord:
        """One run, from the waiting to its record; `done` places of the schedule lie behind it."""
        if self._around is not None:
            self._around.wait(lambda used: self._listen(Waiting(used=used)))
        number, self._next_run = self._next_run, self._next_run + 1
        left_s, least = self._left(done)
        self._listen(
            RunBegan(
                run=number,
                place=self._runs - len(self._schedule) + done + 1,
                runs=self._runs,
                round=place.round,
                benchmark=place.label,
                left_s=left_s,
                left_is_least=least,
            )
        )
        self._store.start(self._session.session, number, place.label, warm_up=place.round == 0)
        began = self._clock.monotonic_ns()
        try:
            record, parts = self._one(number, place)
        except BaseException:
            self._store.give_up(self._session.session, number)
            raise
        self._took_s[place.label] = (self._clock.monotonic_ns() - began) / 1e9
        used, interrupted = self._disturbed(began, record)
        if used is not None:
            failure = record.failure or f"input during the run: {used}"
            record = msgspec.structs.replace(record, failure=failure, measurements=(), repeated=may_repeat)
        name = self._store.save(record, parts)
        self.records.append(record)
        own = [earlier for earlier in self.records if earlier.benchmark == place.label]
        self._listen(RunEnded(record=record, name=name, so_far=summarise(own, self._headlines())))
        if interrupted:
            raise KeyboardInterrupt
        return record

    def _disturbed(self, began_ns: int, record: RunRecord) -> tuple[str | None, bool]:
        """What was used during the run, and whether Ctrl-C was pressed: the run itself is kept all the same."""
        if self._around is None or record.exit.interrupted:
            return None, record.exit.interrupted
        try:
            return self._around.disturbed(began_ns), False
        except KeyboardInterrupt:
            return None, True

    def result(self, missing: Mapping[str, Availability], interrupted: bool) -> Result:
        """The summary of what there is."""
        holes = [*_holes(missing)]
        for label in self._tasks:
            hole = self._hole(label)
            holes += [hole] if hole is not None else []
        return Result(
            session=self._session,
            where=self._store.where(self._session.session),
            wanted=len(self._order.tasks),
            complete=len(self._order.tasks) - len(holes),
            holes=tuple(holes),
            interrupted=interrupted,
            summaries=summarise(self.records, self._headlines()),
        )

    def _hole(self, label: str) -> Hole | None:
        runs = [record for record in self.records if record.benchmark == label and not record.is_warm_up]
        whole = [record for record in runs if not record.exit.interrupted and not record.repeated]
        failed = [record for record in whole if not record.ok]
        if failed:
            reason = failed[-1].failure
            return Hole(benchmark=label, why=f"{len(failed)} of {len(whole)} runs failed, the last: {reason}")
        if whole and self._order.rounds > 1 and self._invocations[label].once_per_boot:
            why = f"1 of {self._order.rounds} runs: one per boot"
            return Hole(benchmark=label, why=why, next="reboot and run again with the same --label")
        if len(whole) < self._order.rounds:
            return Hole(benchmark=label, why=f"interrupted after {len(whole)} of {self._order.rounds} runs")
        return None

    def _headlines(self) -> dict[str, tuple[str, ...]]:
        return {
            label: tuple(outcome.name for outcome in task.benchmark.outcomes if outcome.headline)
            for label, task in self._tasks.items()
        }

    def _invocation(self, task: Task) -> Invocation:
        invocation = task.benchmark.invocation(task.parameters, self._facts)
        return msgspec.structs.replace(invocation, cpus=task.cpus) if task.cpus is not None else invocation

    def _left(self, done: int) -> tuple[float | None, bool]:
        """Seconds for the runs from number `done` on, and whether some of unknown time are not in it."""
        known: list[float] = []
        labels = [place.label for place in self._schedule[done:]]
        for label in labels:
            one_s = self._took_s.get(label, self._invocations[label].expected_s)
            known += [one_s] if one_s is not None else []
        return (sum(known) if known else None), len(known) < len(labels)

    def _one(self, number: int, place: Place) -> tuple[RunRecord, dict[str, bytes]]:
        task, invocation = self._tasks[place.label], self._invocations[place.label]
        watching = self._around.watch(invocation) if self._around is not None else None
        prepared = self._around.prepare() if self._around is not None else ()
        unready = next((f"{_RESETS[one.reset]}: {one.result}" for one in prepared if not one.ok), None)
        execution, ended = self._execute(invocation, watching) if unready is None else (self._unmade(invocation), None)
        raw = execution.raw
        if watching is not None:
            raw = msgspec.structs.replace(raw, files={**raw.files, **watching.files})
        parsed, failure = _parse(task, raw) if unready is None else (ParsedRun(measurements=()), unready)
        outcomes = {outcome.name: outcome for outcome in task.benchmark.outcomes}
        kept = [Kept.of(one, outcomes[one.outcome]) for one in parsed.measurements]
        parts = raw_parts(raw) | dict(execution.step_raw)
        if ended is not None:
            parts |= {f"background/{name}": data for name, data in raw_parts(ended.raw).items()}
            failure = failure or ended.failure
            kept += [Kept.of(ended.throughput, LOAD_THROUGHPUT)] if ended.throughput is not None else []
        used, notes = watching.energy() if watching is not None else ((), ())
        kept += [Kept.of(measurement, outcome) for measurement, outcome in used]
        record = RunRecord(
            session=self._session,
            run=number,
            benchmark=task.label,
            tool=task.benchmark.name,
            tool_version=_version(execution, parsed.tool_version or self._versions[task.label]),
            built=execution.built,
            container=execution.container,
            argv=execution.argv,
            steps=execution.steps,
            agent_load=invocation.load,
            environment=execution.environment,
            directory=execution.directory,
            parameters=task.parameters,
            cpus=invocation.cpus,
            round=place.round,
            position=place.position,
            started_monotonic_ns=execution.started_monotonic_ns,
            started_unix_ms=execution.started_unix_ms,
            measurements=tuple(kept) if failure is None else (),
            details=parsed.details,
            notes=(*parsed.notes, *notes),
            exit=Exit.of(raw),
            resources=Resources(
                wall_ns=raw.wall_ns, user_us=raw.user_us, system_us=raw.system_us, max_rss_bytes=raw.max_rss_bytes
            ),
            failure=failure,
            background=ended.record if ended is not None else None,
            conditions=watching.conditions if watching is not None else None,
            prepared=prepared,
            network=raw.network,
            raw={name: Artefact.of(data) for name, data in parts.items()},
        )
        return record, parts

    def _unmade(self, invocation: Invocation) -> Execution:
        """A run that was not even begun."""
        return Execution(
            argv=invocation.argv,
            environment={},
            directory="",
            started_monotonic_ns=self._clock.monotonic_ns(),
            started_unix_ms=self._clock.unix_ms(),
            raw=RawOutput(failed="what comes before it failed"),
        )

    def _run(self, invocation: Invocation) -> Execution:
        """A short question to a tool."""
        execution = self._executor.run(invocation)
        if execution.raw.interrupted:
            raise KeyboardInterrupt
        return execution

    def _execute(self, invocation: Invocation, watch: Watch | None) -> tuple[Execution, Ended | None]:
        if self._background is None:
            return self._executor.run(invocation, watch), None
        running = self._background.start()
        try:
            execution = self._executor.run(invocation, watch)
        except BaseException:
            running.stop()
            raise
        return execution, self._background.finish(running, execution)


def session_of(order: Order, facts: FactBook, agent_version: str, name: str) -> Session:
    """What all runs of this measurement have in common."""
    return Session(
        session=name,
        suite=order.suite,
        label=order.label,
        seed=order.seed,
        rounds=order.rounds,
        kernel_release=facts.value("kernel.release"),
        boot_id=facts.value("boot.id"),
        machine={name: facts.get(name, Fact(unknown="the agent told nothing")) for name in MACHINE_FACTS},
        ktrial_version=__version__,
        agent_version=agent_version,
    )


def _needs_root(task: Task) -> bool:
    return task.benchmark.root_reason is not None


def _parse(task: Task, raw: RawOutput) -> tuple[ParsedRun, str | None]:
    """The measurements, or none and why."""
    try:
        check_exit(raw)
        parsed = task.benchmark.parse(raw, task.parameters)
        check_measurements(task.benchmark.outcomes, parsed)
    except BadRun as error:
        return ParsedRun(measurements=()), error.message
    return parsed, None


def _version(execution: Execution, told: str | None) -> str | None:
    return execution.built.version(told) if execution.built is not None else told


def _holes(missing: Mapping[str, Availability]) -> tuple[Hole, ...]:
    return tuple(Hole(benchmark=label, why=found.why or "", next=found.next) for label, found in missing.items())
