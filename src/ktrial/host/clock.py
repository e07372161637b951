# SPDX-License-Identifier: Apache-2.0
"""The head's clocks. Durations and orders come from the monotonic one; the other is for people."""

from __future__ import annotations

import time


class SystemClock:
    """Implements `services.ports.Clock`."""

    def monotonic_ns(self) -> int:
        """Nanoseconds; never steps."""
        return time.monotonic_ns()

    def unix_ms(self) -> int:
        """Milliseconds since 1970; may step."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
