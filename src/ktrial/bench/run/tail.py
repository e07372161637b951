# SPDX-License-Identifier: Apache-2.0
"""Follow lines that are written to a file or pipe, with the time at which ktrial saw each."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

from ktrial.kit.errors import BadInput
from ktrial.recordings.frames.lines import FrameLine

#: Seconds between two looks, which is how late a line's moment may be.
LOOK_S = 0.02
#: Maximum number of lines that wait for `take`, and of bytes in one line.
_MOST_LINES = 1_000_000
_LINE_BYTES = 4096
_READ_BYTES = 1 << 16


class LineTail:
    """Follows a named pipe, or a file from its end, in its own thread until `stop`."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raise BadInput if it is unreadable, or neither a regular file nor a pipe."""
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}", hint="check the path and its permissions") from None
        mode = os.fstat(self._file).st_mode
        if stat.S_ISREG(mode):
            os.lseek(self._file, 0, os.SEEK_END)
        elif not stat.S_ISFIFO(mode):
            os.close(self._file)
            raise BadInput(
                f"{path} is neither a regular file nor a named pipe", hint="name the log that the program writes"
            )
        self._rest = b""
        self._lines: list[FrameLine] = []
        self._lock = threading.Lock()
        #: How many lines were dropped because nobody took them in time.
        self.lost = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="frames", daemon=True)
        self._thread.start()

    def take(self) -> list[FrameLine]:
        with self._lock:
            taken, self._lines = self._lines, []
        return taken

    def stop(self) -> None:
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        os.close(self._file)

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
            with self._lock:
                kept = whole[: _MOST_LINES - len(self._lines)]
                self.lost += len(whole) - len(kept)
                self._lines += [FrameLine(at_ns, line[:_LINE_BYTES].decode(errors="replace")) for line in kept]
