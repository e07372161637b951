# SPDX-License-Identifier: Apache-2.0
"""From the words of a command line to what is to be measured."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.domain.benchmark import Benchmark
from ktrial.domain.errors import UnknownName
from ktrial.domain.facts import FactBook
from ktrial.domain.suite import Suite, SuiteEntry, Task, parse_cpus


def find_suite(name: str, suites: Mapping[str, Suite], benchmarks: Mapping[str, Benchmark]) -> Suite:
    """The suite of that name, or one made of the single benchmark of that name."""
    if name in suites:
        return suites[name]
    if name in benchmarks:
        return Suite(name=name, summary=benchmarks[name].what, benchmark=(SuiteEntry(name),))
    raise UnknownName("suite or benchmark", name, [*suites, *benchmarks], hint="`ktrial bench --list` lists them")


def tasks_of(suite: Suite, benchmarks: Mapping[str, Benchmark], facts: FactBook, cpus: str | None) -> tuple[Task, ...]:
    """The suite's benchmarks with all their parameters; `cpus` pins all of them, else each as the suite says."""
    kinds = {"little": facts.value("cpu.efficiency_cores"), "big": facts.value("cpu.performance_cores")}
    tasks = []
    for entry in suite.benchmark:
        benchmark = benchmarks[entry.use]
        pinned = cpus if cpus is not None else entry.cpus
        tasks.append(
            Task(
                label=entry.label,
                benchmark=benchmark,
                parameters={**benchmark.parameters, **entry.parameters},
                cpus=parse_cpus(pinned, kinds) if pinned is not None else None,
            )
        )
    return tuple(tasks)
