# SPDX-License-Identifier: Apache-2.0
"""Live trials in milliseconds: a clock that moves only during waits, and sources whose values a test decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from ktrial.bench.measure import session_of
from ktrial.bench.record import RunRecord
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Task
from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import BlockVoided, Event, OutcomeRule, RunEnded, TrialArm
from ktrial.kit.outcome import Outcome
from ktrial.live.control import Wanted
from ktrial.live.model import LiveMetric, Sample, Stretch, StretchReading
from ktrial.live.pace import LivePace
from ktrial.live.period import PERIOD_FILE, live_benchmark
from ktrial.live.sampling import LivePoll, WatchedMetric
from ktrial.live.visits import LiveRules, LiveVisits
from ktrial.live.watchdog import SampleGuard, Watchdog, past_periods
from ktrial.trial.arms.arms import Arms
from ktrial.trial.run.loop import Standing, TrialLoop
from tests.support.trial_course import FACTS, FOUND, SWAPPINESS, Logs, MortalStore, TunableMachine, plan_of
from tests.support.trials import protocol

#: Midnight (UTC) of a day in 2026.
MIDNIGHT_MS = 1_767_225_600_000
LATENCY = "live.latency"


@contextmanager
def in_utc() -> Iterator[None]:
    """Make UTC the local time during the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


class WaitedClock:
    """A clock that moves only during waits; `events` happen at their times."""

    def __init__(self, unix_ms: int = MIDNIGHT_MS + 12 * 3_600_000) -> None:
        self.now_ns = 0
        self.offset_ms = unix_ms
        self.asleep_s = 0.0
        self.events: list[tuple[float, Callable[[], None]]] = []

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def monotonic_ns(self) -> int:
        return self.now_ns

    def unix_ms(self) -> int:
        return self.offset_ms + self.now_ns // 1_000_000

    def slept_s(self) -> float:
        return self.asleep_s

    def sleep(self, seconds: float) -> None:
        self.now_ns += max(1_000_000, round(seconds * 1e9))
        for event in [one for one in self.events if one[0] <= self.now_s]:
            self.events.remove(event)
            event[1]()

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        self.events.append((seconds, happens))


class ToldSource:
    """A source with one sample per second: the result of `value`, or silence if it is None."""

    poll_s = 1.0

    def __init__(self, clock: WaitedClock, value: Callable[[], float | None], name: str = "latency") -> None:
        self.clock = clock
        self.value = value
        self.version: Callable[[], str | None] = lambda: None
        self.samples: list[Sample] = []
        self.is_open = False
        self._outcome = Outcome(
            name=name, unit="s", direction="lower", kind="time", low=0, high=1e9, better="", worse="", blind_spots=""
        )

    @property
    def outcome(self) -> Outcome:
        return self._outcome

    def begin(self) -> None:
        self.is_open = True

    def poll(self) -> Sequence[Sample]:
        value = self.value()
        new = [] if value is None else [Sample(self.clock.unix_ms(), value)]
        self.samples += new
        return new

    def over(self, stretch: Stretch) -> StretchReading:
        values = [one.value for one in self.samples if stretch.begin_ms <= one.at_ms < stretch.end_ms]
        if not values:
            return StretchReading(value=None, why="no sample")
        return StretchReading(value=sum(values) / len(values), samples=len(values), version=self.version())

    def end(self) -> None:
        self.is_open = False


class LiveTrial:
    """A live trial of `case` (swappiness 10) against the unchanged machine; periods of 10 s after a washout of 2 s."""

    def __init__(self, value: Callable[[float, int], float | None], **rules: Any) -> None:
        self.clock = WaitedClock()
        self.machine = TunableMachine(FOUND)
        self.value = value
        self.source = ToldSource(self.clock, lambda: value(self.clock.now_s, self.swappiness))
        self.protocol = protocol(
            arms=(TrialArm(name="control"), TrialArm(name="case")),
            outcomes={LATENCY: OutcomeRule(direction="lower", role="primary")},
            cap=rules.pop("cap", 9),
        )
        self.store = MortalStore()
        self.logs = Logs(self.protocol)
        self.told: list[Any] = []
        self.noted: list[str] = []
        self.wanted: Wanted = "run"
        self.covariates: list[WatchedMetric] = []
        self.guard: SampleGuard | None = None
        self.limits: dict[str, float] = rules.pop("limits", {})
        self.rules = {"period_s": 10.0, "washout_s": 2.0, "primary": LATENCY, **rules}
        self.pace: dict[str, Any] = {}
        self.values_when_read: list[tuple[int, int]] = []

    @property
    def swappiness(self) -> int:
        return int(str(self.machine.files[SWAPPINESS]))

    @property
    def log(self) -> list[Event]:
        return self.logs.events

    @property
    def voids(self) -> list[str]:
        return [event.reason for event in self.log if isinstance(event, BlockVoided)]

    @property
    def runs(self) -> list[RunEnded]:
        return [event for event in self.log if isinstance(event, RunEnded)]

    def period_of(self, record: RunRecord) -> bytes:
        return self.store.parts[self.store.records.index(record)][f"files/{PERIOD_FILE}"]

    def run(self) -> Judgement:
        """Run from the current state to the end, or until somebody interrupts the trial."""
        metric = WatchedMetric(LiveMetric("latency_s", "lower", "told:"), self.source)
        task = Task(label="live", benchmark=live_benchmark([self.source.outcome], rated=False), parameters={})
        standing = Standing(
            trial="trial",
            protocol_sha256="f" * 64,
            session=session_of(Order(suite="live", tasks=(task,), rounds=1, seed=7), FACTS, "0.1.0", "session"),
            log=list(self.log),
            records=list(self.store.records),
            next_run=max(self.store.started, default=0) + 1,
            logs=self.logs,
        )
        self.visits = LiveVisits(
            standing,
            LiveRules(**self.rules, past=tuple(past_periods(standing, self.period_of))),
            LivePoll([metric, *self.covariates], self.clock),
            Arms(self.machine, {"case": plan_of(SWAPPINESS, "vm.swappiness", "10")}),
            Watchdog([metric], self.limits, self.guard, ["latency_s"]),
            LivePace(24.0, 4, started_ms=self.clock.unix_ms(), **self.pace),
            self.store,
            self.clock,
            FACTS,
            self.told.append,
            self.noted.append,
            lambda: self.wanted,
            self.clock.unix_ms(),
        )
        return TrialLoop(standing, self.visits, self.told.append).carry_out()
