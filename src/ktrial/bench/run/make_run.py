# SPDX-License-Identifier: Apache-2.0
"""Make one run and its record: the preparations, the run itself, and the measurements in its output."""

from __future__ import annotations

from typing import NamedTuple
from typing import Protocol as Port

import msgspec

from ktrial.bench.around.around_run import Around, RunWatching
from ktrial.bench.around.load import Background, LoadEnded
from ktrial.bench.around.start_gate import Start
from ktrial.bench.benchmark import Invocation, ParsedRun, RawOutput, check_measurements
from ktrial.bench.command_benchmark import check_run
from ktrial.bench.environment import as_recorded
from ktrial.bench.generator_readings import generator_notes
from ktrial.bench.record import (
    LOAD_THROUGHPUT,
    Artefact,
    Execution,
    Exit,
    KeptMeasurement,
    PreparedRun,
    Resources,
    RunRecord,
    Session,
    Watch,
    raw_parts,
)
from ktrial.bench.schedule import RunPlace
from ktrial.bench.suite import Task
from ktrial.kit.errors import BadRun, UnreadableOutput
from ktrial.machine.gates import GENERATOR_BUSY, VOID, why_void
from ktrial.machine.ports import Clock
from ktrial.machine.run_conditions import Conditions
from ktrial.machine.settle import Settled

#: The next step if ktrial cannot parse what a tool printed.
_READ_IT = "read the output with `ktrial show SESSION/RUN --raw NAME`"
_RESETS = {"sync": "cannot write files back", "swap": "cannot reset swap", "caches": "cannot drop caches"}


class RunRequest(NamedTuple):
    """A run to make. `tool_version` is the version that the tool printed.

    `settled` is the result of ktrial's wait before the run, if ktrial waited.
    """

    number: int
    place: RunPlace
    task: Task
    invocation: Invocation
    tool_version: str | None
    settled: Settled | None


class _Course(NamedTuple):
    """What has happened so far in a run, and before it."""

    prepared: tuple[PreparedRun, ...]
    start: Start
    execution: Execution
    ended: LoadEnded | None
    unready: str | None
    void: tuple[str, ...]


class Carries(Port):
    """An executor, or something else that carries out an invocation."""

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution: ...


class RunMaker:
    """Makes the runs of one measurement."""

    def __init__(
        self, executor: Carries, clock: Clock, background: Background | None = None, around: Around | None = None
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._background = background
        self._around = around

    def make(self, wanted: RunRequest, session: Session) -> tuple[RunRecord, dict[str, bytes]]:
        watching = self._around.watch(wanted.invocation) if self._around is not None else None
        try:
            course = self._carry_out(wanted, watching)
        finally:
            if watching is not None:
                watching.close()
        return self._record(wanted, session, course, watching)

    def _carry_out(self, wanted: RunRequest, watching: RunWatching | None) -> _Course:
        prepared = self._around.prepare() if self._around is not None else ()
        unready = next((f"{_RESETS[one.reset]}: {one.result}" for one in prepared if not one.ok), None)
        start = Start()
        if self._around is not None and unready is None:
            start = self._around.judge(counts=wanted.place.round > 0)
        refused = why_void(start.findings)
        if unready is not None or refused:
            execution, ended = self._unmade(wanted.invocation), None
        else:
            execution, ended = self._execute(wanted.invocation, watching)
        void = refused
        if watching is not None:
            void = why_void(start.findings, suspended_s=watching.suspended_s, misread=watching.misread)
        return _Course(prepared, start, execution, ended, unready, void)

    def _record(
        self, wanted: RunRequest, session: Session, course: _Course, watching: RunWatching | None
    ) -> tuple[RunRecord, dict[str, bytes]]:
        task, execution, ended = wanted.task, course.execution, course.ended
        raw = execution.raw
        if watching is not None:
            raw = msgspec.structs.replace(raw, files={**raw.files, **watching.files})
        parsed, failure = _parse(task, raw) if course.unready is None else (ParsedRun(measurements=()), course.unready)
        if ended is not None:
            failure = failure or ended.failure
        if course.void:
            failure = f"{VOID}: {'; '.join(course.void)}"
        parts = raw_parts(raw) | dict(execution.step_raw)
        if ended is not None:
            parts |= {f"background/{name}": data for name, data in raw_parts(ended.raw).items()}
        parts |= watching.parts if watching is not None else {}
        kept, notes = _collect_outcomes(task, parsed, ended, watching)
        generator = execution.generator
        version = (parsed.tool_version if generator is None else None) or wanted.tool_version
        record = RunRecord(
            session=session,
            run=wanted.number,
            benchmark=task.label,
            tool=task.benchmark.name,
            tool_version=version if execution.built is None else execution.built.version(version),
            built=execution.built,
            container=execution.container,
            argv=execution.argv,
            steps=execution.steps,
            agent_load=wanted.invocation.load,
            environment=as_recorded(execution.environment, wanted.invocation.told),
            directory=execution.directory,
            parameters=task.parameters,
            cpus=wanted.invocation.cpus,
            round=wanted.place.round,
            position=wanted.place.position,
            started_monotonic_ns=execution.started_monotonic_ns,
            started_unix_ms=execution.started_unix_ms,
            measurements=kept if failure is None else (),
            details=parsed.details,
            notes=(*parsed.notes, *notes, *(() if generator is None else generator_notes(generator))),
            exit=Exit.of(raw),
            resources=Resources(
                wall_ns=raw.wall_ns, user_us=raw.user_us, system_us=raw.system_us, max_rss_bytes=raw.max_rss_bytes
            ),
            failure=failure,
            background=ended.record if ended is not None else None,
            conditions=_conditions(watching, course),
            findings=course.start.findings,
            void=course.void,
            settled=wanted.settled,
            prepared=course.prepared,
            network=raw.network,
            generator=generator,
            raw={name: Artefact.of(data) for name, data in parts.items()},
        )
        return record, parts

    def _unmade(self, invocation: Invocation) -> Execution:
        """Return the execution of a run that did not start."""
        return Execution(
            argv=invocation.argv,
            environment={},
            directory="",
            started_monotonic_ns=self._clock.monotonic_ns(),
            started_unix_ms=self._clock.unix_ms(),
            raw=RawOutput(failed="a reset failed, or a gate refused"),
        )

    def _execute(self, invocation: Invocation, watching: RunWatching | None) -> tuple[Execution, LoadEnded | None]:
        if self._background is None:
            return self._executor.run(invocation, watching), None
        running = self._background.start()
        try:
            execution = self._executor.run(invocation, watching)
        except BaseException:
            running.stop()
            raise
        return execution, self._background.finish(running, execution)


def _conditions(watching: RunWatching | None, course: _Course) -> Conditions | None:
    """Return the conditions around the run and how busy the load generator was; None if they were not observed."""
    found = watching.conditions(course.start) if watching is not None else None
    generator = course.execution.generator
    if found is None or generator is None:
        return found
    during = {**found.readings_during, GENERATOR_BUSY: generator.busy_share}
    return msgspec.structs.replace(found, readings_during=during)


def _collect_outcomes(
    task: Task, parsed: ParsedRun, ended: LoadEnded | None, watching: RunWatching | None
) -> tuple[tuple[KeptMeasurement, ...], tuple[str, ...]]:
    """Return the measurements of tool, load and energy counters, and notes on missing ones."""
    outcomes = {outcome.name: outcome for outcome in task.benchmark.outcomes}
    kept = [KeptMeasurement.of(one, outcomes[one.outcome]) for one in parsed.measurements]
    if ended is not None and ended.throughput is not None:
        kept.append(KeptMeasurement.of(ended.throughput, LOAD_THROUGHPUT))
    used, notes = watching.energy() if watching is not None else ((), ())
    return (*kept, *(KeptMeasurement.of(measurement, outcome) for measurement, outcome in used)), notes


def _parse(task: Task, raw: RawOutput) -> tuple[ParsedRun, str | None]:
    try:
        check_run(task.benchmark, raw)
        parsed = task.benchmark.parse(raw, task.parameters)
        check_measurements(task.benchmark.outcomes, parsed)
    except BadRun as error:
        step = error.hint or (_READ_IT if isinstance(error, UnreadableOutput) else None)
        return ParsedRun(measurements=()), f"{error.message}; next: {step}" if step else error.message
    return parsed, None
