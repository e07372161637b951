# SPDX-License-Identifier: Apache-2.0
"""An agent in an exact guest: what it answers comes of booting the guest anew with all that was said to it."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import msgspec

from ktrial.agent.interrupts import Interrupts


class Conversation(Protocol):
    """Sessions of a guest that is booted for each answer."""

    def write(self, session: int, data: bytes) -> None:
        ...

    def hang_up(self, session: int) -> None:
        """The end of what an agent reads."""

    def let_end(self, session: int) -> None:
        """What follows is said when the agent has ended."""

    def answer(self, session: int) -> bytes:
        """Return the next line that an agent says."""

    def rest(self, session: int) -> list[bytes]:
        """Return all that it says up to the end of a request."""


class _Asked(msgspec.Struct):
    do: str


#: Requests that end by themselves and tell what comes until then: after their begin all of it is had at once.
_GO_ON = frozenset({"watch"})


class ReplayedTransport:
    """Implements `Detached`: nothing runs between two answers, so there is nothing to wait for, or to kill."""

    asker: str | None = None

    def __init__(self, talk: Conversation, session: int) -> None:
        self._talk = talk
        self._session = session
        self._answers: deque[bytes] = deque()
        #: Whether the request goes on, and whether it was told that it has begun.
        self._goes_on = self._has_begun = False
        self._hung_up = False
        self._closed = False

    def send(self, line: bytes) -> None:
        if self._hung_up:
            raise BrokenPipeError("the session is closed")
        self._goes_on, self._has_begun = msgspec.json.decode(line, type=_Asked).do in _GO_ON, False
        self._talk.write(self._session, line)

    def receive(self, limit_s: float | None = None) -> bytes:
        """Read one reply line; `limit_s` is for agents that share this machine's time."""
        del limit_s
        self._have()
        return self._answers.popleft()

    def wait(self, interrupts: Interrupts) -> None:
        """Have the answer; a Ctrl-C meanwhile ends the waiting."""
        self._have()
        interrupts.check()

    def _have(self) -> None:
        """Boot for an answer where none is there."""
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
        """End the agent's input; what follows is said when it has ended."""
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
        """Return whether there is something to read: it was asked for by then."""
        return bool(self._answers)
