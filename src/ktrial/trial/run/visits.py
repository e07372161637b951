# SPDX-License-Identifier: Apache-2.0
"""The visits of a trial on this machine.

Each visit puts its arm in force, lets the machine settle, and runs every benchmark.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from ktrial.bench.around.around_run import Around
from ktrial.bench.benchmark import Invocation, pinned, with_environment
from ktrial.bench.record import RunRecord, TrialPlace
from ktrial.bench.run.make_run import RunMaker, RunRequest
from ktrial.bench.run.ports import RunStore
from ktrial.bench.schedule import RunPlace
from ktrial.bench.suite import Task
from ktrial.judge.model.judgement import NextStep
from ktrial.judge.model.log import ArmBuilt, BlockVoided, RunEnded, TrialEnd
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.units import show_seconds
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Clock
from ktrial.trial.arms.arms import Arms
from ktrial.trial.arms.builds import build_number
from ktrial.trial.protocol.protocol import refuse_few_events
from ktrial.trial.run.events import ArmInForce, TrialListener, VisitBegan, VisitEnded, VisitWaits
from ktrial.trial.run.loop import Standing, Visit
from ktrial.trial.run.manual_visits import VisitTurn
from ktrial.trial.run.records import INPUT, Cause, cause_of, measurements_of, readings_event, run_event

#: Text while a trial waits until nobody uses the machine; the current use follows it.
WAITS_FOR_IDLE = "waiting for an idle machine; in use"
_OUT_OF_TIME = "no time is left for another block"


class Benchmarked(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a visit, and the versions of their tools.

    `own` has the tasks of arms that set parameters or measure a command of their own.
    """

    tasks: tuple[Task, ...]
    versions: Mapping[str, str | None]
    own: Mapping[str, tuple[Task, ...]] = {}


class TrialPace:
    """Estimates how long visits take. Each visit waits `settle_s` and then makes `runs_per_visit` runs."""

    def __init__(self, settle_s: float, runs_per_visit: int) -> None:
        self._settle_s = settle_s
        self._runs = runs_per_visit
        self._took_s: list[float] = []
        self._built_s: list[float] = []

    def took(self, seconds: float) -> None:
        self._took_s.append(seconds)

    def built(self, seconds: float) -> None:
        self._built_s.append(seconds)

    @property
    def build_s(self) -> float | None:
        """Estimate how long a build takes; None before the first build."""
        return statistics.median(self._built_s) if self._built_s else None

    @property
    def run_s(self) -> float | None:
        """Estimate how long a run of all benchmarks takes, without the wait to settle; None before the first run."""
        return statistics.median(self._took_s) if self._took_s else None

    def visits_s(self, visits: float) -> float | None:
        return (
            None if self.run_s is None else visits * (self._settle_s + (self.build_s or 0.0) + self._runs * self.run_s)
        )

    def left_s(self, blocks: int, arms: int, done: int) -> float | None:
        """Estimate the time that `blocks` blocks still take after `done` of their runs; None before the first run."""
        return self.visits_s(max(0.0, blocks * arms - done / self._runs))


class MachineVisits:
    """A `VisitMaker` that makes visits on this machine."""

    def __init__(  # noqa: PLR0913, PLR0917 (everything that it needs from outside)
        self,
        standing: Standing,
        benchmarked: Benchmarked,
        environments: Mapping[str, Mapping[str, str]],
        arms: Arms,
        maker: RunMaker,
        around: Around,
        runs: RunStore,
        clock: Clock,
        facts: FactBook,
        listen: TrialListener,
        settle_s: float,
        time_s: float | None = None,
        *,
        keeps_states: bool = False,
        turn: VisitTurn | None = None,
    ) -> None:
        """Prepare visits; `time_s` limits the whole trial, including earlier sessions.

        `keeps_states` stores the machine's state at each arm's first visit. A `turn` limits the visits.
        """
        self._standing = standing
        self._protocol = standing.protocol
        self._benchmarked = benchmarked
        self._environments = environments
        self._arms = arms
        self._maker = maker
        self._around = around
        self._runs = runs
        self._clock = clock
        self._facts = facts
        self._listen = listen
        self._settle_s = settle_s
        self._time_s = time_s
        self._keeps_states = keeps_states
        self._turn = turn
        self._seen = {event.arm for event in standing.log if isinstance(event, RunEnded) and event.block is not None}
        #: How long runs and builds take.
        self.pace = TrialPace(settle_s, standing.protocol.runs_per_visit)
        self._blocks_left: int | None = None
        visits = len(standing.records) / (len(benchmarked.tasks) * standing.protocol.runs_per_visit)
        self._spent_s = visits * settle_s + sum((one.resources.wall_ns or 0) / 1e9 for one in standing.records)
        self._began_ns = clock.monotonic_ns()

    def begin(self, blocks_left: int | None) -> None:
        self._blocks_left = blocks_left
        self._around.begin(None)
        self._warm_up()
        self._warm_up_commands()

    def can_make(self, visit: Visit) -> bool:
        """Return whether the visit needs no person; always True if ktrial itself sets up the arms."""
        return self._turn is None or self._turn.has(visit.block, visit.arm)

    def make(self, visits: Sequence[Visit], blocks_left: int | None) -> bool:
        """Make the visits in order, until a visit makes the block void. Return False if a visit cannot be made now."""
        self._blocks_left = blocks_left
        for visit in visits:
            if not self.can_make(visit):
                return False
            for number in range(visit.runs):
                if number == 0 and self._turn is not None:
                    self._standing.append(self._turn.found(visit.block, visit.arm))
                if not self._run_of_visit(visit, is_first=number == 0):
                    return True
        return True

    def ends_for_time(self, step: NextStep) -> bool:
        """Return whether too little time is left for another block. Raise BadInput if not even the first block fits."""
        if self._time_s is None or step.drawn or self.pace.run_s is None:
            return False
        spent_s = self._spent_s + (self._clock.monotonic_ns() - self._began_ns) / 1e9
        block_s = self.pace.visits_s(len(step.arms)) or 0.0
        if spent_s + block_s <= self._time_s:
            return False
        self._standing.append(TrialEnd(reason=_OUT_OF_TIME))
        if not self._standing.drawn:
            raise BadInput(
                f"time = {show_seconds(self._time_s)} is not enough for one block, which takes about "
                f"{show_seconds(block_s)} after the warm-up",
                hint="allow more time, or make the runs shorter",
            )
        return True

    def end(self) -> None:
        try:
            self._arms.leave()
        finally:
            self._around.end()

    def tasks_of(self, arm: str) -> tuple[Task, ...]:
        """Return the tasks that each run of an arm measures."""
        return self._benchmarked.own.get(arm, self._benchmarked.tasks)

    def invocation_of(self, task: Task, arm: str) -> Invocation:
        """Return the command that runs a task in an arm, with the arm's environment and the task's CPUs."""
        invocation = task.benchmark.invocation(task.parameters, self._facts)
        return pinned(with_environment(invocation, self._environments.get(arm, {})), task.cpus)

    def _left_s(self, block: int | None) -> float | None:
        """Estimate the time to the cap; None if it is unknown."""
        if self._blocks_left is None:
            return None
        arms = len(self._protocol.arms) if block is None else len(self._standing.drawn[block].order)
        done = sum(isinstance(event, RunEnded) and event.block == block for event in self._standing.log)
        return self.pace.left_s(self._blocks_left, arms, 0 if block is None else done)

    def _warm_up(self) -> None:
        """Make two warm-up runs of the control (or of the turn's arm).

        With a noise profile, make up to six until two in a row are alike. Raise BadRun if all are void.
        """
        from ktrial.judge.collect_log import score
        from ktrial.judge.planning import WARM_MOST, WARM_WITHOUT_PROFILE, is_warm

        protocol = self._protocol
        differences = protocol.profile.get(protocol.primary)
        rule = protocol.outcomes[protocol.primary]
        arm = protocol.control if self._turn is None else self._turn.arm
        scores: list[float] = []
        void: str | None = None
        self._renew(None, arm)
        for number in range(1, WARM_MOST + 1):
            told, void = self._warm_up_run(arm, number, WARM_WITHOUT_PROFILE)
            if told is None:
                continue
            scores.append(score(told, rule))
            if len(scores) < WARM_WITHOUT_PROFILE:
                continue
            spread = 0.0 if not differences else 1.4826 * statistics.median(abs(one) for one in differences)
            if not differences or is_warm(scores[-2], scores[-1:], spread):
                return
        if not scores:
            raise BadRun(
                f"all {WARM_MOST} warm-up runs are void; reason for the last run: {void}",
                hint="remove this cause, or set another limit in [gates] of a protocol",
            )

    def _warm_up_commands(self) -> None:
        """Make the additional warm-up runs that commands of arms require."""
        from ktrial.judge.planning import WARM_WITHOUT_PROFILE

        for arm in self._benchmarked.own if self._turn is None else ():
            made = WARM_WITHOUT_PROFILE if arm == self._protocol.control else 0
            wanted = max(self.invocation_of(task, arm).warm_ups for task in self.tasks_of(arm))
            for number in range(made + 1, wanted + 1):
                self._warm_up_run(arm, number, wanted)

    def _warm_up_run(self, arm: str, number: int, most: int) -> tuple[float | None, str | None]:
        """Return the primary outcome of a warm-up run, and why the run is void. Raise BadRun if it failed."""
        protocol = self._protocol
        self._enter_to_warm_up(arm)
        self._settle()
        records, failure, void = self._runs_of(None, arm, 1, number, most)
        if void is not None:
            return None, void
        event = run_event(None, arm, records, failure)
        self._standing.append(event)
        if not self._standing.drawn:
            refuse_few_events(protocol, event.events.get(protocol.primary))
        told = measurements_of(records).get(protocol.primary)
        if told is None or failure is not None:
            raise BadRun(
                f"the benchmark failed in a warm-up run of {arm}: {failure or f'it gave no {protocol.primary}'}",
                hint="run the benchmark with `ktrial bench` to see its output"
                if arm not in self._benchmarked.own
                else f"run the benchmark or command of arm {arm} by hand to see why it fails",
            )
        return told, None

    def _enter_to_warm_up(self, arm: str) -> None:
        drifts = (*self._arms.enter(arm), *self._arms.drifted())
        if drifts:
            raise BadRun(
                f"the machine has changed since the trial was planned: {self._arms.told(drifts[0])}",
                hint="restore the value, or start a new trial",
            )

    def _run_of_visit(self, visit: Visit, *, is_first: bool) -> bool:
        """Run every benchmark once with the arm in force. Return False if that made the block void."""
        block, arm = visit.block, visit.arm
        if is_first:
            self._renew(block, arm)
        if drifts := self._arms.enter(arm):
            return self._void(block, arm, "knob", self._arms.told(drifts[0]))
        if is_first:
            self._listen(ArmInForce(block=block, arm=arm))
            self._settle()
        if drifts := self._arms.drifted():
            return self._void(block, arm, "knob", self._arms.told(drifts[0]))
        if self._keeps_states and arm not in self._seen:
            self._keep_state(arm)
        records, failure, void = self._runs_of(block, arm, visit.place, visit.place, visit.visits)
        if (readings := readings_event(records)) is not None:
            self._standing.append(readings)
        if void is not None:
            return self._void(block, arm, cause_of(records[-1]), void)
        if drifts := self._arms.drifted():
            return self._void(block, arm, "knob", self._arms.told(drifts[0]))
        if failure is not None:
            self._refuse_own_failure(arm, records, failure)
        self._standing.append(run_event(block, arm, records, failure))
        return True

    def _refuse_own_failure(self, arm: str, records: Sequence[RunRecord], failure: str) -> None:
        """Raise BadRun if the arm never ran because of its own parameters or command; that is no result."""
        is_unstarted = records[-1].exit.failed is not None
        if self._protocol.race or (not is_unstarted and arm not in self._benchmarked.own):
            return
        if self._standing.has_measured(arm):
            return
        told = f"a benchmark fails in arm {arm}: {failure}"
        self._standing.append(TrialEnd(reason=f"stopped: {told}"))
        raise BadRun(told, hint=f"run the benchmark or command of arm {arm} by hand to see why it fails")

    def _renew(self, block: int | None, arm: str) -> None:
        began_ns = self._clock.monotonic_ns()
        built = self._arms.renew(arm, build_number(self._protocol.seed, block, arm))
        if built is None:
            return
        self.pace.built((self._clock.monotonic_ns() - began_ns) / 1e9)
        if block is not None:
            self._standing.append(ArmBuilt(block=block, arm=arm, artefact=built.artefact, sha256=built.sha256))

    def _keep_state(self, arm: str) -> None:
        """Store the whole tunable state with the arm in force.

        It must equal the control's, apart from the changes that the arm declares.
        """
        self._seen.add(arm)
        state = self._around.state()
        if state is not None:
            self._runs.keep_state(self._standing.session.session, arm, state)

    def _void(self, block: int, arm: str, cause: Cause, reason: str) -> bool:
        self._standing.append(BlockVoided(block=block, arm=arm, cause=cause, reason=reason))
        if cause == "knob":
            # This makes the next visit put its arm in force again, even if it is the same arm.
            self._arms.leave()
        return False

    def _settle(self) -> None:
        """Wait equally long before every visit, whether or not the arm changed, so that arms differ in nothing else.

        The further runs of a visit do not wait; that is why a visit makes several runs.
        """
        if self._settle_s:
            self._around.rest(self._settle_s)

    def _runs_of(
        self, block: int | None, arm: str, position: int, visit: int, visits: int
    ) -> tuple[list[RunRecord], str | None, str | None]:
        """Run each benchmark once. Return the records, why a run failed, and why the block is void (None if not)."""
        left_s, visit_s = self._left_s(block), self.pace.visits_s(1)
        self._listen(VisitBegan(block=block, visit=visit, visits=visits, left_s=left_s, visit_s=visit_s))
        began_ns = self._clock.monotonic_ns()
        records: list[RunRecord] = []
        failure = void = None
        for task in self.tasks_of(arm):
            record, name = self._run(task, block, arm, position)
            records.append(record)
            void = "; ".join(record.void) or None
            if record.failure is not None and void is None:
                failure = failure or f"{task.label}: {record.failure}"
            self._listen(VisitEnded(block=block, record=record, name=name, failure=record.failure, void=void))
            if record.exit.interrupted:
                raise KeyboardInterrupt
            if void is not None:
                break
        self.pace.took((self._clock.monotonic_ns() - began_ns) / 1e9)
        return records, failure, void

    def _run(self, task: Task, block: int | None, arm: str, position: int) -> tuple[RunRecord, str]:
        standing = self._standing
        self._around.wait(lambda used: self._listen(VisitWaits(waiting=f"{WAITS_FOR_IDLE}: {used}")))
        settled = None
        if block is not None:
            self._around.forget_settings()
            settled = self._around.settle(lambda waiting: self._listen(VisitWaits(waiting=waiting)))
        number, standing.next_run = standing.next_run, standing.next_run + 1
        session = standing.session.session
        self._runs.start(session, number, task.label, warm_up=block is None)
        invocation = self.invocation_of(task, arm)
        place = RunPlace(task.label, block or 0, position)
        wanted = RunRequest(number, place, task, invocation, self._benchmarked.versions[task.label], settled)
        began_ns = self._clock.monotonic_ns()
        try:
            record, parts = self._maker.make(wanted, standing.session)
        except BaseException:
            self._runs.give_up(session, number)
            raise
        where = TrialPlace(
            trial=standing.trial,
            protocol_sha256=standing.protocol_sha256,
            block=block,
            arm=arm,
            kernel_release=self._facts.value("kernel.release"),
            boot_id=self._facts.value("boot.id"),
        )
        record = msgspec.structs.replace(record, trial=where)
        if record.failure is None and (lost := self._arms.failed()) is not None:
            record = msgspec.structs.replace(record, failure=lost, measurements=())
        used, interrupted = self._input_since(began_ns, record)
        if used is not None:
            record = msgspec.structs.replace(record, void=(*record.void, f"{INPUT}: {used}"))
        name = self._runs.save(record, parts)
        standing.records.append(record)
        if interrupted:
            raise KeyboardInterrupt
        return record, name

    def _input_since(self, began_ns: int, record: RunRecord) -> tuple[str | None, bool]:
        """Return what disturbed a run that needs an idle machine, and whether Ctrl-C was pressed since."""
        if record.exit.interrupted:
            return None, False
        try:
            return self._around.disturbed(began_ns), False
        except KeyboardInterrupt:
            return None, True
