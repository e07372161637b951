# SPDX-License-Identifier: Apache-2.0
"""Whole trials in the form of the store: the stored trial, its log, and the records of its runs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ktrial.bench.record import RunRecord, Session
from ktrial.judge.judge import judge
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Event,
    Looked,
    OutcomeRule,
    Protocol,
    RunEnded,
    TrialArm,
    TrialEnd,
    block_order,
)
from ktrial.judge.model.noise_profile import NoiseProfile, ProfileKey
from ktrial.kit.outcome import Outcome
from ktrial.results.store.recorder import Recorder
from ktrial.results.store.runs import Store
from ktrial.trial.outcome.comparison import TrialFacts, comparison_of, outcomes_of
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.record import ArmSettings, StoredTrial, protocol_sha256
from ktrial.trial.store import StoredTrials
from tests.support.comparisons import HOSTILE, _poisoned
from tests.support.records import run_record, session_document

RATE, P99, FAULTS, WALL = "tool.rate", "tool.p99", "tool.faults", "tool.wall"
#: The effect of each arm on the logarithm of the rate.
GAINS = {"control": 0.0, "sw10": 0.06, "sw60": 0.0, "sw180": -0.05, "placebo": 0.0}
VALUES = {"sw10": "10", "sw60": "60", "sw180": "180"}


class Kept(NamedTuple):
    """A stored trial."""

    stored: StoredTrial
    log: tuple[Event, ...]
    records: tuple[RunRecord, ...]

    def told(self) -> Comparison:
        """Return the comparison that every report gets."""
        about: dict[str, Outcome] = outcomes_of(self.records, {})
        return comparison_of(self.stored, self.log, judge(self.log), TrialFacts(outcomes=about, records=self.records))


def a_protocol(arms: Sequence[str] = tuple(GAINS), **changes: Any) -> Protocol:
    """Return a protocol: rate decides, p99 is a guard, faults is a counter, and wall is not part of the question."""
    fields: dict[str, Any] = {
        "name": "swappiness",
        "arms": tuple(TrialArm(name=arm, placebo=arm == "placebo") for arm in arms),
        "control": "control",
        "outcomes": {
            RATE: OutcomeRule(direction="higher", role="primary"),
            P99: OutcomeRule(direction="lower", role="guard", margin=0.05),
            FAULTS: OutcomeRule(direction="lower", role="secondary", scale="count"),
            WALL: OutcomeRule(direction="lower", role="exploratory"),
        },
        "cap": 20,
        "seed": 7,
    }
    return Protocol(**{**fields, **changes})


@cache
def a_trial(noise: float = 0.004, seed: int = 1, *, ended: bool = True, void: bool = True) -> Kept:
    """Return four values against the control and a placebo: 10 is better, 180 worse, one block void, one run failed."""
    protocol = a_protocol()
    arms = {arm: ArmSettings(changes={"vm.swappiness": value}) for arm, value in VALUES.items()}
    arms |= {"control": ArmSettings(), "placebo": ArmSettings()}
    arms["sw60"] = ArmSettings(
        changes={"vm.swappiness": "60"}, same=("vm.page-cluster",), refused={"vm.nosuch": "this kernel has none"}
    )
    file = TrialFile(
        name="swappiness",
        suite="memory-pressure",
        primary="rate",
        guards={"p99": "5%"},
        arms={
            name: ArmFile(placebo=True)
            if name == "placebo"
            else ArmFile(set={"vm.swappiness": VALUES[name]} if name in VALUES else {})
            for name in GAINS
        },
    )
    digest = protocol_sha256(file, protocol, arms)
    made = _Course(protocol, noise, seed, digest)
    made.carry_out(void_block=3 if void else None, ended=ended)
    stored = StoredTrial(
        trial="swappiness-abcdef",
        session=made.records[0].session.session,
        protocol_sha256=digest,
        started_unix_ms=1_700_000_000_000,
        file=file,
        arms=arms,
        settle_s=2.0,
        machine="model CPU, threads 2",
    )
    return Kept(stored, tuple(made.log), tuple(made.records))


def hostile_trial() -> Comparison:
    """Return a comparison with HOSTILE in every text that a protocol, a machine or a benchmark can contain."""
    document = msgspec.to_builtins(a_trial().told())
    made: Comparison = msgspec.convert(_poisoned(document, ""), Comparison)
    assert made.trial is not None
    arms = tuple(
        msgspec.structs.replace(one, changes={f"{name}{HOSTILE}": value for name, value in one.changes.items()})
        for one in made.trial.arms
    )
    return msgspec.structs.replace(made, trial=msgspec.structs.replace(made.trial, arms=arms))


class _Course:
    """Makes the blocks that the judge asks for, like `trial.run.loop`."""

    def __init__(self, protocol: Protocol, noise: float, seed: int, digest: str) -> None:
        self.log: list[Event] = [protocol]
        self.records: list[RunRecord] = []
        self._protocol = protocol
        self._noise = noise
        self._digest = digest
        self._random = np.random.default_rng(seed)

    def carry_out(self, *, void_block: int | None, ended: bool) -> None:
        self._run(None, "control")
        while (step := judge(self.log).next).action != "stop":
            block = step.block or 0
            order = block_order(self._protocol.seed, block, step.arms)
            self.log.append(BlockDrawn(block=block, order=order))
            for arm in order:
                if block == void_block and arm == order[1]:
                    self.log.append(BlockVoided(block=block, arm=arm, cause="suspend", reason="the machine slept 3 s"))
                    break
                self._run(block, arm, failure="exit status 1" if (block, arm) == (2, "sw180") else None)
            else:
                said = judge(self.log)
                verdicts = said.primary_verdicts
                self.log.append(Looked(blocks=said.blocks, verdicts=verdicts))
        if ended:
            self.log.append(TrialEnd(reason=step.reason))

    def _run(self, block: int | None, arm: str, failure: str | None = None) -> None:
        number = len(self.records) + 1
        values = {} if failure else self._values(arm)
        where = {"trial": "swappiness-abcdef", "protocol_sha256": self._digest, "block": block, "arm": arm}
        record = run_record(
            number,
            arm,
            block,
            values,
            failure=failure,
            exit={"status": 1 if failure else 0},
            conditions={"before": [], "after": [], "readings_before": {"temperature_c": 40.0 + number / 10}},
            trial=where | {"kernel_release": "6.18.0", "boot_id": "boot-1"},
        )
        self.records.append(record)
        measured: Mapping[str, float] = {f"tool.{name}": value for name, value in values.items()}
        self.log.append(RunEnded(run=number, block=block, arm=arm, measurements=measured, failure=failure))

    def _values(self, arm: str) -> dict[str, float]:
        noise = self._random.normal(0, self._noise, 3)
        return {
            "rate": 1000 * math.exp(GAINS[arm] + noise[0]),
            "p99": 0.005 * math.exp(-GAINS[arm] + noise[1]),
            "faults": float(self._random.poisson(20 if arm == "sw180" else 4)),
            "wall": 1.5 * math.exp(noise[2]),
        }


def messaging_trial(
    store: Store,
    *,
    command: str = "perf",
    ended: bool = True,
    host: str | None = None,
    seed: int = 3,
    changes: Mapping[str, str] = {},
) -> StoredTrial:
    """Return a stored trial whose runs have the output of `perf bench sched messaging`; `case` is 4 % faster.

    `host` is one of several machines with the same hardware, and its trial takes no fast path. `changes` are the
    settings of `case`, in place of its environment.
    """
    name = "messages-abcdef" if host is None else f"messages-{host}"
    protocol = a_protocol(
        ("control", "case"),
        name="messages",
        outcomes={"perf-messaging.time": OutcomeRule(direction="lower", role="primary")},
        profile={"perf-messaging.time": tuple(0.001 * (-1) ** place * (place + 1) for place in range(10))}
        if host is None
        else {},
    )
    environment = {} if changes else {"TOOL": command}
    arms = {"control": ArmSettings(), "case": ArmSettings(changes=changes, environment=environment)}
    file = TrialFile(
        name="messages",
        suite="perf-messaging",
        primary="time",
        arms={"control": ArmFile(), "case": ArmFile(set=changes, environment=environment)},
    )
    digest = protocol_sha256(file, protocol, arms)
    recorder = Recorder(lambda: store, lambda: 1_700_000_000_000)
    document = session_document(f"20261122T030000-{name}")
    if host is not None:
        told = {"cpu.model": "Example 1", "cpu.threads": 8, "os.machine": host}
        document["machine"] = {fact: {"value": value} for fact, value in told.items()}
    session = msgspec.convert(document, Session)
    recorder.begin(session, digest)
    stored = StoredTrial(
        trial=name,
        session=session.session,
        protocol_sha256=digest,
        started_unix_ms=1_700_000_000_000,
        file=file,
        arms=arms,
        settle_s=0.0,
        machine="model CPU",
    )
    course = _Messages(protocol, 0.01, seed, digest, document)
    course.carry_out(void_block=None, ended=ended)
    trials = StoredTrials(lambda: store.database)
    key = ProfileKey(machine="m", suite="messages", tool_versions={}, kernel_release="6.18.0", governor=None)
    if protocol.profile:
        trials.keep_profile(NoiseProfile(key=key, made_unix_ms=0, differences=protocol.profile))
    trials.begin(stored, protocol)
    trials.append(stored.trial, course.log[1:])
    for record, stdout in zip(course.records, course.printed, strict=True):
        recorder.start(session.session, record.run, record.benchmark, warm_up=record.is_warm_up)
        recorder.save(record, {"stdout": stdout})
    return stored


class _Messages(_Course):
    """The course of a trial with a real tool's output."""

    def __init__(self, protocol: Protocol, noise: float, seed: int, digest: str, session: Mapping[str, Any]) -> None:
        super().__init__(protocol, noise, seed, digest)
        self.printed: list[bytes] = []
        self._session = session
        self._trial = session["session"].removeprefix("20261122T030000-")

    def _run(self, block: int | None, arm: str, failure: str | None = None) -> None:
        number = len(self.records) + 1
        seconds = round(0.2 * math.exp((-0.04 if arm == "case" else 0.0) + self._random.normal(0, self._noise)), 3)
        stdout = (
            b"# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n"
            b"# 2 groups == 80 processes run\n\n     Total time: %.3f [sec]\n" % seconds
        )
        where = {"trial": self._trial, "protocol_sha256": self._digest, "block": block, "arm": arm}
        record = run_record(
            number,
            arm,
            block,
            {"time": seconds},
            tool="perf-messaging",
            session=self._session,
            parameters={"groups": 2, "loops": 200},
            details={"tasks": 80},
            raw={"stdout": {"sha256": hashlib.sha256(stdout).hexdigest(), "size_bytes": len(stdout)}},
            trial=where | {"kernel_release": "6.18.0", "boot_id": "boot-1"},
        )
        measured = msgspec.structs.replace(record.measurements[0], original=f"{seconds:.3f} s")
        self.records.append(msgspec.structs.replace(record, measurements=(measured,)))
        self.printed.append(stdout)
        self.log.append(RunEnded(run=number, block=block, arm=arm, measurements={"perf-messaging.time": seconds}))
