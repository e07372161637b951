# SPDX-License-Identifier: Apache-2.0
"""Lines that are written to a file or a pipe meanwhile, each with the moment at which it was seen."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

from ktrial.domain.errors import BadInput
from ktrial.domain.frame_lines import Line

#: Seconds between two looks: what the moment of a line may be off.
LOOK_S = 0.02
#: Lines, and bytes of one, that are kept at most.
_MOST_LINES = 5_000_000
_LINE_BYTES = 4096
_READ_BYTES = 1 << 16


class LineTail:
    """Follows a file from its end on, or a named pipe, in a thread of its own until `stop`."""

    def __init__(self, path: Path) -> None:
        """Raises BadInput where it cannot be read."""
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}") from None
        mode = os.fstat(self._file).st_mode
        if stat.S_ISREG(mode):
            os.lseek(self._file, 0, os.SEEK_END)
        elif not stat.S_ISFIFO(mode):
            os.close(self._file)
            raise BadInput(f"{path} is neither a file nor a named pipe")
        self._rest = b""
        self._lines: list[Line] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="frames", daemon=True)
        self._thread.start()

    def since(self, count: int) -> list[Line]:
        """The lines that came after so many."""
        return self._lines[count:]

    def stop(self) -> list[Line]:
        """End it: the lines that came."""
        self._stop.set()
        self._thread.join()
        os.close(self._file)
        return self._lines

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_S):
            self._look()
        self._look()

    def _look(self) -> None:
        while True:
            try:
                read = os.read(self._file, _READ_BYTES)
            except BlockingIOError:
                return
            if not read:
                return
            at_ns = time.monotonic_ns()
            *whole, self._rest = (self._rest + read).split(b"\n")
            self._rest = self._rest[-_LINE_BYTES:]
            room = _MOST_LINES - len(self._lines)
            self._lines += [Line(at_ns, line[:_LINE_BYTES].decode(errors="replace")) for line in whole[:room]]
