# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import pytest

from ktrial.agent.clock import SystemClock
from ktrial.machine.watch_run import suspended_s


def test_this_machine_does_not_sleep_during_the_test() -> None:
    clock = SystemClock()
    before_s = clock.slept_s()
    time.sleep(0.05)
    assert suspended_s(before_s, clock.slept_s()) == 0.0


def test_a_suspend_moves_the_one_clock_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = {time.CLOCK_MONOTONIC: 5_000_000_000, time.CLOCK_BOOTTIME: 5_000_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", now_ns.__getitem__)
    clock = SystemClock()
    before_s = clock.slept_s()
    now_ns[time.CLOCK_MONOTONIC] += 1_000_000_000
    now_ns[time.CLOCK_BOOTTIME] += 31_000_000_000
    assert suspended_s(before_s, clock.slept_s()) == pytest.approx(30.0)


def test_the_look_that_was_interrupted_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    second_ns = 1_000_000_000
    interrupted = [0, 0, 4 * second_ns]
    looks = iter([*interrupted, second_ns, second_ns, second_ns, *interrupted])
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: next(looks))
    assert SystemClock().slept_s() == 0.0
