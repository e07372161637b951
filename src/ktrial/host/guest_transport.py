# SPDX-License-Identifier: Apache-2.0
"""An agent in a guest: its standard streams come over the guest's line."""

from __future__ import annotations

import time
from collections.abc import Callable

from ktrial.host.transport import PATIENCE_S, PipeTransport


class GuestTransport(PipeTransport):
    """Two pipes to a session in a guest; `kill` ends it the hard way."""

    def __init__(self, to_agent: int, from_agent: int, kill: Callable[[], None]) -> None:
        super().__init__(to_agent, from_agent)
        self._kill = kill

    def abandon(self) -> None:
        """End it, but not before what it runs."""
        self.finish()

    def finish(self) -> None:
        """Hang up; an agent that does not end in time is killed."""
        self._end_input()
        try:
            self._read_out(time.monotonic() + PATIENCE_S)
        except TimeoutError:
            self._kill()
        self._end_output()

    def _read_out(self, deadline: float) -> None:
        while self._chunk(deadline):
            pass
