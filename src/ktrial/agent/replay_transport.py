# SPDX-License-Identifier: Apache-2.0
"""An agent in an exact guest: each answer comes from booting the guest again and replaying all requests so far."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import msgspec

from ktrial.agent.interrupts import Interrupts


class Conversation(Protocol):
    """The sessions of a guest that is booted again for each answer."""

    def write(self, session: int, data: bytes) -> None: ...

    def hang_up(self, session: int) -> None:
        """End the input of the session's agent."""

    def let_end(self, session: int) -> None:
        """Let the agent end before the next message is sent."""

    def answer(self, session: int) -> bytes:
        """Return the next line that the agent writes."""

    def rest(self, session: int) -> list[bytes]:
        """Return all lines that the agent writes until the request ends."""


class _Asked(msgspec.Struct):
    do: str


#: Requests that send progress until they end by themselves: once begun, all their lines are fetched at once.
_GO_ON = frozenset({"watch"})


class ReplayedTransport:
    """The transport of an exact guest's session; implements `Detached`.

    Nothing runs between two answers: no program needs to be awaited or killed.
    """

    asker: str | None = None

    def __init__(self, talk: Conversation, session: int) -> None:
        self._talk = talk
        self._session = session
        self._answers: deque[bytes] = deque()
        #: Whether the current request sends progress, and whether its first line has been fetched.
        self._goes_on = self._has_begun = False
        self._hung_up = False
        self._closed = False

    def send(self, line: bytes) -> None:
        if self._hung_up:
            raise BrokenPipeError("the session is closed")
        self._goes_on, self._has_begun = msgspec.json.decode(line, type=_Asked).do in _GO_ON, False
        self._talk.write(self._session, line)

    def receive(self, limit_s: float | None = None) -> bytes:
        """Return one reply line; `limit_s` is ignored, because the guest's time is not this machine's."""
        del limit_s
        self._fetch()
        return self._answers.popleft()

    def wait(self, interrupts: Interrupts) -> None:
        """Fetch the answer; raise KeyboardInterrupt if the user pressed Ctrl-C meanwhile."""
        self._fetch()
        interrupts.check()

    def _fetch(self) -> None:
        """Get the next answer by booting the guest, unless an answer is waiting already."""
        if self._answers:
            return
        if self._has_begun:
            self._answers.extend(self._talk.rest(self._session))
        else:
            self._answers.append(self._talk.answer(self._session))
            self._has_begun = self._goes_on

    def hang_up(self) -> None:
        if not self._hung_up:
            self._hung_up = True
            self._talk.hang_up(self._session)

    def close(self) -> int | None:
        """End the agent's input; the agent ends before the next message is sent."""
        self.hang_up()
        if not self._closed:
            self._closed = True
            self._talk.let_end(self._session)
        return None

    def abandon(self) -> None:
        self.close()

    def finish(self) -> None:
        self.close()

    def answered(self) -> bool:
        return bool(self._answers)
