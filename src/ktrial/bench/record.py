# SPDX-License-Identifier: Apache-2.0
"""The stored record of one run, and the summary of several."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from ktrial.bench.benchmark import AgentLoad, RawOutput
from ktrial.bench.outcomes import rate
from ktrial.bench.tool import Receipt
from ktrial.kit.outcome import Direction, Measurement, Outcome, Unit
from ktrial.machine.container import Container
from ktrial.machine.disturbance import Disturbance
from ktrial.machine.facts import Fact
from ktrial.machine.gates import GateFinding, GateLimits
from ktrial.machine.run_conditions import Conditions
from ktrial.machine.settle import Settled

#: Outcome of the background load itself: the work that it did per second.
LOAD_THROUGHPUT = rate(
    "load.throughput",
    "1/s",
    "The background load did [more|less] work beside the benchmark.",
    "`spin` is counted every 10 ms, for the benchmark's own time. stress-ng is counted from its start to "
    "its end, which includes half a second before the benchmark.",
    (0, 1e12),
)
#: Facts that every run record carries.
MACHINE_FACTS = (
    "boot.id",
    "cpu.cores",
    "cpu.microcode",
    "cpu.model",
    "cpu.smt",
    "cpu.threads",
    "cpufreq.boost",
    "cpufreq.driver",
    "cpufreq.governor",
    "cpufreq.preference",
    "kernel.clocksource",
    "kernel.command_line",
    "kernel.config_hash",
    "kernel.preemption",
    "kernel.release",
    "kernel.sched_ext_name",
    "kernel.scheduler",
    "kernel.scheduler_version",
    "kernel.tick_rate",
    "kernel.version",
    "memory.total",
    "os.id",
    "os.machine",
    "os.version",
    "power.source",
    "swap.total",
    "thp.enabled",
    "virtualisation.kind",
    "virtualisation.ktrial",
)


class GeneratorRun(msgspec.Struct, frozen=True, kw_only=True):
    """The load generator of one run: the machine, and its readings during the run; None for a failed reading.

    The generator loaded a server on the machine `measured`. `identity` must be equal in all runs. `program_share` is
    the CPU time of the sending program per thread and second, `machine_share` the share of all CPUs that was busy.
    `throttled_share` is the share of the run in which CPU limits of its control groups stopped a thread, on average.
    `busy_share` shows how near the generator was to its limit: 1 means that it could not send more. `waiting_share` is
    the share of the time in which a task waited for a CPU, `run_delay_s` how long all tasks waited.
    """

    name: str
    measured: str
    identity: str
    busy_share: float | None = None
    program_share: float | None = None
    machine_share: float | None = None
    throttled_share: float | None = None
    waiting_share: float | None = None
    run_delay_s: float | None = None
    retransmits: int | None = None
    network_errors: int | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """A command as executed, with its output; `argv` has the program's resolved path.

    `steps` are the command lines that ran before it, up to a failure; `step_raw` is the output of `steps`. `built` is
    the receipt of the program if ktrial built it; `container` is the container in which the command ran.
    """

    argv: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...] = ()
    step_raw: Mapping[str, bytes] = {}
    environment: Mapping[str, str]
    directory: str
    started_monotonic_ns: int
    started_unix_ms: int
    raw: RawOutput
    built: Receipt | None = None
    container: Container | None = None
    generator: GeneratorRun | None = None


class Watch(Protocol):
    """Observes the machine around a run."""

    def begin(self) -> None:
        """Start to observe the machine, directly before the run."""

    def end(self) -> None:
        """Stop observing, directly after the run; not called if the run was interrupted."""


class Artefact(msgspec.Struct, frozen=True):
    """Data stored beside the records: its SHA-256, which is also its name, and its size."""

    sha256: str
    size_bytes: int

    @classmethod
    def of(cls, data: bytes) -> Artefact:
        return cls(hashlib.sha256(data).hexdigest(), len(data))


def raw_parts(raw: RawOutput) -> dict[str, bytes]:
    """Return the non-empty streams and files of a run by name."""
    parts = {"stdout": raw.stdout, "stderr": raw.stderr, **{f"files/{name}": data for name, data in raw.files.items()}}
    return {name: data for name, data in parts.items() if data}


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How the program ended: with a status or by a signal, or why it did not start (`failed`).

    `timed_out` means that the agent killed it at its time limit, `interrupted` that Ctrl-C or another signal to ktrial
    ended it.
    """

    status: int | None = None
    signal: int | None = None
    failed: str | None = None
    timed_out: bool = False
    interrupted: bool = False

    @classmethod
    def of(cls, raw: RawOutput) -> Exit:
        return cls(
            status=raw.exit_status,
            signal=raw.signal,
            failed=raw.load_failed or raw.failed,
            timed_out=raw.timed_out,
            interrupted=raw.interrupted,
        )


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a run used; null if not applicable."""

    wall_ns: int | None
    user_us: int | None
    system_us: int | None
    max_rss_bytes: int | None


class KeptMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement with the unit and direction of its outcome, so that a record can be read on its own."""

    outcome: str
    value: float
    unit: Unit
    direction: Direction
    original: str

    @classmethod
    def of(cls, measurement: Measurement, outcome: Outcome) -> KeptMeasurement:
        return cls(
            outcome=outcome.name,
            value=measurement.value,
            unit=outcome.unit,
            direction=outcome.direction,
            original=measurement.original,
        )


class LoadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The background load of one run."""

    argv: tuple[str, ...]
    agent_load: AgentLoad | None
    workers: int
    alive_at_end: bool


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A reset before a run: `result` describes its effect, or why it failed."""

    reset: Literal["sync", "swap", "caches"]
    ok: bool
    result: str


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The data that all runs of a command share; `machine` holds facts, each known, absent or unknown.

    `notes` say what ktrial does not measure or know here, and why. `held_off` is what ktrial inhibits (`sleep`, and
    `idle`, which includes the screen lock); `disturbances` are timers that are due within the expected time. `gates`
    are the limits for judging runs, `sample_period_s` is the time between two samples. `missing` lists benchmarks of
    the suite that did not run, and why.
    """

    session: str
    suite: str
    label: str | None
    seed: int
    rounds: int
    kernel_release: str | None
    boot_id: str | None
    machine: Mapping[str, Fact]
    ktrial_version: str
    agent_version: str | None
    notes: tuple[str, ...] = ()
    held_off: tuple[str, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    gates: Mapping[str, GateLimits] = {}
    sample_period_s: float | None = None
    missing: Mapping[str, str] = {}


class TrialPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run belongs in a trial: block (null for a warm-up), arm, kernel and boot."""

    trial: str
    protocol_sha256: str
    block: int | None
    arm: str
    kernel_release: str | None
    boot_id: str | None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of one benchmark, `ktrial.run/1`. The `failure` of a failed run says why it has no measurements.

    A run of round 0 is a warm-up: stored, but not in summaries. `conditions` are null if not observed. `findings` are
    doubts about the start of this run; `settled` says how long ktrial waited before the run. `void` lists why the run
    is void; a void run also has a `failure`. A `repeated` run was void or disturbed by input: another run replaces it.
    """

    schema: Literal["ktrial.run/1"] = "ktrial.run/1"
    session: Session
    run: int
    benchmark: str
    tool: str
    tool_version: str | None
    built: Receipt | None
    container: Container | None
    argv: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    agent_load: AgentLoad | None
    environment: Mapping[str, str]
    directory: str
    parameters: Mapping[str, Any]
    cpus: tuple[int, ...] | None
    round: int
    position: int
    started_monotonic_ns: int
    started_unix_ms: int
    measurements: tuple[KeptMeasurement, ...]
    details: Mapping[str, Any]
    notes: tuple[str, ...]
    exit: Exit
    resources: Resources
    failure: str | None
    background: LoadRecord | None
    conditions: Conditions | None = None
    findings: tuple[GateFinding, ...] = ()
    void: tuple[str, ...] = ()
    settled: Settled | None = None
    prepared: tuple[PreparedRun, ...] = ()
    repeated: bool = False
    network: Mapping[str, Any] | None = None
    generator: GeneratorRun | None = None
    trial: TrialPlace | None = None
    raw: Mapping[str, Artefact]

    @property
    def is_warm_up(self) -> bool:
        return self.round == 0

    @property
    def ok(self) -> bool:
        return self.failure is None


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """The records of an earlier measurement of the same plan; `next_run` is the first unused run number."""

    session: Session
    records: tuple[RunRecord, ...]
    next_run: int


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome of a benchmark over all good runs; `cv` is its coefficient of variation, null if that is undefined."""

    benchmark: str
    outcome: str
    unit: Unit
    direction: Direction
    headline: bool
    n: int
    median: float
    minimum: float
    maximum: float
    cv: float | None


def summarise(records: Iterable[RunRecord], headlines: Mapping[str, Sequence[str]]) -> tuple[SessionSummary, ...]:
    """Summarise each outcome of each benchmark, without warm-ups.

    `headlines` maps each benchmark to its headline outcomes, and gives the order of the benchmarks.
    """
    values: dict[tuple[str, str], list[KeptMeasurement]] = {}
    for record in records:
        for kept in () if record.is_warm_up else record.measurements:
            values.setdefault((record.benchmark, kept.outcome), []).append(kept)
    places = {name: number for number, name in enumerate(headlines)}
    ordered = sorted(values.items(), key=lambda item: places.get(item[0][0], len(places)))
    return tuple(
        _summary(benchmark, kept, outcome in headlines.get(benchmark, ())) for (benchmark, outcome), kept in ordered
    )


def _summary(benchmark: str, kept: Sequence[KeptMeasurement], headline: bool) -> SessionSummary:
    values = [measurement.value for measurement in kept]
    return SessionSummary(
        benchmark=benchmark,
        outcome=kept[0].outcome,
        unit=kept[0].unit,
        direction=kept[0].direction,
        headline=headline,
        n=len(values),
        median=statistics.median(values),
        minimum=min(values),
        maximum=max(values),
        cv=variation(values),
    )


def variation(values: Sequence[float]) -> float | None:
    """Return standard deviation / mean of a sample; None for fewer than two values or a mean of zero."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return statistics.stdev(values) / abs(mean) if mean else None
