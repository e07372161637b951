# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ktrial.domain.facts import FactBook
from ktrial.domain.run import RunRecord
from ktrial.domain.suite import Task
from ktrial.host.clock import SystemClock
from ktrial.host.interrupts import Interrupts
from ktrial.host.runs import RunStore
from ktrial.services.measure import Order, measure
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_press_is_noted_and_raised_once_where_it_is_asked_for() -> None:
    with Interrupts() as interrupts:
        interrupts.check()
        press()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_it_ends_a_sleep() -> None:
    with Interrupts() as interrupts:
        press()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            SystemClock(interrupts).sleep(30)
        assert time.monotonic() - began < 10
        SystemClock(interrupts).sleep(0.01)


def test_an_answer_goes_before_a_press() -> None:
    read, write = os.pipe()
    os.write(write, b"x")
    with Interrupts() as interrupts:
        press()
        assert interrupts.wait([read])
        os.read(read, 1)
        with pytest.raises(KeyboardInterrupt):
            interrupts.wait([read])
    os.close(read)
    os.close(write)


def test_the_third_press_breaks_in() -> None:
    with Interrupts():
        press()
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_what_the_caller_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            press()
            interrupts.check()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_press_while_a_record_is_written_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = Interrupts()
    sync = os.fsync

    def pressing_sync(descriptor: int) -> None:
        if not pressed:
            pressed.append(True)
            press()
        sync(descriptor)

    class Executor(FakeExecutor):
        def run(self, *arguments: Any, **more: Any) -> Any:
            interrupts.check()
            return super().run(*arguments, **more)

    pressed: list[bool] = []
    store = RunStore(tmp_path / "runs")
    saved: list[str] = []
    keep = store.save

    def save(record: RunRecord, parts: Any) -> str:
        monkeypatch.setattr(os, "fsync", pressing_sync)
        saved.append(keep(record, parts))
        return saved[-1]

    monkeypatch.setattr(store, "save", save)
    order = Order(
        suite="own",
        tasks=(Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 1}),),
        rounds=5,
        seed=1,
    )
    with interrupts:
        result, records = measure(order, Executor(), store, FakeClock(), FactBook({}), lambda event: None)
    assert result.interrupted
    assert [Path(path).exists() for path in saved] == [True]
    assert [record.ok for record in records] == [True]
    assert result.summaries[0].n == 1
