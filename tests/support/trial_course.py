# SPDX-License-Identifier: Apache-2.0
"""Whole trials in milliseconds: machine, executor and logs are in memory, and the head can be killed at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ktrial.bench.around.around_run import Around
from ktrial.bench.around.start_gate import StartGates
from ktrial.bench.benchmark import RawOutput
from ktrial.bench.measure import session_of
from ktrial.bench.record import RunRecord, Session
from ktrial.bench.run.make_run import RunMaker
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Task
from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import BlockDrawn, Event, Protocol, ReadingsTaken, RunEnded
from ktrial.kit.errors import AgentError, StalePlan
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.gates import parse_gates
from ktrial.machine.watch_run import ConditionWatch
from ktrial.trial.arms.arms import Arms
from ktrial.trial.run.loop import Standing, TrialLoop
from ktrial.trial.run.manual_visits import VisitTurn
from ktrial.trial.run.records import untold
from ktrial.trial.run.visits import Benchmarked, MachineVisits
from ktrial.tuning.plans.model import Change, Plan
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeSampling, FakeSleep, FakeStore, answer
from tests.support.machine import FakeMachine, step_told, transaction_told
from tests.support.samples import LEVEL
from tests.support.trials import protocol

SWAPPINESS = "/proc/sys/vm/swappiness"
PAGE_CLUSTER = "/proc/sys/vm/page-cluster"
FOUND = {SWAPPINESS: "60\n", PAGE_CLUSTER: "3\n"}
FACTS = FactBook({"cpu.threads": Fact(value=4), "kernel.release": Fact(value="6.18"), "boot.id": Fact(value="boot")})
QUIET = {"oldest": 0, "newest": 5, "log": "", "truncated": False}
#: The measurement of a visit: a time in seconds, or an output without a time.
Values = Callable[[int | None, str], float | bytes]


class Killed(BaseException):
    """The head was killed: nothing that it does afterwards has an effect."""


class Life:
    """Counts the actions of the head, and kills it at `last`."""

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self.steps = 0

    def step(self) -> None:
        """Count one action; call this before and after each."""
        if self.last is not None and self.steps >= self.last:
            raise Killed
        self.steps += 1


class TunableMachine(FakeMachine):
    """A machine that also applies, verifies and reverts plans, as the agent does. `on_request` may change its files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__(files)
        self.life = Life()
        self.open: dict[int, dict[str, tuple[str, str]]] = {}
        self.history: list[str] = []
        self.on_request: Callable[[str], None] = lambda do: None
        self.lost = False
        self._last = 0

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        self.life.step()
        if self.lost:
            raise AgentError("lost", f"the agent was lost during {do!r}", hint="`ktrial recover`")
        self.on_request(do)
        answered: dict[str, Any] = getattr(self, f"_{do}")(**fields)
        self.life.step()
        return answered

    def end_session(self) -> None:
        """End the agent, which ends its leases."""
        for transaction in list(self.open):
            self._revert(select={"only": transaction})

    def _apply(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        steps = plan["steps"]
        for step in steps:
            if self.files.get(step["path"]) != step["expect"]:
                raise StalePlan("conflict", f"{step['path']} is not as expected")
        self._last += 1
        self.open[self._last] = {step["path"]: (str(self.files[step["path"]]), step["new"]) for step in steps}
        self.files |= {step["path"]: step["new"] for step in steps}
        self.history.append(", ".join(f"{step['knob']}={step['new'].strip()}" for step in steps))
        told = [step_told(path=step["path"]) for step in steps]
        return {"transaction": self._last, "state": "applied", "steps": told}

    def _revert(self, select: Mapping[str, int]) -> dict[str, Any]:
        steps = []
        for path, (old, new) in self.open.pop(select["only"], {}).items():
            ours = self.files.get(path) == new
            if ours:
                self.files[path] = old
            steps.append(step_told(path=path, outcome="restored" if ours else "changed-by-others"))
        self.history.append("as found")
        return {"transactions": [transaction_told(transaction=select["only"], state="reverted", steps=steps)]}

    def _verify(self, transaction: int | None = None) -> dict[str, Any]:
        wanted = self.open if transaction is None else {transaction: self.open[transaction]}
        return {
            "transactions": [
                {
                    "transaction": number,
                    "steps": [
                        step_told(
                            path=path,
                            outcome="in-force" if self.files.get(path) == new else "drifted",
                            wanted=new,
                            now=self.files.get(path),
                        )
                        for path, (_, new) in paths.items()
                    ],
                }
                for number, paths in wanted.items()
            ]
        }

    def _status(self) -> dict[str, Any]:
        return {"transactions": []}

    def _kernel_log(self, **_: Any) -> dict[str, Any]:
        return QUIET


class MortalStore(FakeStore):
    """A store whose content outlives the head."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life()

    def start(self, session: str, run: int, benchmark: str, *, warm_up: bool) -> None:
        self.life.step()
        super().start(session, run, benchmark, warm_up=warm_up)

    def save(self, record: RunRecord, parts: Mapping[str, bytes]) -> str:
        self.life.step()
        name = super().save(record, parts)
        self.life.step()
        return name


class Logs:
    """The log of a trial, which outlives the head."""

    def __init__(self, first: Event) -> None:
        self.events: list[Event] = [first]
        self.life = Life()

    def append(self, trial: str, events: Sequence[Event]) -> None:
        assert trial == "trial"
        self.life.step()
        self.events += events
        self.life.step()


def plan_of(path: str, address: str, value: str) -> Plan:
    """Return a plan that writes one value over the value in FOUND."""
    old = FOUND[path]
    change = Change(
        knob=address,
        address=address,
        path=path,
        rule="integer",
        new_text=value,
        old_text=old.strip(),
        old=old.encode(),
        couples=(),
        effective=None,
        why=None,
        origin=f"setting {address}={value}",
        risk="safe",
    )
    return Plan(title=address, changes=(change,), same=(), refusals=())


class Trial:
    """A trial of `case` (swappiness 10) against the unchanged machine. It may be killed and resumed."""

    def __init__(
        self,
        values: Values,
        *,
        benchmarks: Sequence[str] = ("tool",),
        plans: Mapping[str, Plan] | None = None,
        settle_s: float = 0.0,
        time_s: float | None = None,
        state: Callable[[], bytes] | None = None,
        details: Mapping[str, Any] | None = None,
        own: Sequence[str] = (),
        **changes: Any,
    ) -> None:
        self.protocol: Protocol = protocol(**changes)
        self.values = values
        self.benchmarks = tuple(benchmarks)
        self.plans = {"case": plan_of(SWAPPINESS, "vm.swappiness", "10")} if plans is None else plans
        self.settle_s = settle_s
        self.time_s = time_s
        self.state = state
        self.machine = TunableMachine(FOUND)
        self.store = MortalStore()
        self.logs = Logs(self.protocol)
        self.heat = [{"temperature.cpu": 45_000}]
        self.told: list[Any] = []
        self.clock = FakeClock()
        self.interrupt_at: tuple[int | None, str] | None = None
        self.most_blocks: int | None = None
        #: Arms that set parameters of the benchmark.
        self.own = tuple(own)
        self.turn: VisitTurn | None = None
        #: Returns what somebody used during a run, for a trial that needs an idle machine.
        self.disturbed: Callable[[], str | None] = lambda: None
        tasks = tuple(
            Task(label=one, benchmark=FakeBenchmark(name=one, details=details or {}), parameters={"loops": 1})
            for one in benchmarks
        )
        self.order = Order(suite="own", tasks=tasks, rounds=1, seed=7)
        self.session: Session = session_of(self.order, FACTS, "0.1.0", "session")

    @property
    def log(self) -> list[Event]:
        return self.logs.events

    def run(self, last: int | None = None) -> Judgement | None:
        """Run from the current state; return None if the head died after `last` steps, and its leases with it."""
        life = Life(last)
        self.machine.life = self.store.life = self.logs.life = life
        try:
            self.course = self._course()
            return self.course.carry_out()
        except Killed:
            return None
        finally:
            self.machine.life = Life()
            self.machine.end_session()
            self.steps = life.steps

    def _course(self) -> TrialLoop:
        late = untold(self.log, self.store.records, self.benchmarks)
        if late:
            self.logs.append("trial", late)
        executor = FakeExecutor()
        executor._reply = lambda argv: self._reply(executor)
        sampling = FakeSampling(self.heat, {"temperature.cpu": LEVEL})
        watch = ConditionWatch(self.machine, sampling, FakeSleep(), "/home", lambda samples: b"PAR1", None)
        gates = StartGates(watch, self.clock, parse_gates({}))
        gates.take_up(self.store.records)
        around = Around(self.machine, self.clock, take_state=self.state, gates=gates)
        around.disturbed = lambda began_ns: self.disturbed()  # type: ignore[method-assign]
        arms = [arm.name for arm in self.protocol.arms]
        standing = Standing(
            trial="trial",
            protocol_sha256="f" * 64,
            session=self.session,
            log=list(self.log),
            records=list(self.store.records),
            next_run=max(self.store.started, default=0) + 1,
            logs=self.logs,
        )
        self.visits = MachineVisits(
            standing,
            Benchmarked(
                tasks=self.order.tasks,
                versions=dict.fromkeys(self.benchmarks),
                own=dict.fromkeys(self.own, self.order.tasks),
            ),
            {arm: {"ARM": arm} for arm in arms},
            Arms(self.machine, self.plans),
            RunMaker(executor, self.clock, None, around),
            around,
            self.store,
            self.clock,
            FACTS,
            self.told.append,
            self.settle_s,
            self.time_s,
            keeps_states=self.state is not None,
            turn=self.turn,
        )
        return TrialLoop(standing, self.visits, self.told.append, self.most_blocks)

    def _reply(self, executor: FakeExecutor) -> RawOutput:
        arm = executor.invocations[-1].environment["ARM"]
        # A run before the first block of this process is a warm-up.
        block = self._block_of_run()
        if self.interrupt_at == (block, arm):
            self.interrupt_at = None
            raise KeyboardInterrupt
        value = self.values(block, arm)
        return answer(value if isinstance(value, bytes) else f"time {value!r}".encode())

    def _block_of_run(self) -> int | None:
        """Return the block that began last."""
        from ktrial.trial.run.events import VisitBegan

        began = [event for event in self.told if isinstance(event, VisitBegan)]
        return began[-1].block if began else None

    @property
    def happened(self) -> list[Event]:
        """The log without what depends on how often the head was started: warm-ups, and the numbers of runs."""
        kept = [event for event in self.log if not (isinstance(event, RunEnded) and event.block is None)]
        return [msgspec.structs.replace(one, run=0) if isinstance(one, RunEnded) else one for one in kept]


def steady(block: int | None, arm: str) -> float:
    """Return the time of a visit: the case is a quarter faster, and the noise depends on block and arm alone."""
    noise = ((block or 0) * 37 + len(arm) * 11) % 7 / 1000
    return (1.0 if arm == "control" else 0.75) * (1 + noise)


def alike(block: int | None, arm: str) -> float:
    """Return the time of a visit in which only noise differs."""
    return 1 + ((block or 0) * 37 + len(arm) * 11) % 7 / 1000


def readings_in(log: Sequence[Event]) -> int:
    """Return how many readings were taken."""
    return sum(isinstance(event, ReadingsTaken) for event in log)


def orders_in(log: Sequence[Event]) -> list[tuple[str, ...]]:
    """Return the order of every block."""
    return [event.order for event in log if isinstance(event, BlockDrawn)]
