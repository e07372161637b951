# SPDX-License-Identifier: Apache-2.0
"""Rights that a run needs from root: a real-time priority for its process, or a load that runs as root."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from ktrial.agent.session import AgentSession
from ktrial.agent.transport import Detached
from ktrial.bench.benchmark import AgentLoad, Invocation
from ktrial.kit.errors import BadInput, PrivilegeMissing

#: Bytes sent in one request; a line has at most 4 MiB, and base64 writes three bytes as four.
_PART_BYTES = 2 << 20

Connect = Callable[[], Detached]
OpenRoot = Callable[[str], AgentSession]


class Rights:
    """Finds the session with the rights that an invocation needs.

    `open_root` opens the root session, given its purpose; None if root is not available. `connect` starts an agent as
    the user.
    """

    def __init__(self, open_root: OpenRoot | None, connect: Connect) -> None:
        self._open_root = open_root
        self._connect = connect
        self._purpose = "measuring"
        self._root: AgentSession | None = None
        self._realtime: tuple[Detached, AgentSession] | None = None

    @property
    def has_root(self) -> bool:
        return self._open_root is not None

    def obtain(self, purpose: str, ordinary: AgentSession) -> None:
        """Open the root session now, so that a prompt comes before the runs."""
        self._purpose = purpose
        if not _is_root(ordinary):
            self._root_session()

    def session_for(self, invocation: Invocation, ordinary: AgentSession) -> AgentSession:
        """Return the session for an invocation: `ordinary` unless the invocation needs rights from root."""
        load, priority = invocation.load, invocation.realtime_priority
        if load is not None and load.as_root:
            session = self._root_session()
            _hand_over(session, load)
            return session
        if priority is None or _is_root(ordinary):
            return ordinary
        return self._realtime_session(priority)

    def abandon(self) -> None:
        """End the real-time session and the root session. The root session then removes what it has made."""
        if self._realtime is not None:
            self._realtime[0].finish()
            self._realtime = None
        if self._root is not None:
            self._root.close()

    def forget(self) -> None:
        """Forget the real-time session, which was lost. The next run that needs such a session opens a new session."""
        self._realtime = None

    def close(self) -> None:
        """End the session with real-time rights, but not the root session, which belongs to the caller."""
        if self._realtime is not None:
            self._realtime[1].close()

    def _root_session(self) -> AgentSession:
        if self._root is None:
            if self._open_root is None:
                raise PrivilegeMissing(
                    f"{self._purpose} needs root", hint="run the same command as root, or without --no-sudo"
                )
            self._root = self._open_root(self._purpose)
        return self._root

    def _realtime_session(self, priority: int) -> AgentSession:
        """Return a separate session of the user that may take real-time priorities."""
        if self._realtime is None:
            transport = self._connect()
            self._realtime = transport, AgentSession(transport)
        session = self._realtime[1]
        self._root_session().request("grant", process=session.hello["pid"], realtime_priority=priority)
        return session


def _is_root(session: AgentSession) -> bool:
    return session.hello.get("uid") == 0


def _hand_over(session: AgentSession, load: AgentLoad) -> None:
    """Send a load's data to the session. Raise BadInput for a file that the user may not read."""
    if load.data is None:
        return
    from base64 import b64encode

    try:
        descriptor = os.open(load.data, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadInput(f"{load.data} is not a regular file", hint="name a file that contains the data")
            left, first = load.parameters["bytes"], True
            while part := file.read(min(_PART_BYTES, left)):
                session.request("data", bytes={"base64": b64encode(part).decode()}, first=first)
                left, first = left - len(part), False
    except OSError as error:
        raise BadInput(f"cannot read {load.data}: {error.strerror}", hint="name a file that you may read") from None
