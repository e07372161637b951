# SPDX-License-Identifier: Apache-2.0
"""Resets between runs, on a machine made of a dictionary."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.bench.around.around_run import Around
from ktrial.bench.around.resets import Resets
from ktrial.bench.events import Result
from ktrial.bench.measure import measure
from ktrial.bench.record import RunRecord
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Between, Task
from ktrial.machine.facts import Fact, FactBook
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeStore, answer
from tests.support.machine import FakeMachine, step_told, transaction_told

AREAS = [
    {"name": "/dev/zram0", "kind": "partition", "size_bytes": 4096, "used_bytes": 1000, "priority": 100},
    {"name": "/swapfile", "kind": "file", "size_bytes": 4096, "used_bytes": 20, "priority": -2},
    {"name": "/dev/sdb1", "kind": "partition", "size_bytes": 4096, "used_bytes": 0, "priority": -3},
]

SWAPON_FAILS = step_told(message="swapon: no")


def machine(areas: Any = AREAS, available: int = 1 << 30) -> FakeMachine:
    found = FakeMachine(
        {"/proc/meminfo": "MemTotal: 1 kB\nCached:   123456 kB\nSwapCached: 7 kB\n"},
        {"swap.devices": areas, "memory.available": available},
    )
    found.answers = {
        "apply": {"transaction": 4, "state": "applied", "steps": []},
        "revert": {"transactions": [{"transaction": 4, "state": "reverted", "steps": []}]},
        "drop_caches": {},
    }
    return found


def test_all_resets_in_their_order() -> None:
    root, executor = machine(), FakeExecutor()
    done = Resets(Between(sync=True, reset_swap=True, drop_caches=True), executor, root).carry_out()
    assert [(one.reset, one.ok, one.result) for one in done] == [
        ("sync", True, "files were written back"),
        ("swap", True, "1020 B came back from /swapfile, /dev/zram0"),
        ("caches", True, "page cache 123456 kB, then 123456 kB"),
    ]
    assert executor.log == ["sync"]
    assert [do for do, _ in root.requests] == ["apply", "revert", "drop_caches"]


def test_swap_comes_back_with_its_ranks_in_a_transaction_that_ends_with_the_session() -> None:
    root = machine()
    Resets(Between(reset_swap=True), FakeExecutor(), root).carry_out()
    (_, applied), (_, reverted) = root.requests
    assert applied["plan"]["lease"] == {"kind": "while-session"}
    assert [(step["do"], step["undo"]) for step in applied["plan"]["steps"]] == [
        (["swapoff", "/swapfile"], ["swapon", "/swapfile"]),
        (["swapoff", "/dev/zram0"], ["swapon", "-p", "100", "/dev/zram0"]),
    ]
    assert reverted == {"select": {"only": 4}}


def test_nothing_swapped_out_is_nothing_to_do() -> None:
    root = machine(areas=AREAS[2:])
    (done,) = Resets(Between(reset_swap=True), FakeExecutor(), root).carry_out()
    assert (done.ok, done.result, root.requests) == (True, "nothing was swapped out", [])


@pytest.mark.parametrize(
    "root, answers, why",
    [
        (machine(available=1000), {}, "1020 B are swapped out, too much for the 1000 B of available memory"),
        (machine(areas=Fact(unknown="no table")), {}, "the swap areas are unknown (no table)"),
        (
            machine(),
            {"apply": {"transaction": 4, "state": "rolled-back", "steps": [step_told(message="swapoff: no memory")]}},
            "swapoff: no memory",
        ),
        (
            machine(),
            {
                "revert": {
                    "transactions": [transaction_told(state="unfinished", steps=[step_told(message="swapon: no")])]
                }
            },
            "cannot be turned on (swapon: no); next: run `ktrial recover`",
        ),
    ],
)
def test_a_swap_that_cannot_be_reset(root: FakeMachine, answers: dict[str, Any], why: str) -> None:
    root.answers |= answers
    done = Resets(Between(reset_swap=True, drop_caches=True), FakeExecutor(), root).carry_out()
    assert [one.reset for one in done] == ["swap"]
    assert not done[0].ok
    assert why in done[0].result


def bench(between: Between, executor: FakeExecutor, root: FakeMachine) -> tuple[Result, tuple[RunRecord, ...]]:
    task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 10})
    order = Order(suite="own", tasks=(task,), rounds=2, seed=7)
    clock = FakeClock()
    around = Around(FakeMachine({}), clock, Resets(between, executor, root))
    return measure(order, executor, FakeStore(), clock, FactBook({}), lambda event: None, around)


def test_every_run_is_prepared_and_says_how() -> None:
    executor = FakeExecutor()
    _, records = bench(Between(sync=True, drop_caches=True), executor, machine())
    assert executor.log == ["sync", "tool a 10"] * 2
    assert [[one.reset for one in record.prepared] for record in records] == [["sync", "caches"]] * 2


def test_a_run_whose_reset_failed_is_not_begun_and_fails() -> None:
    executor = FakeExecutor(
        lambda argv: answer(exit_status=1, stderr=b"sync: error\n") if argv[0] == "sync" else answer()
    )
    result, records = bench(Between(sync=True), executor, machine())
    assert executor.log == ["sync", "sync"]
    assert [record.failure for record in records] == [
        "cannot write files back: ended with status 1; it said: sync: error"
    ] * 2
    assert not records[0].prepared[0].ok
    assert result.complete == 0


def test_an_interrupted_reset_ends_it_without_a_run() -> None:
    executor = FakeExecutor(lambda argv: answer(interrupted=True))
    result, records = bench(Between(sync=True), executor, machine())
    assert (result.interrupted, records) == (True, ())


def test_what_needs_root_says_what_for() -> None:
    assert Between(sync=True).needs_root is None
    assert Between(reset_swap=True, drop_caches=True).needs_root == "resetting swap and dropping caches before each run"
