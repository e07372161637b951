# SPDX-License-Identifier: Apache-2.0
"""Record the machine during a run with a separate agent, whose data a thread collects."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ktrial.agent.session import AgentSession, Progress
from ktrial.kit.errors import AgentError
from ktrial.kit.json_bytes import read_bytes

#: A recording that nobody stops ends after this many seconds.
LIMIT_S = 604_800.0
#: Seconds within which an agent must end a recording.
_END_S = 60.0


class AgentRunRecorder:
    """Implements `bench.run.ports.RunRecorder`; `connect` opens the session at the first recording.

    The agent watches the threads of the process that `process` returns, and of all processes that this process starts
    afterwards. With `holds`, the agent sends nothing before the end of the recording.
    """

    def __init__(self, connect: Callable[[], AgentSession], process: Callable[[], int], *, holds: bool = False) -> None:
        self._holds = {"hold": True} if holds else {}
        self._connect = connect
        self._process = process
        self._session: AgentSession | None = None
        self._number = 0
        self._parts: list[bytes] = []
        self._error: AgentError | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is not None:
            raise RuntimeError("a recording is running already")
        if self._session is None:
            self._session = self._connect()
        session = self._session
        self._parts, self._error = [], None
        try:
            session.send("watch", limit_s=LIMIT_S, process=self._process(), **self._holds)
            session.receive_begun("watch")
        except AgentError:
            self._session = None
            raise
        self._number = session.number
        self._thread = threading.Thread(target=self._take, args=(session,), name="recording", daemon=True)
        self._thread.start()

    def stop(self) -> bytes:
        thread, session, self._thread = self._thread, self._session, None
        if thread is None or session is None:
            raise RuntimeError("nothing is being recorded")
        if self._error is None:
            # Any other request ends the recording, and the agent stays for the next run.
            session.send("list", patterns=[])
        thread.join(_END_S)
        if thread.is_alive():
            self._session = None
            raise AgentError(
                "lost", f"the agent did not end its recording within {_END_S:g} s", hint="run the command again"
            )
        if self._error is not None:
            self._session = None
            raise self._error
        session.receive("list")
        return b"".join(self._parts)

    def _take(self, session: AgentSession) -> None:
        try:
            while isinstance(line := session.receive_next("watch", self._number), Progress):
                if line.chunk is not None:
                    self._parts.append(read_bytes(line.chunk))
        except AgentError as error:
            self._error = error
