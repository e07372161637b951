# SPDX-License-Identifier: Apache-2.0
"""Whole measurements into a real store of either kind, with an executor made of memory."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from ktrial.domain.facts import Fact, FactBook
from ktrial.domain.run import RunRecord
from ktrial.domain.stored import StoredRun
from ktrial.domain.suite import Task
from ktrial.host.interrupts import Interrupts
from ktrial.services.events import Result
from ktrial.services.measure import measure
from ktrial.services.schedule import Order
from ktrial.store.recorder import Recorder
from ktrial.store.runs import Store
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


def test_what_another_process_still_measures_is_not_gone_on_with(store: Store) -> None:
    executor = FakeExecutor(lambda argv: answer(interrupted=len(executor.log) == 3))
    _, records = run(store, executor)
    store.start(records[0].session.session, 4, "a", 5)  # this process lives
    _, others = run(store, FakeExecutor())
    assert others[0].session.session != records[0].session.session
    assert [one.state for one in store.runs(records[0].session.session)][-1] == "running"


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
