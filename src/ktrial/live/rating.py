# SPDX-License-Identifier: Apache-2.0
"""Asks a person at the terminal how a period felt; the answer is a single key."""

from __future__ import annotations

import contextlib
import os
import termios
from collections.abc import Callable, Sequence
from typing import Any

from ktrial.live.period import BEST, WORST

_KEYS = {str(number).encode(): number for number in range(WORST, BEST + 1)}
#: Seconds after which a period without a rating stays without one.
PATIENCE_S = 60.0


class RatingKeys:
    """Reads ratings from a terminal. `wait` waits until a descriptor is readable, for a limited number of seconds."""

    def __init__(self, terminal: int, wait: Callable[[Sequence[int], float], bool], ring: Callable[[], None]) -> None:
        """Prepare the reading; `ring` alerts the person."""
        self._terminal = terminal
        self._wait = wait
        self._ring = ring
        self._before: list[Any] | None = None

    def begin(self) -> None:
        """Alert the person, and discard what was typed before."""
        self._before = termios.tcgetattr(self._terminal)
        keys = termios.tcgetattr(self._terminal)
        keys[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(self._terminal, termios.TCSAFLUSH, keys)
        self._ring()

    def look(self, seconds: float) -> int | None:
        """Return the rating that is typed within `seconds`; None if there is none."""
        if not self._wait([self._terminal], seconds):
            return None
        return _KEYS.get(os.read(self._terminal, 1))

    def end(self) -> None:
        """Restore the terminal's settings."""
        if self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)
            self._before = None
