# SPDX-License-Identifier: Apache-2.0
"""The head's clocks. Durations and orders come from the monotonic one; the other is for people."""

from __future__ import annotations

import time

from ktrial.host.interrupts import Interrupts


class SystemClock:
    """Implements `services.ports.Clock`; a Ctrl-C that `interrupts` notes ends a sleep."""

    def __init__(self, interrupts: Interrupts | None = None) -> None:
        self._interrupts = interrupts or Interrupts()

    def monotonic_ns(self) -> int:
        """Nanoseconds; never steps."""
        return time.monotonic_ns()

    def unix_ms(self) -> int:
        """Milliseconds since 1970; may step."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._interrupts.wait((), left)
