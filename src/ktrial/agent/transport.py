# SPDX-License-Identifier: Apache-2.0
"""Transports for the standard input and output of an agent: a child process, a process behind sudo, or a remote one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ktrial.agent.interrupts import Interrupts
from ktrial.kit.errors import AgentError

BUILD_ANEW = (
    "remove .setup and run ./ktrial to rebuild the agent"
    if Path(__file__).resolve().parents[2].name == "src"
    else "reinstall ktrial"
)
_CHUNK_BYTES = 1 << 16
#: Seconds that a detached agent has to end its commands: SIGTERM, 5 seconds, SIGKILL, 5 seconds.
PATIENCE_S = 11.0


class Transport(Protocol):
    """The two pipes of a running agent."""

    @property
    def asker(self) -> str | None:
        """The program that may ask for a password before it starts the agent, if any."""

    def send(self, line: bytes) -> None:
        """Write one request line. Raise OSError if the agent has ended."""

    def receive(self, limit_s: float | None = None) -> bytes:
        """Return one reply line, or empty bytes if the agent has ended. Raise TimeoutError after `limit_s`."""

    def wait(self, interrupts: Interrupts) -> None:
        """Wait for the answer; raise KeyboardInterrupt on Ctrl-C."""

    def hang_up(self) -> None:
        """End the agent's input without waiting; commands that it runs `while_connected` end."""

    def close(self) -> int | None:
        """End the agent's input and wait for the agent; return its exit status, or None if unknown."""

    def abandon(self) -> None:
        """Give up on an agent that does not answer."""


class Detached(Transport, Protocol):
    """An agent that a Ctrl-C in the terminal does not reach."""

    def answered(self) -> bool:
        """Return whether the agent has written something or has ended."""

    def finish(self) -> None:
        """End the agent's input, and kill an agent that does not end in time."""


class PipeTransport:
    """An agent reached through two pipes; `child` is its process id if it is a child of this process."""

    asker: str | None = None

    def __init__(self, to_agent: int, from_agent: int, child: int | None = None) -> None:
        self._to_agent: int | None = to_agent
        self._from_agent: int | None = from_agent
        self._child = child
        self._read = b""

    def send(self, line: bytes) -> None:
        if self._to_agent is None:
            raise BrokenPipeError("the session is closed")
        left = memoryview(line)
        while left:
            left = left[os.write(self._to_agent, left) :]

    def receive(self, limit_s: float | None = None) -> bytes:
        deadline = None if limit_s is None else time.monotonic() + limit_s
        parts = [self._read]
        while b"\n" not in parts[-1]:
            chunk = self._chunk(deadline)
            if not chunk:
                break
            parts.append(chunk)
        line, newline, self._read = b"".join(parts).partition(b"\n")
        return line + newline

    def _chunk(self, deadline: float | None) -> bytes:
        if self._from_agent is None:
            return b""
        if deadline is not None:
            ready, _, _ = select.select([self._from_agent], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
        return os.read(self._from_agent, _CHUNK_BYTES)

    def wait(self, interrupts: Interrupts) -> None:
        if not self._read and self._from_agent is not None:
            interrupts.wait([self._from_agent])

    def hang_up(self) -> None:
        self._end_input()

    def close(self) -> int | None:
        self._end_input()
        while self._chunk(None):
            pass
        self._end_output()
        return self._wait()

    def abandon(self) -> None:
        self._end_input()
        self._end_output()

    def answered(self) -> bool:
        return bool(self._read) or self._from_agent is None or bool(select.select([self._from_agent], [], [], 0)[0])

    def _end_input(self) -> None:
        if self._to_agent is not None:
            os.close(self._to_agent)
            self._to_agent = None

    def _end_output(self) -> None:
        if self._from_agent is not None:
            os.close(self._from_agent)
            self._from_agent = None

    def _wait(self) -> int | None:
        if self._child is None:
            return None
        child, self._child = self._child, None
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)


class ProcessTransport(PipeTransport):
    """An agent that runs as a child process and shares the user's stderr."""

    def __init__(self, argv: Sequence[str], *, asker: str | None = None, detached: bool = False) -> None:
        self.asker = asker
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd="/",
                bufsize=0,
                start_new_session=detached,
            )
        except OSError as error:
            raise AgentError("lost", f"cannot start {argv[0]}: {error.strerror}", hint=BUILD_ANEW) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        super().__init__(os.dup(self._process.stdin.fileno()), os.dup(self._process.stdout.fileno()))
        self._process.stdin.close()
        self._process.stdout.close()

    def abandon(self) -> None:
        """Kill the agent, unless it runs as root and this process does not."""
        super().abandon()
        with contextlib.suppress(PermissionError):
            self._process.kill()
            self._process.wait()

    def _wait(self) -> int | None:
        return self._process.wait()


class DetachedTransport(ProcessTransport):
    """An agent that a Ctrl-C in the terminal does not reach; ktrial ends it and its commands in order."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(argv, detached=True)

    def abandon(self) -> None:
        """End the agent and its commands; kill the agent if it does not end in time."""
        self.finish()

    def finish(self) -> None:
        self._end_input()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._end_output()
