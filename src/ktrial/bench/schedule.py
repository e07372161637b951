# SPDX-License-Identifier: Apache-2.0
"""The order of a measurement's runs, and how ktrial recognises an interrupted measurement."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from ktrial.bench.benchmark import Invocation
from ktrial.bench.command_benchmark import OwnBenchmark
from ktrial.bench.environment import that_counts
from ktrial.bench.record import RunRecord
from ktrial.bench.suite import SuiteLoad, Task, orders
from ktrial.kit.errors import BadInput
from ktrial.machine.facts import FactBook
from ktrial.machine.gates import GateLimits


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure. Each round has each task once.

    With `drawn`, the seed is random; a continued measurement keeps the seed with which it began. With `fresh`, do
    not continue an earlier measurement. `gates` are limits for judging runs; other gates have their defaults.
    `sample_period_s` is the time between two samples during a run; None means no samples. `unplaced` are benchmarks
    that cannot run on the chosen CPUs, with the error of each. All runs get `environment` besides their own variables.
    """

    suite: str
    tasks: tuple[Task, ...]
    rounds: int
    seed: int
    drawn: bool = False
    fresh: bool = False
    label: str | None = None
    load: SuiteLoad | None = None
    gates: Mapping[str, GateLimits] = {}
    sample_period_s: float | None = None
    unplaced: Mapping[str, BadInput] = {}
    environment: Mapping[str, str] = {}

    @property
    def wanted(self) -> int:
        return len(self.tasks) + len(self.unplaced)


class RunPlace(NamedTuple):
    """A run in the schedule: the `label` of its benchmark, its round, and its position in that round."""

    label: str
    round: int
    position: int


def plan_of(order: Order, facts: FactBook, agent_version: str, tools: Mapping[str, object]) -> str:
    """Return a hash of runs, tools and boot. ktrial continues an earlier measurement only if its hash is the same."""
    plan = {
        "suite": order.suite,
        "tasks": [[task.label, task.benchmark.name, task.parameters, task.cpus] for task in order.tasks],
        "own": [
            msgspec.structs.replace(one, environment=that_counts(one.environment))
            for one in (task.benchmark for task in order.tasks)
            if isinstance(one, OwnBenchmark)
        ],
        "rounds": order.rounds,
        "seed": None if order.drawn else order.seed,
        "label": order.label,
        "load": order.load,
        "gates": order.gates,
        "sample_period_s": order.sample_period_s,
        "boot": facts.value("boot.id"),
        "agent": agent_version,
        "tools": tools,
        "environment": order.environment,
    }
    return hashlib.sha256(msgspec.json.encode(plan, order="sorted")).hexdigest()


def places(invocations: Mapping[str, Invocation], rounds: int, seed: int) -> tuple[RunPlace, ...]:
    """Return the schedule of all runs, in order; warm-ups come first, as round 0.

    A benchmark that can run only once per boot is in round 1 alone.
    """
    warm_ups = [label for label, one in invocations.items() for _ in range(one.warm_ups)]
    once = {label for label, one in invocations.items() if one.once_per_boot}
    return tuple(
        RunPlace(label, number, position)
        for number, labels in enumerate([tuple(warm_ups), *orders(list(invocations), rounds, seed)])
        for position, label in enumerate([label for label in labels if number < 2 or label not in once], 1)
    )


def places_done(records: Iterable[RunRecord]) -> frozenset[RunPlace]:
    """Return the runs of the schedule that are complete. Interrupted runs and runs to repeat do not count."""
    return frozenset(
        RunPlace(record.benchmark, record.round, record.position)
        for record in records
        if not record.exit.interrupted and not record.repeated
    )
