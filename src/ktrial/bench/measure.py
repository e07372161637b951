# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks of a suite in rounds, in random order, and record each run as soon as it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ktrial import __version__
from ktrial.bench.around.around_run import Around
from ktrial.bench.around.load import Background
from ktrial.bench.availability import Availability, examine_with
from ktrial.bench.benchmark import Invocation, pinned, with_environment
from ktrial.bench.doubts import session_findings
from ktrial.bench.events import Began, BenchRunEnded, Hole, Listener, Result, RunBegan, Settles, Waiting
from ktrial.bench.record import MACHINE_FACTS, RunRecord, Session, summarise
from ktrial.bench.run.make_run import RunMaker, RunRequest
from ktrial.bench.run.ports import Executor, RunStore, run_or_stop
from ktrial.bench.schedule import Order, RunPlace, places, places_done, plan_of
from ktrial.bench.suite import Task
from ktrial.kit.errors import KtrialError
from ktrial.kit.finding import Finding
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.ports import Clock

#: How often a run is repeated: at once if input disturbed it, at the end if it was void.
MOST_REPEATS = 3
_OTHERWISE = "use --settle to wait for the state of the first run, or --gate NAME=LIMIT for another limit"


def measure(
    order: Order,
    executor: Executor,
    store: RunStore,
    clock: Clock,
    facts: FactBook,
    listen: Listener,
    around: Around | None = None,
) -> tuple[Result, tuple[RunRecord, ...]]:
    """Make all runs of an order; return the result and the records, also after an interruption.

    Raise KtrialError if no benchmark can run.
    """
    missing = _missing(order, executor)
    tasks = tuple(task for task in order.tasks if task.label not in missing)
    if not tasks:
        listed = ", ".join(f"{label} ({found.why})" for label, found in missing.items())
        step = next((found.next for found in missing.values() if found.next), None)
        raise KtrialError(f"no benchmark of {order.suite} can run here: {listed}", hint=step)
    background = None
    if order.load is not None:
        background = Background(order.load, facts.value("cpu.threads") or 1, executor, clock)
        background.check()
    maker = RunMaker(executor, clock, background, around)
    rounds = _Rounds(order, tasks, executor, store, clock, facts, maker, listen, around)
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
    unplaced = {
        label: Availability(benchmark=label, what="", why=error.message, next=error.hint)
        for label, error in order.unplaced.items()
    }
    found = examine_with(((task.benchmark, task.parameters) for task in order.tasks), executor)
    return unplaced | {task.label: one for task, one in zip(order.tasks, found, strict=True) if not one.ready}


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
        maker: RunMaker,
        listen: Listener,
        around: Around | None,
    ) -> None:
        self._order = order
        self._tasks = {task.label: task for task in tasks}
        self._executor = executor
        self._store = store
        self._clock = clock
        self._facts = facts
        self._maker = maker
        self._listen = listen
        self._around = around
        self._versions: dict[str, str | None] = {}
        self._took_s: dict[str, float] = {}
        self.records: list[RunRecord] = []
        self._invocations = {label: self._invocation(task) for label, task in self._tasks.items()}
        self._plan = ""
        self._next_run = 1
        self._goes_on = False
        self._schedule = list(places(self._invocations, order.rounds, order.seed))
        self._behind = 0
        self._session = session_of(order, facts, executor.agent_version, store.new_name())

    def _take_up(self) -> bool:
        """Continue an unfinished measurement of the same plan and tools; return whether there is one."""
        programs = self._executor.programs([name for task in self._tasks.values() for name in task.benchmark.needs])
        container = self._executor.container
        tools = {"programs": programs, "versions": self._versions, "container": container and container.image_id}
        self._plan = plan_of(self._order, self._facts, self._executor.agent_version, tools)
        earlier = None if self._order.fresh else self._store.earlier(self._plan)
        if earlier is not None:
            done = places_done(earlier.records)
            all_places = places(self._invocations, self._order.rounds, earlier.session.seed)
            left = [place for place in all_places if place not in done]
            if left:
                self._schedule = left
                self._behind = len(all_places) - len(left)
                self._session = earlier.session
                self._next_run = earlier.next_run
                self.records += earlier.records
                if self._around is not None and self._around.gates is not None:
                    self._around.gates.take_up(earlier.records)
                self._took_s |= {
                    record.benchmark: record.resources.wall_ns / 1e9
                    for record in earlier.records
                    if record.resources.wall_ns is not None and not record.exit.interrupted
                }
                return True
        return False

    def begin(self, missing: Mapping[str, Availability]) -> None:
        """Get root if needed, query the versions of the tools, and report the beginning."""
        reasons = {label: task.benchmark.root_reason for label, task in self._tasks.items()}
        if needy := [f"{label} ({reason})" for label, reason in reasons.items() if reason is not None]:
            self._executor.obtain_root(", ".join(needy))
        for label, task in self._tasks.items():
            question = task.benchmark.version_invocation()
            version = task.benchmark.parse_version(run_or_stop(self._executor, question)) if question else None
            own = self._invocations[label].load is not None
            self._versions[label] = version or (self._executor.agent_version if own else None)
        self._goes_on = self._take_up()
        expected_s, least = self._remaining_s(0)
        if self._around is not None:
            quiet = self._around.begin(None if least else expected_s)
            if not self._goes_on:
                self._session = msgspec.structs.replace(self._session, **msgspec.structs.asdict(quiet))
        if not self._goes_on:
            left_out = {hole.benchmark: hole.why for hole in _holes(missing)}
            self._session = msgspec.structs.replace(self._session, missing=left_out)
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
        """Make the warm-ups, then all rounds; repeat void runs at the end, up to a limit."""
        void = Counter[RunPlace]()
        for done, place in enumerate(self._schedule):
            record = self._carry_out(done, place, repeats=MOST_REPEATS, returns=MOST_REPEATS - void[place])
            if record.void and record.repeated:
                void[place] += 1
                self._schedule.append(place)
        self._keep_state("end")

    def _keep_state(self, place: str) -> None:
        """Store the machine's tunable settings, so that changes during the measurement are visible later."""
        state = self._around.state() if self._around is not None else None
        if state is not None:
            self._store.keep_state(self._session.session, place, state)

    def _carry_out(self, done: int, place: RunPlace, *, repeats: int, returns: int) -> RunRecord:
        """Wait for the machine, then make and store a run, after the first `done` places of the schedule.

        A run disturbed by input may be repeated `repeats` times at once, a void run `returns` times at the end.
        """
        settled = None
        if self._around is not None:
            self._around.wait(lambda used: self._listen(Waiting(used=used)))
            if place.round:
                settled = self._around.settle(lambda waiting: self._listen(Settles(waiting=waiting)))
        number, self._next_run = self._next_run, self._next_run + 1
        left_s, least = self._remaining_s(done)
        self._listen(
            RunBegan(
                run=number,
                place=self._behind + done + 1,
                runs=self._behind + len(self._schedule),
                round=place.round,
                benchmark=place.label,
                left_s=left_s,
                left_is_least=least,
            )
        )
        self._store.start(self._session.session, number, place.label, warm_up=place.round == 0)
        began = self._clock.monotonic_ns()
        wanted = RunRequest(
            number,
            place,
            self._tasks[place.label],
            self._invocations[place.label],
            self._versions[place.label],
            settled,
        )
        try:
            record, parts = self._maker.make(wanted, self._session)
        except BaseException:
            self._store.give_up(self._session.session, number)
            raise
        if not record.void:
            self._took_s[place.label] = (self._clock.monotonic_ns() - began) / 1e9
        used, interrupted = self._disturbed(began, record)
        if record.void:
            record = msgspec.structs.replace(record, repeated=returns > 0)
        elif used is not None:
            failure = record.failure or f"input during the run: {used}"
            record = msgspec.structs.replace(record, failure=failure, measurements=(), repeated=repeats > 0)
        self._keep(record, parts, interrupted=interrupted)
        if record.repeated and not record.void:
            return self._carry_out(done, place, repeats=repeats - 1, returns=returns)
        return record

    def _keep(self, record: RunRecord, parts: Mapping[str, bytes], *, interrupted: bool) -> None:
        name = self._store.save(record, parts)
        self.records.append(record)
        own = [earlier for earlier in self.records if earlier.benchmark == record.benchmark]
        self._listen(BenchRunEnded(record=record, name=name, so_far=summarise(own, self._headlines())))
        if interrupted:
            raise KeyboardInterrupt

    def _disturbed(self, began_ns: int, record: RunRecord) -> tuple[str | None, bool]:
        """Return which session or terminal was used during the run, if any, and whether the user pressed Ctrl-C."""
        if self._around is None or record.exit.interrupted:
            return None, record.exit.interrupted
        try:
            return self._around.disturbed(began_ns), False
        except KeyboardInterrupt:
            return None, True

    def result(self, missing: Mapping[str, Availability], interrupted: bool) -> Result:
        holes = [*_holes(missing), *(hole for label in self._tasks if (hole := self._hole(label)) is not None)]
        return Result(
            session=self._session,
            where=self._store.where(self._session.session),
            wanted=self._order.wanted,
            complete=self._order.wanted - len(holes),
            holes=tuple(holes),
            interrupted=interrupted,
            summaries=summarise(self.records, self._headlines()),
            findings=self._findings(),
        )

    def _findings(self) -> tuple[Finding, ...]:
        """Return doubts about the conditions during the measurement."""
        if self._around is None or self._around.gates is None:
            return ()
        return session_findings(self.records, self._order.gates, self._session.label or "this session")

    def _hole(self, label: str) -> Hole | None:
        runs = [record for record in self.records if record.benchmark == label and not record.is_warm_up]
        whole = [record for record in runs if not record.exit.interrupted and not record.repeated]
        void = [record for record in whole if record.void]
        failed = [record for record in whole if not record.ok and not record.void]
        if failed:
            reason = failed[-1].failure
            return Hole(benchmark=label, why=f"{len(failed)} of {len(whole)} runs failed, the last: {reason}")
        if void:
            why = f"{len(void)} of {len(whole)} runs are void, the last: {'; '.join(void[-1].void)}"
            refused = any(one.level == "refuse" for one in void[-1].findings)
            return Hole(benchmark=label, why=why, next=_OTHERWISE if refused else None)
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
        return pinned(with_environment(invocation, self._order.environment), task.cpus)

    def _remaining_s(self, done: int) -> tuple[float | None, bool]:
        """Return the expected seconds from run `done` on, and whether that excludes runs of unknown length."""
        labels = [place.label for place in self._schedule[done:]]
        times_s = [self._took_s.get(label, self._invocations[label].expected_s) for label in labels]
        known = [time_s for time_s in times_s if time_s is not None]
        return (sum(known) if known else None), len(known) < len(labels)


def session_of(order: Order, facts: FactBook, agent_version: str, name: str) -> Session:
    """Return the data that all runs of this measurement share."""
    return Session(
        session=name,
        suite=order.suite,
        label=order.label,
        seed=order.seed,
        rounds=order.rounds,
        kernel_release=facts.value("kernel.release"),
        boot_id=facts.value("boot.id"),
        machine={name: facts.get(name, Fact(unknown="the agent did not report it")) for name in MACHINE_FACTS},
        ktrial_version=__version__,
        agent_version=agent_version,
        gates=order.gates,
        sample_period_s=order.sample_period_s,
    )


def _holes(missing: Mapping[str, Availability]) -> tuple[Hole, ...]:
    return tuple(Hole(benchmark=label, why=found.why or "", next=found.next) for label, found in missing.items())
