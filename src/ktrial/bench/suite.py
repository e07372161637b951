# SPDX-License-Identifier: Apache-2.0
"""Suites: benchmarks with parameters, a background load for their runs, and the order of the runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ktrial.bench.benchmark import AgentLoad, Benchmark, Invocation
from ktrial.kit.errors import BadInput
from ktrial.kit.units import parse_quantity
from ktrial.machine.gates import OFF

#: Shortest and longest sample period of the agent.
SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 0.1, 60.0
#: Seconds for which a background load runs before the benchmark begins.
SETTLE_S = 0.5
#: File that the background load writes when it ends.
LOAD_FILE = "load.yaml"
#: A background load that nobody stops ends after this many seconds; no run under load takes longer.
LOAD_LIMIT_S = 3600.0


class SuiteEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A use of a benchmark in a suite; a `name` is needed if the suite uses the benchmark twice.

    The value of a whole-number parameter may be `cpus` or `cpus/2`: the number of CPUs, or half of it.
    """

    use: str
    name: str | None = None
    parameters: dict[str, Any] = {}
    cpus: str | None = None

    @property
    def label(self) -> str:
        return self.name or self.use


class SuiteLoad(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A background load: one worker for each CPU in `share` (0.5 means half of the CPUs), at least one.

    `use` is `stress-ng` (with a `stressor`; `method` is for the stressor `cpu`) or `spin`, a load of the agent.
    """

    use: Literal["stress-ng", "spin"] = "stress-ng"
    stressor: str = "cpu"
    method: str = "matrixprod"
    share: float = 0.5

    def workers(self, cpus: int) -> int:
        return max(1, int(cpus * self.share))

    def invocation(self, cpus: int) -> Invocation:
        """Return how to start the load, which runs until stopped and then reports its throughput."""
        workers = self.workers(cpus)
        if self.use == "spin":
            return Invocation(load=AgentLoad(name="spin", parameters={"threads": workers}), limit_s=LOAD_LIMIT_S)
        chosen = ("--cpu-method", self.method) if self.stressor == "cpu" else ()
        count = ("stress-ng", f"--{self.stressor}", str(workers))
        argv = (*count, *chosen, "--timeout", "0", "--metrics", "--yaml", LOAD_FILE)
        return Invocation(argv=argv, limit_s=LOAD_LIMIT_S, files=(LOAD_FILE,))


class Between(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The resets before each run, in this order."""

    sync: bool = False
    reset_swap: bool = False
    drop_caches: bool = False

    @property
    def needs_root(self) -> str | None:
        """The resets that need root, as text for the prompt; None if no reset needs root."""
        swap = "resetting swap" if self.reset_swap else ""
        caches = "dropping caches" if self.drop_caches else ""
        named = " and ".join(part for part in (swap, caches) if part)
        return f"{named} before each run" if named else None


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a suite file; `machine.gates.parse_gates` reads `gates`."""

    name: str
    summary: str
    benchmark: tuple[SuiteEntry, ...]
    load: SuiteLoad | None = None
    between: Between = Between()
    sample_period: str = "1s"
    gates: dict[str, Any] = {}

    @property
    def sample_period_s(self) -> float | None:
        """Seconds between two samples during a run; None without samples. Raise BadInput if the text is invalid."""
        return parse_sample_period(self.sample_period)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark of a suite with all its parameters."""

    label: str
    benchmark: Benchmark
    parameters: dict[str, Any]
    cpus: tuple[int, ...] | None = None


def parse_sample_period(text: str) -> float | None:
    """Parse `1s` or `500ms` to seconds, and `off` to None. Raise BadInput for other texts."""
    if text == OFF:
        return None
    try:
        period_s = parse_quantity(text, "seconds")
    except ValueError:
        period_s = 0.0
    if not SHORTEST_PERIOD_S <= period_s <= LONGEST_PERIOD_S:
        raise BadInput(f"expected a sample period, got {text!r}", hint=f'use 100ms to 60s, or "{OFF}"')
    return period_s


def orders(labels: Sequence[str], rounds: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """Return the order of the benchmarks in each round: random, but determined by the seed."""

    def rank(number: int, label: str) -> bytes:
        return hashlib.sha256(f"{seed}/{number}/{label}".encode()).digest()

    return tuple(tuple(sorted(labels, key=lambda label: rank(number, label))) for number in range(1, rounds + 1))
