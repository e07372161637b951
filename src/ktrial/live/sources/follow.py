# SPDX-License-Identifier: Apache-2.0
"""Follows the lines of a file that other programs write, even if they rename or truncate it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Protocol

from ktrial.kit.errors import BadInput
from ktrial.live.sources.web import NotRead
from ktrial.live.sources.world import LiveWorld

LINE_BYTES = 4096
_CHUNK_BYTES = 1 << 18
#: Maximum bytes to read at once; lines that are written faster are skipped.
MOST_BYTES = 32 << 20
#: Bytes at the end of what was read; they show whether a file was truncated and written again.
_MARK_BYTES = 64
_REMOTE_LIMIT_S = 10.0


class LineSplitter:
    """Splits bytes into lines, which may arrive in parts. A line is cut off after LINE_BYTES."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        *whole, rest = data.split(b"\n")
        if not whole:
            self._rest += rest[: LINE_BYTES - len(self._rest)]
            return []
        first = bytes(self._rest + whole[0][: LINE_BYTES - len(self._rest)])
        self._rest = bytearray(rest[:LINE_BYTES])
        return [first, *(line[:LINE_BYTES] for line in whole[1:])]

    def forget(self) -> None:
        """Discard an incomplete line."""
        self._rest.clear()


class FollowedFile(Protocol):
    """A file whose lines are followed from its end."""

    #: How often lines were skipped, because they were written too fast or the file was replaced unnoticed.
    skipped: int

    def take(self) -> list[bytes]:
        """Return the lines since the last call. Raise NotRead if the file cannot be read."""

    def close(self) -> None: ...


class FileHere:
    """Follows a file of this machine from its end or, with `from_start`, its beginning; implements `FollowedFile`."""

    def __init__(self, path: str, *, from_start: bool = False) -> None:
        """Open the file. Raise BadInput if it cannot be read."""
        self._path = path
        self._lines = LineSplitter()
        self.skipped = 0
        try:
            self._file = self._opened()
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}", hint="check the path and its permissions") from None
        self._at = 0 if from_start else os.fstat(self._file).st_size
        self._mark = b"" if from_start else self._mark_at(self._at)

    def _opened(self) -> int:
        file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise BadInput(f"{self._path} is not a file", hint="name the log that the program writes")
        return file

    def take(self) -> list[bytes]:
        try:
            if self._is_emptied():
                self._begin_anew()
            found = self._rest()
            if self._is_replaced():
                found += self._rest()  # the lines that were written between the last look and the rename
                new = self._opened()
                os.close(self._file)
                self._file = new
                self._begin_anew()
                found += self._rest()
        except OSError as error:
            raise NotRead(
                f"cannot read {self._path}: {error.strerror}", hint="check the path and its permissions"
            ) from None
        except BadInput as error:
            raise NotRead(error.message) from None
        return found

    def _is_emptied(self) -> bool:
        return os.fstat(self._file).st_size < self._at or self._mark_at(self._at) != self._mark

    def _is_replaced(self) -> bool:
        try:
            there = Path(self._path).stat()
        except FileNotFoundError:
            return False  # the file was renamed a moment ago, and the program still writes to the old one
        here = os.fstat(self._file)
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def _begin_anew(self) -> None:
        self._at, self._mark = 0, b""
        self._lines.forget()

    def _rest(self) -> list[bytes]:
        size = os.fstat(self._file).st_size
        if size - self._at > MOST_BYTES:
            self.skipped += 1
            self._at = size - MOST_BYTES
            self._lines.forget()
        found: list[bytes] = []
        while self._at < size and (data := os.pread(self._file, min(_CHUNK_BYTES, size - self._at), self._at)):
            self._at += len(data)
            found += self._lines.feed(data)
        self._mark = self._mark_at(self._at)
        return found

    def _mark_at(self, at: int) -> bytes:
        begin = max(0, at - _MARK_BYTES)
        return os.pread(self._file, at - begin, begin)

    def close(self) -> None:
        os.close(self._file)


class FileThere:
    """Follows a file of another machine with that machine's `stat` and `tail`; implements `FollowedFile`."""

    def __init__(self, path: str, world: LiveWorld) -> None:
        """Find the file. Raise BadInput if it cannot be read."""
        self._path = path
        self._world = world
        self._lines = LineSplitter()
        self.skipped = 0
        try:
            self._inode, self._at = self._look()
        except NotRead as error:
            raise BadInput(error.message, hint=error.hint) from None

    def take(self) -> list[bytes]:
        inode, size = self._look()
        if inode != self._inode or size < self._at:
            self.skipped += inode != self._inode  # the end of the old file was not read
            self._inode, self._at = inode, 0
            self._lines.forget()
        if size - self._at > MOST_BYTES:
            self.skipped += 1
            self._at = size - MOST_BYTES
            self._lines.forget()
        found: list[bytes] = []
        while self._at < size:
            data = self._run("tail", "-c", f"+{self._at + 1}", "--", self._path)[: size - self._at]
            if not data:
                break
            self._at += len(data)
            found += self._lines.feed(data)
        return found

    def _look(self) -> tuple[str, int]:
        words = (
            self._run("stat", "-L", "-c", "%F/%d:%i/%s", "--", self._path).decode(errors="replace").strip().split("/")
        )
        if len(words) != 3 or not words[0].startswith("regular") or not words[2].isdecimal():
            raise NotRead(f"{self._path} is not a file", hint="name the log that the program writes")
        return words[1], int(words[2])

    def _run(self, *words: str) -> bytes:
        """Return the beginning of a command's output; the agent keeps no more. Raise NotRead if the command fails."""
        raw = self._world.run(words, _REMOTE_LIMIT_S)
        if raw.failed is not None or raw.exit_status != 0:
            why = raw.failed or raw.stderr.decode(errors="replace").strip().rpartition(": ")[2][:200] or "it failed"
            raise NotRead(
                f"cannot read {self._path}: {why}", hint="check the path and its permissions on the measured machine"
            )
        return raw.stdout

    def close(self) -> None:
        self._lines.forget()
