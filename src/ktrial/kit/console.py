# SPDX-License-Identifier: Apache-2.0
"""Lines at the end of a terminal that are drawn again in place, and text that goes above them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from ktrial.kit.plain_text import plain

_UP = "\x1b[{}A"
#: Each line is written over the old one. Cleared first, every picture would stay in what some terminals scroll back to.
_LINE_END = "\x1b[K\n"
_CLEAR_BELOW = "\x1b[J"


def is_live(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether lines can be drawn in place: a terminal that is not dumb, and nobody asked for plain text."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM", "dumb") != "dumb"


class LiveLines:
    """Draws through `write`; `size` tells columns and rows of the terminal as they are now."""

    def __init__(self, write: Callable[[str], None], size: Callable[[], os.terminal_size]) -> None:
        self._write = write
        self._size = size
        self._drawn: list[str] = []

    def draw(self, lines: Sequence[str]) -> None:
        """These lines in place of those that were drawn before."""
        shown = self._fitting(lines)
        self._write(self._back() + _over(shown))
        self._drawn = shown

    def say(self, text: str) -> None:
        """Text that stays, above the lines."""
        back, drawn = self._back(), self._drawn
        self._write(back + plain(text).replace("\n", _LINE_END) + _over(drawn))

    @property
    def columns(self) -> int:
        """How wide a line may be: a last column left free, so that no terminal breaks the line after it."""
        return self._size().columns - 1

    def _back(self) -> str:
        """To the begin of what is drawn.

        Where the terminal has become narrower than a line nobody knows where that begins: some terminals have broken
        the line, others have cut it. What was drawn then stays, and is drawn anew below.
        """
        size = self._size()
        if not self._drawn or any(len(line) >= size.columns for line in self._drawn) or len(self._drawn) >= size.lines:
            return ""
        return _UP.format(len(self._drawn)) + "\r"

    def _fitting(self, lines: Sequence[str]) -> list[str]:
        """As many lines as the terminal has room for, none wider than it is."""
        columns, rows = self._size()
        return [plain(line)[: max(1, columns - 1)] for line in lines[: max(1, rows - 1)]]


def _over(lines: Sequence[str]) -> str:
    """Return lines over what was there, and nothing of it left below."""
    return "".join(f"{line}{_LINE_END}" for line in lines) + _CLEAR_BELOW
