# SPDX-License-Identifier: Apache-2.0
"""On which CPUs benchmarks run, when some are asked for, and with how many jobs."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import pinned
from ktrial.bench.suite import Suite, SuiteEntry
from ktrial.bench.suites import tasks_of
from ktrial.kit.errors import BadInput
from ktrial.machine.facts import Fact, FactBook

FACTS = FactBook(
    {
        "cpu.online": Fact(value=list(range(8))),
        "cpu.threads": Fact(value=8),
        "cpu.performance_cores": Fact(value=[0, 1, 2, 3]),
        "cpu.efficiency_cores": Fact(value=[4, 5, 6, 7]),
    }
)


def placed(name: str, cpus: str | None, **parameters: Any) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """The CPUs of a run, and its argv."""
    suite = Suite("own", "", (SuiteEntry(name, parameters=parameters),))
    (task,) = tasks_of(suite, all_benchmarks(), FACTS, cpus)
    invocation = pinned(task.benchmark.invocation(task.parameters, FACTS), task.cpus)
    assert all(step.cpus == task.cpus for step in invocation.steps)
    return invocation.cpus, invocation.argv


def test_both_ends_of_a_pipe_stay_on_one_cpu_of_those_chosen() -> None:
    assert placed("perf-pipe-same-cpu", None)[0] == (0,)
    assert placed("perf-pipe-same-cpu", "0-3")[0] == (0,)
    assert placed("perf-pipe-same-cpu", "little")[0] == (4,)
    assert placed("perf-pipe-same-cpu", "little", cpu=6)[0] == (6,)


def test_the_ends_of_a_pipe_stay_on_two_cpus_of_those_chosen() -> None:
    for cpus, wanted in ((None, (0, 1)), ("big", (0, 1)), ("little", (4, 5)), ("3,6", (3, 6))):
        found, argv = placed("perf-pipe-cross-cpu", cpus)
        assert found == wanted
        assert argv[-3:-1] == tuple(map(str, wanted))
    found, argv = placed("perf-pipe-cross-cpu", "little", cpu=7)
    assert (found, argv[-3:-1]) == ((4, 7), ("7", "4"))


def test_what_cannot_be_placed_is_refused() -> None:
    with pytest.raises(BadInput, match="perf-pipe-cross-cpu: needs 2 CPUs, but cpus '5' names 1"):
        placed("perf-pipe-cross-cpu", "5")
    with pytest.raises(BadInput, match="agent-contextswitch-cross: needs 2 CPUs, but cpus '5' names 1"):
        placed("agent-contextswitch-cross", "5")
    assert placed("agent-contextswitch-same", "5")[0] == (5,)
    assert placed("agent-contextswitch-cross", "5,6")[0] == (5, 6)
    with pytest.raises(BadInput, match="its parameters name CPU 1, which is not among cpus 'little'"):
        placed("perf-pipe-same-cpu", "little", cpu=1)


def test_of_a_suite_only_what_cannot_be_placed_is_left_out() -> None:
    suite = Suite("own", "", (SuiteEntry("hackbench-pipe-thread"), SuiteEntry("perf-pipe-cross-cpu")))
    unplaced: dict[str, BadInput] = {}
    (task,) = tasks_of(suite, all_benchmarks(), FACTS, "5", unplaced)
    assert (task.label, task.cpus) == ("hackbench-pipe-thread", (5,))
    assert {label: error.message for label, error in unplaced.items()} == {
        "perf-pipe-cross-cpu": "needs 2 CPUs, but cpus '5' names 1"
    }
    alone = Suite("own", "", (SuiteEntry("perf-pipe-cross-cpu"),))
    with pytest.raises(BadInput, match="perf-pipe-cross-cpu: needs 2 CPUs"):
        tasks_of(alone, all_benchmarks(), FACTS, "5", {})


def test_a_machine_with_one_cpu_leaves_out_what_needs_two() -> None:
    suite = Suite("own", "", (SuiteEntry("agent-contextswitch-same"), SuiteEntry("agent-contextswitch-cross")))
    unplaced: dict[str, BadInput] = {}
    (task,) = tasks_of(suite, all_benchmarks(), FactBook({"cpu.online": Fact(value=[0])}), None, unplaced)
    assert (task.label, task.cpus) == ("agent-contextswitch-same", None)
    assert str(unplaced["agent-contextswitch-cross"].message) == "needs 2 CPUs, but only 1 is online"


@pytest.mark.parametrize("name", ["kernel-compile", "kernel-compile-llvm"])
def test_a_build_has_as_many_jobs_as_cpus_that_it_may_use(name: str) -> None:
    found = {cpus: placed(name, cpus, tree="/usr/src/linux", target="vmlinux") for cpus in (None, "little", "5")}
    assert [argv[-2] for _, argv in found.values()] == ["-j8", "-j4", "-j1"]
    assert placed(name, "little", tree="/usr/src/linux", target="vmlinux", jobs=3)[1][-2] == "-j3"


def test_others_run_on_all_that_were_chosen_and_so_do_their_servers() -> None:
    assert placed("wrk-nginx", "little")[0] == (4, 5, 6, 7)
    assert placed("hackbench-pipe-thread", "little")[0] == (4, 5, 6, 7)
    assert placed("hackbench-pipe-thread", None)[0] is None
