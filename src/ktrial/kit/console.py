# SPDX-License-Identifier: Apache-2.0
"""Text for a terminal: lines that are redrawn in place at the bottom, and colours of verdicts and doubts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from ktrial.kit.plain_text import plain

_UP = "\x1b[{}A"
#: Each line overwrites the old one. Clearing first would leave every frame in the scrollback of some terminals.
_LINE_END = "\x1b[K\n"
_CLEAR_BELOW = "\x1b[J"


def is_live(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether `stream` is a terminal that is not dumb, and NO_COLOR is not set."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM", "dumb") != "dumb"


#: Colours of verdicts in columns and lists, and of the labels of doubts. Each word means the same without its colour.
_GREEN, _RED, _YELLOW, _AS_BEFORE = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
_COLOURS = {"better": _GREEN, "worse": _RED, "not comparable": _RED, "refused": _RED, "doubt": _YELLOW}
_JUDGING = re.compile(
    r"(?m)(?:(?<=  )(?P<verdict>better|worse|not comparable)(?=  |: |$)|^(?P<label>doubt|refused)(?=  ))"
)


def coloured(text: str) -> str:
    """Colour the verdicts and doubts in a text, and escape characters that control a terminal."""
    return _JUDGING.sub(lambda found: f"{_COLOURS[found[0]]}{found[0]}{_AS_BEFORE}", plain(text))


class LiveLines:
    """Lines that `write` redraws in place; `size` returns the terminal's current columns and rows."""

    def __init__(self, write: Callable[[str], None], size: Callable[[], os.terminal_size]) -> None:
        self._write = write
        self._terminal_size = size
        self._drawn: list[str] = []

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the lines drawn before with as many of `lines` as fit, each cut to the terminal's width."""
        columns, rows = self._size()
        shown = [plain(line)[: max(1, columns - 1)] for line in lines[: max(1, rows - 1)]]
        self._write(self._back() + _over(shown))
        self._drawn = shown

    def say(self, text: str) -> None:
        """Write text above the lines, where it stays."""
        self._write(self._back() + plain(text).replace("\n", _LINE_END) + _over(self._drawn))

    @property
    def columns(self) -> int:
        """Return the maximum length of a line. The last column stays free, because some terminals wrap a line there."""
        return self._size().columns - 1

    def _size(self) -> os.terminal_size:
        """Return the terminal's size; 80 by 24 for a serial console, which reports 0 columns and 0 rows."""
        columns, rows = self._terminal_size()
        return os.terminal_size((columns or 80, rows or 24))

    def _back(self) -> str:
        """Return the codes that move the cursor to the first drawn line.

        If the terminal has become narrower than a drawn line, that place is unknown, because terminals wrap or
        cut such a line. The old lines then stay, and the new ones appear below them.
        """
        size = self._size()
        if not self._drawn or any(len(line) >= size.columns for line in self._drawn) or len(self._drawn) >= size.lines:
            return ""
        return _UP.format(len(self._drawn)) + "\r"


def _over(lines: Sequence[str]) -> str:
    """Return the codes that overwrite the screen with these lines and clear what is below."""
    return "".join(f"{line}{_LINE_END}" for line in lines) + _CLEAR_BELOW
