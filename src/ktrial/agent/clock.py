# SPDX-License-Identifier: Apache-2.0
"""The head's clocks: the monotonic one for durations and orders, the wall clock for people only."""

from __future__ import annotations

import time

from ktrial.agent.interrupts import Interrupts

#: ktrial uses the fastest of this many attempts, because an interrupted attempt is inaccurate.
_LOOKS = 3


class SystemClock:
    """The clock of this machine; implements `machine.ports.Clock`.

    Ctrl-C ends a sleep while `interrupts` records signals.
    """

    def __init__(self, interrupts: Interrupts | None = None) -> None:
        self._interrupts = interrupts or Interrupts()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def unix_ms(self) -> int:
        return unix_ms()

    def slept_s(self) -> float:
        """Return how long the machine has been suspended since boot; `machine.watch_run` compares two values."""
        return min(_offset_ns() for _ in range(_LOOKS))[1] / 1e9

    def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._interrupts.wait((), left)


def unix_ms() -> int:
    """Return the time of day, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _offset_ns() -> tuple[int, int]:
    """Return how long the reading took, and by how much the boot clock, which counts suspends, is ahead."""
    before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return after_ns - before_ns, boot_ns - (before_ns + after_ns) // 2
