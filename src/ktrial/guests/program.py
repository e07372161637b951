# SPDX-License-Identifier: Apache-2.0
"""A program in a guest that has its number already, and waits to be let go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ktrial import __version__
from ktrial.agent.session import PROTOCOL_VERSION, AgentSession, Progress
from ktrial.agent.transport import Detached
from ktrial.bench.agent_output import exec_output
from ktrial.bench.benchmark import RawOutput
from ktrial.kit.errors import AgentError, BadInput
from ktrial.recordings.watching import WatchEnded

#: The environment of a program in a guest, and where it runs.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp"}
DIRECTORY = "/tmp"
#: Bytes kept of each stream. A reply has at most 4 MiB, and JSON may write a byte as six.
CAPTURE_BYTES = 300 << 10
#: Seconds that a watch may take to begin: the program's limit counts from before it.
_BEGIN_S = 3600.0


class GuestProgram:
    """Implements `watch.record.watch.WatchedProgram` with a session of the user's role there, which is for it alone.

    While it is watched nobody asks the guest for it: what came of it is received once, after the watch, and goes to
    `take`.
    """

    def __init__(
        self,
        transport: Detached,
        argv: Sequence[str],
        limit_s: float,
        take: Callable[[RawOutput], None],
        capture_bytes: int = CAPTURE_BYTES,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """It has these variables too. Raises BadInput if it cannot be started."""
        #: What it runs, as it lies in the guest.
        self.command = tuple(argv)
        self._transport = transport
        self._take = take
        try:
            self._session = AgentSession(transport)
            self._session.send(
                "exec",
                argv=list(argv),
                environment={**ENVIRONMENT, **variables},
                directory=DIRECTORY,
                limit_s=limit_s + _BEGIN_S,
                capture_bytes=capture_bytes,
                while_connected=True,
                stopped=True,
            )
            self._number = self._session.number
            #: Its number in the guest.
            self.pid = self._start_program()
        except BaseException:
            transport.finish()
            raise

    def _start_program(self) -> int:
        begun = self._session.receive_stopped("exec")
        if isinstance(begun, int):
            return begun
        raise BadInput(exec_output(begun).failed or "it has ended before it began")

    def go(self) -> None:
        """Let it run: the next request does, whatever it is; nobody reads the reply to it."""
        self._session.send("hello", protocol=PROTOCOL_VERSION, head=__version__)

    @staticmethod
    def ended() -> int | None:
        """Not known while it is watched."""
        return None

    def status(self, ended: WatchEnded) -> int | None:
        """Its exit status after the watch, negative after a signal; one that still runs is ended, and has none."""
        if ended.ended != "done":
            self._session.hang_up()
        reply = self._session.receive_next("exec", self._number)
        if isinstance(reply, Progress):
            raise AgentError("lost", "what the agent tells is not as agreed: `exec` has no progress")
        raw = exec_output(reply)
        self._take(raw)
        if reply["hung_up"]:
            return None
        return raw.exit_status if raw.signal is None else -raw.signal

    def close(self) -> None:
        """End it where it is there still, and its session."""
        self._transport.finish()
