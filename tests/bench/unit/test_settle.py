# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.bench.around.start_gate import LOOK_EACH_S, Settle
from ktrial.machine.gates import Readings


class Clock:
    """Time passes in sleeps only."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_ns(self) -> int:
        return round(self.now_s * 1e9)

    def unix_ms(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Cooling:
    """A machine that loses a degree each second."""

    def __init__(self, clock: Clock, start_c: float) -> None:
        self._clock = clock
        self._start_c = start_c
        self.looks = 0

    def read(self) -> Readings:
        self.looks += 1
        return {"temperature_c": self._start_c - (self._clock.now_s - 100.0), "load": 0.0}


REFERENCE: Readings = {"temperature_c": 45.0, "load": 0.0}


def test_it_waits_until_the_machine_is_cool_and_tells_so() -> None:
    clock, told = Clock(), list[str]()
    machine = Cooling(clock, 60.0)
    ended = Settle(clock).wait(REFERENCE, machine.read, 60.0, told.append)
    assert (ended.waited_s, ended.reached, ended.left, ended.untold) == (15.0, True, (), ())
    assert machine.looks == 4
    assert told[0] == "waiting for temperature 60.0 °C, wanted 46.0 °C (0 s of at most 60 s)"
    assert len(told) == 3


def test_a_cool_machine_is_looked_at_once() -> None:
    clock, told = Clock(), list[str]()
    machine = Cooling(clock, 45.0)
    assert Settle(clock).wait(REFERENCE, machine.read, 60.0, told.append).waited_s == 0.0
    assert (machine.looks, told) == (1, [])


def test_it_gives_up_at_the_limit_and_says_what_was_left() -> None:
    clock = Clock()
    ended = Settle(clock).wait(REFERENCE, Cooling(clock, 60.0).read, 7.0, lambda _: None)
    assert (ended.reached, ended.waited_s) == (False, 7.0)
    assert ended.left == ("temperature 53.0 °C, wanted 46.0 °C",)
    assert LOOK_EACH_S < 7.0 < 2 * LOOK_EACH_S


def test_what_cannot_be_read_does_not_hang_it() -> None:
    ended = Settle(Clock()).wait(REFERENCE, lambda: {"load": 0.0}, 60.0, lambda _: None)
    assert (ended.reached, ended.waited_s, ended.untold) == (True, 0.0, ("temperature now is unknown",))


def test_a_ctrl_c_ends_it() -> None:
    class Interrupted(Clock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    clock = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        Settle(clock).wait(REFERENCE, Cooling(clock, 60.0).read, 60.0, lambda _: None)
