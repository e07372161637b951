# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, an executor and a store in memory, for tests of measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ktrial.bench.benchmark import Invocation, ParsedRun, Probe, RawOutput
from ktrial.bench.guest_tools import GuestTools
from ktrial.bench.record import Earlier, Execution, RunRecord, Session, Watch
from ktrial.kit.errors import AgentError, KtrialError, UnreadableOutput
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.machine.container import Container
from ktrial.machine.facts import FactBook
from ktrial.machine.sensors import Samples, Sensor
from tests.support.samples import document

#: Parameters that a benchmark requires and only the user knows.
REQUIRED: dict[str, dict[str, Any]] = {
    "gfxinfo": {"package": "com.android.settings"},
    "mangohud": {"program": "vkcube --c 3000"},
    "kernel-compile": {"tree": "/usr/src/linux"},
    "kernel-compile-llvm": {"tree": "/usr/src/linux"},
    "xplane": {"program": "/games/X-Plane 12/X-Plane-x86_64"},
    "xplane-replay": {"program": "/games/X-Plane 12/X-Plane-x86_64", "replay": "Output/replays/flight.fdr"},
}
LOAD_YAML = b"""---
system-info:
      stress-ng-version: 0.15.06
metrics:
    - stressor: cpu
      bogo-ops: 100
      bogo-ops-per-second-usr-sys-time: 60.000000
      bogo-ops-per-second-real-time: 50.000000
      wall-clock-time: 2.000000
      user-time: 1.600000
      system-time: 0.000000
...
"""

#: A reply with 200 rounds per second in the first second, and 100 in the other.
SPIN_REPLY = msgspec.json.encode(
    {
        "load": "spin",
        "results": {
            "rounds": 300,
            "elapsed_ns": 2_000_000_000,
            "start_ns": 0,
            "slice_ns": 10_000_000,
            "slices": [2] * 100 + [1] * 100,
        },
    }
)


def outcome(name: str = "time", **fields: Any) -> Outcome:
    """Return an outcome with sensible values for everything that a test does not set."""
    values: dict[str, Any] = {
        "unit": "s",
        "direction": "lower",
        "kind": "time",
        "low": 0,
        "high": 100,
        "better": "Better.",
        "worse": "Worse.",
        "blind_spots": "None.",
        "headline": True,
    }
    return Outcome(name=name, **{**values, **fields})


@dataclass(frozen=True, kw_only=True)
class FakeBenchmark:
    """Prints `time VALUE`; implements `Benchmark`."""

    name: str
    needs: tuple[str, ...] = ("tool",)
    packages: Mapping[str, str] = field(default_factory=lambda: {"apt": "tools", "dnf": "tools-extra"})
    root_reason: str | None = None
    user_reason: str | None = None
    probe: Probe | None = None
    least_cpus: int = 1
    outcomes: tuple[Outcome, ...] = (outcome(),)
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"loops": 10})
    expected_s: float | None = None
    warm_ups: int = 0
    once_per_boot: bool = False
    asks_version: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def what(self) -> str:
        return f"What {self.name} measures."

    def invocation(self, parameters: Mapping[str, Any], facts: FactBook) -> Invocation:
        argv = (self.needs[0], self.name, str(parameters["loops"]))
        return Invocation(
            argv=argv,
            limit_s=10,
            expected_s=self.expected_s,
            warm_ups=self.warm_ups,
            once_per_boot=self.once_per_boot,
        )

    def version_invocation(self) -> Invocation | None:
        return Invocation(argv=(self.needs[0], "--version"), limit_s=1) if self.asks_version else None

    def parse_version(self, raw: RawOutput) -> str | None:
        return raw.stdout.decode() or None

    def parse(self, raw: RawOutput, parameters: Mapping[str, Any]) -> ParsedRun:
        word, _, value = raw.stdout.decode().partition(" ")
        if word != "time":
            raise UnreadableOutput("stdout", 1, word, "the word time")
        measured = Measurement(outcome="time", value=float(value), original=f"{value} s")
        return ParsedRun(measurements=(measured,), details=self.details)


def answer(stdout: bytes = b"time 1.5", **fields: Any) -> RawOutput:
    """Return the output of a run, by default of a successful one."""
    ended = {} if {"signal", "failed"} & set(fields) else {"exit_status": 0}
    return RawOutput(stdout=stdout, wall_ns=1_000_000, **{**ended, **fields})


class FakeLoad:
    """A background load; `dies` makes it end too early."""

    def __init__(self, log: list[str], *, dies: bool, yaml: bytes, spins: bool, reply: bytes = SPIN_REPLY) -> None:
        self._reply = reply
        self._spins = spins
        self._log = log
        self._dies = dies
        self._yaml = yaml

    def alive(self) -> bool:
        return not self._dies

    def stop(self) -> RawOutput:
        self._log.append("load stops")
        if self._spins:
            return answer(self._reply)
        return answer(b"", files={"load.yaml": self._yaml}, stderr=b"stress-ng: killed" if self._dies else b"")


class FakeExecutor:
    """Answers each run with `reply(argv)` and records the requests in `log`. Implements `Executor`."""

    agent_version = "0.1.0"
    container: Container | None = None
    guest: GuestTools | None = None

    def __init__(
        self,
        reply: Callable[[tuple[str, ...]], RawOutput] = lambda argv: answer(),
        *,
        installed: Iterable[str] = ("tool", "stress-ng", "apt-get"),
        has_root: bool = False,
        runs_as_root: bool = False,
        load_dies: bool = False,
        load_yaml: bytes = LOAD_YAML,
    ) -> None:
        self.log: list[str] = []
        self.invocations: list[Invocation] = []
        self.has_root = has_root
        self.runs_as_root = runs_as_root
        self.root_for: list[str] = []
        self.has_loads = True
        self._reply = reply
        self._installed = set(installed)
        self._load_dies = load_dies
        self._load_yaml = load_yaml

    def obtain_root(self, purpose: str) -> None:
        self.root_for.append(purpose)

    def programs(self, names: Iterable[str]) -> dict[str, str | None]:
        return {name: f"/usr/bin/{name}" if name in self._installed else None for name in names}

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        self.log.append(" ".join(invocation.argv))
        self.invocations.append(invocation)
        if watch is not None:
            watch.begin()
        try:
            raw = self._reply(invocation.argv)
        except KeyboardInterrupt:
            raw = RawOutput(interrupted=True, wall_ns=3_240_000_000)
        if watch is not None and not raw.interrupted:
            watch.end()
        return Execution(
            argv=(f"/usr/bin/{invocation.argv[0]}", *invocation.argv[1:]),
            environment={"LC_ALL": "C"},
            directory="/private",
            started_monotonic_ns=len(self.log),
            started_unix_ms=1,
            raw=raw,
        )

    def start(self, invocation: Invocation) -> FakeLoad:
        self.log.append("load starts")
        return FakeLoad(self.log, dies=self._load_dies, yaml=self._load_yaml, spins=invocation.load is not None)


class FakeSampling:
    """Each look takes the next row of `rows` (column -> whole number); the last row is repeated.

    A run takes two looks. `lost` makes the agent disappear during a run. Implements `machine.ports.Sampling`.
    """

    def __init__(self, rows: Sequence[Mapping[str, int | None]], units: Mapping[str, Sensor], **more: Any) -> None:
        self.rows = list(rows)
        self.lost = False
        self.log: list[str] = []
        self._units = dict(units)
        self._more = more

    def once(self) -> Samples:
        self.log.append("once")
        return self._samples([self._next()])

    def start(self, period_s: float = 1.0) -> None:
        self.log.append(f"start {period_s:g}")
        self._first = self._next()

    def stop(self) -> Samples:
        self.log.append("stop")
        if self.lost:
            raise AgentError("lost", "the agent was lost during 'sample'")
        return self._samples([self._first, self._next()])

    def _next(self) -> Mapping[str, int | None]:
        return self.rows.pop(0) if len(self.rows) > 1 else self.rows[0]

    def _samples(self, rows: Sequence[Mapping[str, int | None]]) -> Samples:
        columns = {name: [row.get(name) for row in rows] for name in self._units}
        return msgspec.convert(document(columns, self._units, **self._more), Samples)


class FakeSleep:
    """How long the machine slept, for each look; implements `machine.ports.SleepClock`."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds or (0.0,))

    def slept_s(self) -> float:
        return self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]


class FakeStore:
    """Stores records in a list, at most `room` of them. `started` lists the runs that were begun."""

    def __init__(self, room: int = 1000) -> None:
        self.records: list[RunRecord] = []
        self.parts: list[Mapping[str, bytes]] = []
        self.started: list[int] = []
        self.plans: dict[str, Session] = {}
        self.states: dict[str, bytes] = {}
        self.room = room

    def new_name(self) -> str:
        return "session"

    def where(self, session: str) -> str:
        return f"/state/results.db, session {session}"

    def earlier(self, plan: str) -> Earlier | None:
        if plan not in self.plans:
            return None
        return Earlier(session=self.plans[plan], records=tuple(self.records), next_run=max(self.started, default=0) + 1)

    def begin(self, session: Session, plan: str) -> None:
        self.plans[plan] = session

    def keep_state(self, session: str, place: str, state: bytes) -> None:
        assert place not in self.states
        self.states[place] = state

    def start(self, session: str, run: int, benchmark: str, *, warm_up: bool) -> None:
        assert run not in self.started
        self.started.append(run)

    def give_up(self, session: str, run: int) -> None:
        assert run in self.started

    def save(self, record: RunRecord, parts: Mapping[str, bytes]) -> str:
        if len(self.records) == self.room:
            raise KtrialError("/state/results.db cannot be written: No space left on device")
        self.records.append(record)
        self.parts.append(parts)
        return f"session/{record.run}"


class FakeClock:
    """A clock that moves by a second at each look."""

    def __init__(self, start_s: int = 0) -> None:
        self.now_ns = start_s * 1_000_000_000
        self.slept_s: list[float] = []

    def monotonic_ns(self) -> int:
        self.now_ns += 1_000_000_000
        return self.now_ns

    def unix_ms(self) -> int:
        return self.now_ns // 1_000_000

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
