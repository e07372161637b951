# SPDX-License-Identifier: Apache-2.0
"""Whole measurements into a real store of either kind, with an executor made of memory."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from ktrial.agent.interrupts import Interrupts
from ktrial.bench.events import Result
from ktrial.bench.measure import measure
from ktrial.bench.record import RunRecord
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Task
from ktrial.machine.facts import Fact, FactBook
from ktrial.results.model import StoredRun
from ktrial.results.store.recorder import Recorder
from ktrial.results.store.runs import Store
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, answer

FACTS = FactBook({"boot.id": Fact(value="boot"), "kernel.release": Fact(value="6.18"), "cpu.threads": Fact(value=2)})


def run(store: Store, executor: FakeExecutor, **fields: Any) -> tuple[Result, tuple[RunRecord, ...]]:
    tasks = tuple(Task(label=name, benchmark=FakeBenchmark(name=name), parameters={"loops": 10}) for name in "ab")
    order = Order(**{"suite": "own", "tasks": tasks, "rounds": 2, "seed": 7, "drawn": True, **fields})
    recorder = Recorder(lambda: store, FakeClock(1_700_000_000).unix_ms)
    return measure(order, executor, recorder, FakeClock(), FACTS, lambda event: None)


def test_records_come_back_as_they_were(store: Store) -> None:
    result, records = run(store, FakeExecutor(), label="stock")
    assert result.complete == 2
    (session,) = store.sessions()
    assert (session.suite, session.label, session.origin, session.runs) == ("own", "stock", "bench", {"ok": 4})
    documents = [{**(one.document or {}), "session": session.document} for one in store.runs(session.session)]
    assert tuple(msgspec.convert(document, RunRecord) for document in documents) == records
    (first, *_) = store.runs(session.session)
    assert store.raw(first.raw["stdout"]) == b"time 1.5"
    assert {(one.benchmark, one.n, one.mean) for one in store.grouped()} == {("a", 2, 1.5), ("b", 2, 1.5)}


def test_a_failed_run_is_kept_with_its_reason(store: Store) -> None:
    _, records = run(store, FakeExecutor(lambda argv: answer(exit_status=3, stderr=b"broken")))
    found = list(store.runs(records[0].session.session))
    assert {one.state for one in found} == {"failed"}
    assert found[0].document is not None
    assert found[0].document["failure"] == "ended with status 3; it said: broken"
    assert store.grouped() == ()


def test_a_run_that_stays_void_is_kept_as_void(store: Store) -> None:
    _, (first, *_) = run(store, FakeExecutor())
    recorder = Recorder(lambda: store, FakeClock().unix_ms)
    void = msgspec.structs.replace(first, run=9, measurements=(), failure="void: it slept", void=("it slept",))
    recorder.start(first.session.session, 9, "a", warm_up=False)
    recorder.save(void, {})
    (kept,) = (one for one in store.runs(first.session.session) if one.number == 9)
    assert (kept.state, kept.document and kept.document["void"]) == ("void", ["it slept"])


def test_an_interrupted_measurement_is_gone_on_with(store: Store) -> None:
    executor = FakeExecutor(lambda argv: answer(interrupted=len(executor.log) == 3))
    result, records = run(store, executor)
    assert (result.interrupted, len(records)) == (True, 3)
    result, records = run(store, FakeExecutor(), seed=1234)
    assert result.complete == 2
    (session,) = store.sessions()
    assert session.runs == {"ok": 4, "interrupted": 1}
    assert [one.number for one in store.runs(session.session)] == [1, 2, 3, 4, 5]
    run(store, FakeExecutor())
    assert len(store.sessions()) == 2


def test_a_run_whose_writer_was_killed_is_made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = FakeExecutor(lambda argv: answer(interrupted=len(executor.log) == 3))
    _, records = run(store, executor)
    with monkeypatch.context() as dead:
        dead.setattr(store, "_writer", f"{socket.gethostname()} another-boot 1 1")
        store.start(records[0].session.session, 4, "a", 5)
    result, _ = run(store, FakeExecutor())
    assert result.complete == 2
    states = [one.state for one in store.runs(records[0].session.session)]
    assert states == ["ok", "ok", "interrupted", "interrupted", "ok", "ok"]


@contextmanager
def another_writer() -> Iterator[str]:
    """The name of a process that lives until the end of the block."""
    program = (
        "import sys; from ktrial.results.store.runs import this_writer;"
        "print(this_writer(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()


def test_what_another_process_still_measures_is_not_gone_on_with(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = FakeExecutor(lambda argv: answer(interrupted=len(executor.log) == 3))
    with another_writer() as other, monkeypatch.context() as living:
        living.setattr(store, "_writer", other)
        _, (first, *_) = run(store, executor)
        living.undo()
        assert {one.state for one in store.runs(first.session.session)} == {"ok", "interrupted"}
        _, (apart, *_) = run(store, FakeExecutor())
        assert apart.session.session != first.session.session


def test_what_a_process_that_has_ended_measured_is_gone_on_with(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = FakeExecutor(lambda argv: answer(interrupted=len(executor.log) == 3))
    with another_writer() as other, monkeypatch.context() as living:
        living.setattr(store, "_writer", other)
        _, (first, *_) = run(store, executor)
    _, (second, *_) = run(store, FakeExecutor())
    assert second.session.session == first.session.session


def test_one_of_two_processes_takes_up_what_a_third_left(store: Store, url: str) -> None:
    executor = FakeExecutor(lambda argv: answer(interrupted=len(executor.log) == 3))
    run(store, executor)
    (session,) = store.sessions()
    program = (
        "import sys; from ktrial.results.store.database import Database; from ktrial.results.store.runs import Store\n"
        "store = Store(Database.open(sys.argv[1])); print('ready', flush=True); sys.stdin.readline()\n"
        "print(store.take_up('p'), flush=True); sys.stdin.readline()"
    )
    with store._database.writing() as connection:
        connection.execute(sa.text("UPDATE sessions SET writer = NULL, plan = 'p'"))
    both = [
        subprocess.Popen([sys.executable, "-c", program, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    pipes = [(one.stdin, one.stdout) for one in both]
    took = []
    for _, said in pipes:
        assert said is not None
        assert said.readline() == "ready\n"
    for order, _ in pipes:
        assert order is not None
        order.write("\n")
        order.flush()
    for _, said in pipes:
        assert said is not None
        took.append(said.readline().strip())
    for one in both:
        one.communicate("\n")
    assert sorted(took) == sorted([session.session, "None"])


def test_a_measurement_that_was_killed_twice_before_a_run_is_gone_on_with(store: Store) -> None:
    executor = FakeExecutor(lambda argv: answer(interrupted=len(executor.log) == 3))
    _, (first, *_) = run(store, executor)
    recorder = Recorder(lambda: store, FakeClock().unix_ms)
    recorder.keep_state(first.session.session, "begin-4", b"as a killed process left it")
    recorder.keep_state(first.session.session, "begin-4", b"as it is now")
    assert store.raw(store.states(first.session.session)["begin-4"]) == b"as it is now"


def test_a_press_while_a_record_is_written_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = Interrupts()
    pressed: list[bool] = []
    keep = Store.save

    def pressing(self: Store, run_: StoredRun, raw: Mapping[str, bytes]) -> None:
        if not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        keep(self, run_, raw)

    class Executor(FakeExecutor):
        def run(self, *arguments: Any, **more: Any) -> Any:
            interrupts.check()
            return super().run(*arguments, **more)

    monkeypatch.setattr(Store, "save", pressing)
    with interrupts:
        result, records = run(store, Executor())
    assert result.interrupted
    assert [record.ok for record in records] == [True]
    assert result.summaries[0].n == 1
    assert [one.state for one in store.runs(result.session.session)] == ["ok", "interrupted"]
