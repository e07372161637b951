# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import time

import pytest

from ktrial.agent.clock import SystemClock
from ktrial.agent.interrupts import Interrupts


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_asks_for_the_end_is_told_by_its_number(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt) as caught:
            interrupts.check()
    assert (caught.value.args, interrupts.number) == ((number,), number)
    assert signal.getsignal(number) is before


def test_under_nohup_a_hangup_is_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            interrupts.check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_block_within_its_block_changes_nothing() -> None:
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    with interrupts:
        with interrupts:
            pass
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    assert signal.getsignal(signal.SIGINT) is before


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


def test_whoever_watches_looks_about_once_a_second_and_may_end_a_wait() -> None:
    interrupts = Interrupts()
    seen: list[float] = []

    def look() -> None:
        seen.append(time.monotonic())
        if len(seen) == 2:
            raise ValueError("enough")

    interrupts.watch = look
    read, write = os.pipe()
    try:
        assert not interrupts.wait([read], 0.01)
        assert not interrupts.wait([read], 0.01), "it looked a moment ago"
        assert len(seen) == 1
        os.write(write, b"x")
        assert interrupts.wait([read], 5), "an answer goes first"
        os.read(read, 1)
        with pytest.raises(ValueError, match="enough"):
            interrupts.wait([read])
        assert seen[1] - seen[0] >= 1
    finally:
        os.close(read)
        os.close(write)
