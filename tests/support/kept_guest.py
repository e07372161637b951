# SPDX-License-Identifier: Apache-2.0
"""A kept guest in a process of its own, and commands that use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from tests.guests.system.kernels import Kernel, fetch


class KeptGuest:
    """`ktrial kernel boot --keep lab` in a process of its own."""

    def __init__(self, kernel: Kernel, *words: str) -> None:
        fetch(kernel)
        self._host = "exact:lab" if "exact" in words else "guest:lab"
        argv = [sys.executable, "-m", "ktrial", "kernel", "boot", str(kernel.tree), "--keep", "lab", *words]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        #: The message that the guest can be used.
        self.first = self.process.stdout.readline()

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command with the guest as its host."""
        argv = [sys.executable, "-m", "ktrial", "--host", self._host, *words]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run a command; return its exit status, output and errors."""
        process = self.start(*words)
        out, errors = process.communicate()
        return process.returncode, out, errors

    def told(self, *words: str) -> Any:
        """Run a command and return its JSON."""
        status, out, errors = self.run(*words, "--json")
        assert status == 0, errors
        return json.loads(out)

    def in_force(self) -> list[int]:
        """Return the transactions that are applied in the guest."""
        return [one["transaction"] for one in self.told("status")["transactions"] if one["state"] == "applied"]

    def end(self) -> tuple[int, str]:
        """End the guest like Ctrl-C in its terminal; return its exit status and output."""
        self.process.send_signal(signal.SIGINT)
        errors = self.process.communicate(timeout=60)[1]
        return self.process.returncode, errors
