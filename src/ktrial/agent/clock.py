# SPDX-License-Identifier: Apache-2.0
"""The head's clocks. Durations and orders come from the monotonic one; the other is for people."""

from __future__ import annotations

import time

from ktrial.agent.interrupts import Interrupts

#: Looks of which the one that was interrupted least counts.
_LOOKS = 3


class SystemClock:
    """Implements `machine.ports.Clock`; a Ctrl-C that `interrupts` notes ends a sleep."""

    def __init__(self, interrupts: Interrupts | None = None) -> None:
        self._interrupts = interrupts or Interrupts()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def slept_s(self) -> float:
        """Seconds that the machine was suspended since it was started; `machine.suspend` compares two of them."""
        return min(_offset_ns() for _ in range(_LOOKS))[1] / 1e9

    def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._interrupts.wait((), left)


def _offset_ns() -> tuple[int, int]:
    """Return how long a look took, and by how much the clock that counts suspends is ahead of the one that does not."""
    before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return after_ns - before_ns, boot_ns - (before_ns + after_ns) // 2
