# SPDX-License-Identifier: Apache-2.0
"""The screen of a terminal with the functions that ktrial uses: text, line ends, up, clear; it may be resized."""

from __future__ import annotations

import os
import re

_PART = re.compile(r"\x1b\[(\d+)A|(\x1b\[J)|(\x1b\[K)|(\r)|(\n)|([^\x1b\r\n]+)")


class Screen:
    """A screen. `reflows` is true if a narrower window wraps its lines again instead of cutting them."""

    def __init__(self, columns: int, rows: int, *, reflows: bool = True) -> None:
        self.columns, self.rows = columns, rows
        self._reflows = reflows
        self._lines = [""]
        self._row = self._column = 0

    @property
    def size(self) -> os.terminal_size:
        return os.terminal_size((self.columns, self.rows))

    @property
    def lines(self) -> list[str]:
        """The whole text, including scrolled-out lines, without empty lines at the end."""
        return "\n".join(self._lines).rstrip("\n").split("\n")

    def write(self, text: str) -> None:
        """Write the program's output; an unknown control sequence is an error."""
        at = 0
        while at < len(text):
            found = _PART.match(text, at)
            assert found is not None, f"unknown control sequence: {text[at : at + 20]!r}"
            up, clear, rest, back, end, words = found.groups()
            if up:
                top = max(0, len(self._lines) - self.rows)
                self._row = max(top, self._row - int(up))
            elif clear:
                self._lines[self._row] = self._lines[self._row][: self._column]
                del self._lines[self._row + 1 :]
            elif rest:
                self._lines[self._row] = self._lines[self._row][: self._column]
            elif back:
                self._column = 0
            elif end:
                self._down()
            else:
                self._put(words)
            at = found.end()

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window; the cursor is at the start of an empty line."""
        assert self._column == 0
        self.columns, self.rows = columns, rows
        if self._reflows:
            broken = [
                line[start : start + columns] for line in self._lines for start in range(0, max(1, len(line)), columns)
            ]
            self._row += len(broken) - len(self._lines)
            self._lines = broken
        else:
            self._lines = [line[:columns] for line in self._lines]

    def _down(self) -> None:
        self._row += 1
        self._column = 0
        if self._row == len(self._lines):
            self._lines.append("")

    def _put(self, words: str) -> None:
        for character in words:
            if self._column == self.columns:
                self._down()
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1
