# SPDX-License-Identifier: Apache-2.0
"""Runs a command on its own terminal, as a person sees it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

KTRIAL = (sys.executable, "-I", "-m", "ktrial")
LIMIT_S = 30.0


class Terminal:
    """A running command with this controlling terminal."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._master, slave = os.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv], stdin=slave, stdout=slave, stderr=slave, close_fds=True
        )
        os.close(slave)
        self._is_open = True
        self.said = ""

    def wait_for(self, words: str) -> None:
        """Read until these words were printed."""
        self._read(lambda: words in self.said)
        assert words in self.said, self.said

    def type(self, keys: str) -> None:
        """Press keys; `\\x03` is Ctrl-C."""
        os.write(self._master, keys.encode())

    def close(self) -> None:
        """Close the window: the session gets SIGHUP."""
        if self._is_open:
            self._is_open = False
            os.close(self._master)

    def end(self) -> int:
        """Wait for the command; return its exit status, negative after a signal."""
        if self._is_open:
            self._read(lambda: False)
        return self.process.wait(LIMIT_S)

    def agents(self) -> list[int]:
        """Return the process ids of the agents that the command started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "ktrial-agent"]

    def kill(self) -> None:
        """End all processes that are still running."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.close()

    def _read(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not enough() and time.monotonic() < deadline:
            ready, _, _ = select.select([self._master], [], [], 0.1)
            if not ready:
                if self.process.poll() is not None:
                    return
                continue
            try:
                chunk = os.read(self._master, 4096)
            except OSError:  # the last process on the terminal has ended
                return
            self.said += chunk.decode(errors="replace")


def eventually(holds: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
    """Return whether the condition becomes true within the limit."""
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
