# SPDX-License-Identifier: Apache-2.0
"""An agent in a guest: its standard streams come over the guest's line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from ktrial.agent.transport import PATIENCE_S, PipeTransport
from ktrial.bench.guest_tools import Ends
from ktrial.kit.errors import AgentError

#: An emulated guest may take a while to start an agent.
GUEST_LIMIT_S = 60.0


class Guest(Protocol):
    """What sessions are opened in: a guest of this command's, or one that is kept."""

    def open(self, arguments: list[str], *, root: bool) -> Ends: ...

    def kill(self, session: int) -> None:
        """End a session the hard way."""

    def why_gone(self) -> str | None:
        """Return what became of the guest; None while it runs."""

    def close(self) -> None: ...


class GuestTransport(PipeTransport):
    """Two pipes to a session in a guest. `kill` ends it the hard way, `why_gone` says what became of its guest."""

    def __init__(
        self, to_agent: int, from_agent: int, kill: Callable[[], None], why_gone: Callable[[], str | None]
    ) -> None:
        super().__init__(to_agent, from_agent)
        self._kill = kill
        self._why_gone = why_gone

    def send(self, line: bytes) -> None:
        """Write one request line. Raises AgentError if the guest is gone."""
        try:
            super().send(line)
        except OSError:
            self._raise_where_gone()
            raise

    def receive(self, limit_s: float | None = None) -> bytes:
        """Read one reply line. Raises AgentError if the guest is gone."""
        line = super().receive(None if limit_s is None else max(limit_s, GUEST_LIMIT_S))
        if not line.endswith(b"\n"):
            self._raise_where_gone()
        return line

    def _raise_where_gone(self) -> None:
        gone = self._why_gone()
        if gone is not None:
            raise AgentError("lost", gone, hint="what was set in it is gone with it")

    def abandon(self) -> None:
        """End it, but not before what it runs."""
        self.finish()

    def finish(self) -> None:
        self._end_input()
        try:
            self._read_out(time.monotonic() + PATIENCE_S)
        except TimeoutError:
            self._kill()
        self._end_output()

    def _read_out(self, deadline: float) -> None:
        while self._chunk(deadline):
            pass
