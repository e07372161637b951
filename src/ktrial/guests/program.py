# SPDX-License-Identifier: Apache-2.0
"""A program on another host that already has a process ID but starts only when ktrial releases it."""

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

#: The environment of a program in a guest, and its working folder.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp"}
DIRECTORY = "/tmp"
#: Bytes to capture per stream. A reply has at most 4 MiB, and JSON may encode a byte as six.
CAPTURE_BYTES = 300 << 10
#: Seconds that a watch may take to begin, during which the program's time limit already runs.
_BEGIN_S = 3600.0


class GuestProgram:
    """A program to watch in a guest or on another machine, as the user; implements `watch.record.watch.WatchedProgram`.

    ktrial does not ask the program's agent during the watch. After the watch, `take` receives the program's output.
    """

    def __init__(
        self,
        transport: Detached,
        argv: Sequence[str],
        limit_s: float,
        take: Callable[[RawOutput], None],
        capture_bytes: int = CAPTURE_BYTES,
        variables: Mapping[str, str] = MappingProxyType({}),
        directory: str = DIRECTORY,
    ) -> None:
        """Start the program, stopped, with these extra variables. Raise BadInput if it cannot be started."""
        #: The command, with its path in the guest.
        self.command = tuple(argv)
        self._transport = transport
        self._take = take
        try:
            self._session = AgentSession(transport)
            self._session.send(
                "exec",
                argv=list(argv),
                environment={**ENVIRONMENT, **variables},
                directory=directory,
                limit_s=limit_s + _BEGIN_S,
                capture_bytes=capture_bytes,
                while_connected=True,
                stopped=True,
            )
            self._number = self._session.number
            #: The process ID of the program in the guest.
            begun = self._session.receive_stopped("exec")
            if not isinstance(begun, int):
                raise BadInput(
                    exec_output(begun).failed or "the program ended before it was released",
                    hint="check that the program runs on the watched machine",
                )
            self.pid = begun
        except BaseException:
            transport.finish()
            raise

    def go(self) -> None:
        """Release the program by sending a request. Any request releases it, and nothing reads the reply."""
        self._session.send("hello", protocol=PROTOCOL_VERSION, head=__version__)

    @staticmethod
    def ended() -> int | None:
        """Return None, because the status is unknown during the watch."""
        return None

    def status(self, ended: WatchEnded) -> int | None:
        """Return the exit status, negative after a signal. If the program still runs, end it and return None."""
        if ended.ended != "done":
            self._session.hang_up()
        reply = self._session.receive_next("exec", self._number)
        if isinstance(reply, Progress):
            raise AgentError(
                "lost", "invalid answer of the agent: expected the end of `exec`", hint="run the command again"
            )
        raw = exec_output(reply)
        self._take(raw)
        if reply["hung_up"]:
            return None
        return raw.exit_status if raw.signal is None else -raw.signal

    def close(self) -> None:
        self._transport.finish()
