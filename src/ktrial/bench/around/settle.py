# SPDX-License-Identifier: Apache-2.0
"""Waits until the machine is as warm and as busy as at the first run, up to a limit."""

from __future__ import annotations

from collections.abc import Callable

from ktrial.kit.units import show_seconds
from ktrial.machine.gates import Readings
from ktrial.machine.ports import Clock
from ktrial.machine.settle import Settled, settling

#: Seconds between two looks: each wakes the machine that is to come to rest.
LOOK_EACH_S = 5.0


class Settle:
    """Waits between runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def wait(
        self, reference: Readings, read: Callable[[], Readings], limit_s: float, tell: Callable[[str], None]
    ) -> Settled:
        """Wait for the level of `reference`, the readings before the first run; `tell` hears of the progress."""
        began_ns = self._clock.monotonic_ns()
        while True:
            found = settling(reference, read())
            waited_s = (self._clock.monotonic_ns() - began_ns) / 1e9
            left_s = limit_s - waited_s
            if found.settled or left_s <= 0:
                return Settled(waited_s=waited_s, left=found.waiting, untold=found.untold)
            tell(f"waiting for {'; '.join(found.waiting)} ({waited_s:.0f} s of at most {show_seconds(limit_s)})")
            self._clock.sleep(min(LOOK_EACH_S, left_s))
