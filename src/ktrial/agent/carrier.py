# SPDX-License-Identifier: Apache-2.0
"""Sessions with agents of a guest or of another machine, carried over one line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ktrial.agent.transport import PATIENCE_S, PipeTransport
from ktrial.kit.errors import AgentError

#: An emulated guest may take long to start an agent, and so may a connection that drops packets.
ANSWER_LIMIT_S = 60.0


class Ends(NamedTuple):
    """The head's ends of a session's two pipes, and the session's number at the other end."""

    to_agent: int
    from_agent: int
    session: int


class AgentCarrier(Protocol):
    """Something that accepts sessions: a guest of this command, a kept guest, or another machine."""

    def open(self, arguments: list[str], *, root: bool) -> Ends: ...

    def kill(self, session: int) -> None: ...

    def why_gone(self) -> str | None:
        """Return why the carrier is gone; None while it works."""

    def close(self) -> None: ...


class CarriedTransport(PipeTransport):
    """Two pipes to a session. `kill` kills the session, `why_gone` says why the carrier ended, `hint` what to do."""

    def __init__(
        self,
        to_agent: int,
        from_agent: int,
        kill: Callable[[], None],
        why_gone: Callable[[], str | None],
        *,
        hint: str = "run the command again; the guest's settings are lost",
        asker: str | None = None,
    ) -> None:
        super().__init__(to_agent, from_agent)
        self.asker = asker
        self._kill = kill
        self._why_gone = why_gone
        self._hint = hint

    def send(self, line: bytes) -> None:
        try:
            super().send(line)
        except OSError:
            self._raise_if_gone()
            raise

    def receive(self, limit_s: float | None = None) -> bytes:
        line = super().receive(None if limit_s is None else max(limit_s, ANSWER_LIMIT_S))
        if not line.endswith(b"\n"):
            self._raise_if_gone()
        return line

    def _raise_if_gone(self) -> None:
        gone = self._why_gone()
        if gone is not None:
            raise AgentError("lost", gone, hint=self._hint)

    def abandon(self) -> None:
        """End the session; kill it if it does not end in time."""
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
