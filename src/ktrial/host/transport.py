# SPDX-License-Identifier: Apache-2.0
"""Carries an agent's stdio. Everything above is the same for a local agent, one behind sudo, and others to come."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from typing import BinaryIO, Protocol


class Transport(Protocol):
    """A running agent's two pipes."""

    def send(self, line: bytes) -> None:
        """Write one request line. Raises OSError when the agent is gone."""

    def receive(self) -> bytes:
        """Read one reply line; empty when the agent is gone."""

    def close(self) -> int | None:
        """End the agent's input and wait for it: its exit status, None where that cannot be known."""


class ProcessTransport:
    """An agent started as a child process. Its stderr is the user's.

    A `detached` one is not interrupted from the terminal together with the head, which ends it in order instead.
    """

    def __init__(self, argv: Sequence[str], *, detached: bool = False) -> None:
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", start_new_session=detached
        )

    def send(self, line: bytes) -> None:
        """Write one request line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def receive(self) -> bytes:
        """Read one reply line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def answered(self, patience_s: float) -> bool:
        """Whether there is something to read, or the agent is gone, within so many seconds."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], patience_s)[0])

    def hang_up(self) -> None:
        """End the agent's input and wait for nothing: what it runs `while_connected` ends."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def abandon(self, patience_s: float) -> None:
        """Hang up; an agent that does not end within so many seconds is killed. For detached ones only."""
        self.hang_up()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
        self.close()

    def close(self) -> int | None:
        """End the agent's input and wait for it."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                return self._process.wait()
        status = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status


class PipeTransport:
    """An agent that somebody else started for us, reached through two pipes."""

    def __init__(self, to_agent: BinaryIO, from_agent: BinaryIO) -> None:
        self._to_agent = to_agent
        self._from_agent = from_agent

    def send(self, line: bytes) -> None:
        """Write one request line."""
        self._to_agent.write(line)
        self._to_agent.flush()

    def receive(self) -> bytes:
        """Read one reply line."""
        return self._from_agent.readline()

    def close(self) -> int | None:
        """End the agent's input."""
        self._to_agent.close()
        self._from_agent.read()
        self._from_agent.close()
        return None
