# SPDX-License-Identifier: Apache-2.0
"""A program of the user that already has its process id and waits for the signal to start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ktrial.kit.errors import BadInput
from ktrial.recordings.watching import WatchEnded

#: Waits for a byte and then executes the program in the same process.
_WAIT = (
    "import os, sys\n"
    "held = int(sys.argv[1])\n"
    "os.read(held, 1) or sys.exit(126)\n"
    "os.close(held)\n"
    "try: os.execvp(sys.argv[2], sys.argv[2:])\n"
    "except OSError as error: sys.exit(f'ktrial: cannot start {sys.argv[2]}: {error.strerror}')\n"
)


class HeldProgram:
    """A program in the user's terminal and folder, with `environment` or by default the user's environment."""

    def __init__(
        self, argv: Sequence[str], stdout: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Create the process; its output goes to `stdout` if given. Raise BadInput if there is no such program."""
        program = shutil.which(argv[0])
        if program is None:
            raise BadInput(
                f"{argv[0]}: no such program, or not executable",
                hint="give the path of an executable file, or install the program in a folder of PATH",
            )
        #: The command line with the program's absolute path.
        self.command = (str(Path(program).absolute()), *argv[1:])
        held, self._go = os.pipe()
        words = [sys.executable, "-I", "-S", "-c", _WAIT, str(held), *argv]
        try:
            self._process = subprocess.Popen(words, pass_fds=[held], stdout=stdout, env=environment)
        finally:
            os.close(held)

    @property
    def pid(self) -> int:
        return self._process.pid

    def go(self) -> None:
        os.write(self._go, b"g")
        os.close(self._go)
        self._go = -1

    def ended(self) -> int | None:
        """Return the program's exit status, negative after a signal; None while it runs."""
        return self._process.poll()

    def status(self, _: WatchEnded) -> int | None:
        return self.ended()

    def close(self) -> None:
        """End the program if it still waits for `go`. A running program continues."""
        if self._go >= 0:
            os.close(self._go)
            self._go = -1
            self._process.wait()
