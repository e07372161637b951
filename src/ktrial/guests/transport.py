# SPDX-License-Identifier: Apache-2.0
"""The connection to an agent in a guest, over the guest's line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from ktrial.agent.transport import PATIENCE_S, PipeTransport
from ktrial.bench.guest_tools import Ends
from ktrial.kit.errors import AgentError

#: An emulated guest may take long to start an agent.
GUEST_LIMIT_S = 60.0


class Guest(Protocol):
    """A guest that accepts sessions: this command's own, or a kept one."""

    def open(self, arguments: list[str], *, root: bool) -> Ends: ...

    def kill(self, session: int) -> None: ...

    def why_gone(self) -> str | None:
        """Return why the guest is gone; None while it runs."""

    def close(self) -> None: ...


class GuestTransport(PipeTransport):
    """Two pipes to a session in a guest. `kill` kills the session, `why_gone` explains the guest's end."""

    def __init__(
        self, to_agent: int, from_agent: int, kill: Callable[[], None], why_gone: Callable[[], str | None]
    ) -> None:
        super().__init__(to_agent, from_agent)
        self._kill = kill
        self._why_gone = why_gone

    def send(self, line: bytes) -> None:
        try:
            super().send(line)
        except OSError:
            self._raise_where_gone()
            raise

    def receive(self, limit_s: float | None = None) -> bytes:
        line = super().receive(None if limit_s is None else max(limit_s, GUEST_LIMIT_S))
        if not line.endswith(b"\n"):
            self._raise_where_gone()
        return line

    def _raise_where_gone(self) -> None:
        gone = self._why_gone()
        if gone is not None:
            raise AgentError("lost", gone, hint="run the command again; the guest's settings are lost")

    def abandon(self) -> None:
        """End the session once it has finished what it runs."""
        self.finish()

    def finish(self) -> None:
        self._end_input()
        try:
            deadline = time.monotonic() + PATIENCE_S
            while self._chunk(deadline):
                pass
        except TimeoutError:
            self._kill()
        self._end_output()
