# SPDX-License-Identifier: Apache-2.0
"""The background load of a suite: ktrial starts it before each run, then stops it and records its throughput."""

from __future__ import annotations

import msgspec

from ktrial.bench.adapters.stress_ng.output import read_stress_ng
from ktrial.bench.availability import IN_CONTAINER, install_command, package_tool
from ktrial.bench.benchmark import RawOutput
from ktrial.bench.record import LOAD_THROUGHPUT, Execution, LoadRecord
from ktrial.bench.run.ports import Executor, RunningLoad
from ktrial.bench.suite import LOAD_FILE, SETTLE_S, SuiteLoad
from ktrial.kit.errors import BadRun, KtrialError
from ktrial.kit.json_strict import decode_as
from ktrial.kit.outcome import Measurement
from ktrial.machine.ports import Clock

_PACKAGES = {"apt": "stress-ng", "dnf": "stress-ng", "pacman": "stress-ng", "zypper": "stress-ng"}


class LoadEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a load: its record, its output, and its throughput or a failure."""

    record: LoadRecord
    raw: RawOutput
    throughput: Measurement | None = None
    failure: str | None = None


class _SpinResults(msgspec.Struct):
    """The counts of `spin`. `slices` are the rounds in each `slice_ns`, from `start_ns` on the monotonic clock."""

    rounds: int
    elapsed_ns: int
    start_ns: int
    slice_ns: int
    slices: list[int]

    def rounds_until(self, moment_ns: int) -> float:
        """Return the number of rounds from `start_ns` to `moment_ns`, interpolated within the last slice."""
        past_ns = min(max(moment_ns - self.start_ns, 0), self.elapsed_ns)
        whole = min(past_ns // self.slice_ns, len(self.slices))
        before, from_ns = sum(self.slices[:whole]), whole * self.slice_ns
        if whole < len(self.slices):
            here, length_ns = self.slices[whole], self.slice_ns
        else:
            here, length_ns = self.rounds - sum(self.slices), self.elapsed_ns - from_ns
        return before + (here * (past_ns - from_ns) / length_ns if length_ns > 0 else 0)


class _SpinReply(msgspec.Struct):
    results: _SpinResults


class Background:
    """The background load of a suite, which starts again for each run."""

    def __init__(self, load: SuiteLoad, cpus: int, executor: Executor, clock: Clock) -> None:
        self._workers = load.workers(cpus)
        self._invocation = load.invocation(cpus)
        self._executor = executor
        self._clock = clock
        self._argv = self._invocation.argv

    def check(self) -> None:
        """Raise KtrialError if the load cannot start here."""
        if self._invocation.load is not None:
            if not self._executor.has_loads:
                raise KtrialError(
                    "this agent cannot run the suite's background load",
                    hint="reinstall ktrial (in a checkout, running ./ktrial rebuilds the agent)",
                )
            return
        program, *arguments = self._invocation.argv
        programs = self._executor.programs([program, "apt-get", "dnf", "pacman", "zypper"])
        place = programs[program]
        if place is None:
            step = install_command(_PACKAGES, package_tool(programs)) or "install stress-ng"
            step = step if self._executor.container is None else IN_CONTAINER
            raise KtrialError(f"the suite's background load needs {program}, which is not installed", hint=step)
        self._argv = (place, *arguments)

    def start(self) -> RunningLoad:
        running = self._executor.start(self._invocation)
        try:
            self._clock.sleep(SETTLE_S)
        except BaseException:
            running.stop()
            raise
        return running

    def finish(self, running: RunningLoad, run: Execution) -> LoadEnded:
        """Stop the load and return its result.

        The throughput of `spin` covers the run; that of stress-ng covers the whole time of the load.
        """
        alive = running.alive()
        raw = running.stop()
        load = self._invocation.load
        record = LoadRecord(argv=self._argv, agent_load=load, workers=self._workers, alive_at_end=alive)
        if not alive:
            said = raw.failed or raw.stderr.decode("utf-8", "backslashreplace").strip().rpartition("\n")[2]
            failure = "the background load ended before the benchmark" + (f"; it said: {said}" if said else "")
            return LoadEnded(record=record, raw=raw, failure=failure)
        try:
            throughput = _spin_rate(raw, run) if load is not None else _stress_ng_rate(raw)
        except BadRun as error:
            return LoadEnded(record=record, raw=raw, failure=f"the background load gave no figures: {error.message}")
        return LoadEnded(record=record, raw=raw, throughput=throughput)


def _stress_ng_rate(raw: RawOutput) -> Measurement:
    rate = read_stress_ng(raw.files.get(LOAD_FILE, b""), LOAD_FILE).stressors[0].rate
    return Measurement(outcome=LOAD_THROUGHPUT.name, value=rate.value, original=rate.original)


def _spin_rate(raw: RawOutput, run: Execution) -> Measurement:
    try:
        spun = decode_as(raw.stdout, _SpinReply).results
    except msgspec.DecodeError as error:
        raise BadRun(raw.failed or f"its reply is malformed ({error})") from None
    began_ns, length_ns = run.started_monotonic_ns, run.raw.wall_ns or 0
    if spun.slice_ns <= 0 or length_ns <= 0 or began_ns < spun.start_ns:
        raise BadRun("its counts do not cover the time of the benchmark")
    rounds = spun.rounds_until(began_ns + length_ns) - spun.rounds_until(began_ns)
    value, original = rounds * 1e9 / length_ns, f"{rounds:.1f} rounds in the {length_ns} ns of the benchmark"
    return Measurement(outcome=LOAD_THROUGHPUT.name, value=value, original=original)
