# SPDX-License-Identifier: Apache-2.0
"""Tables and paragraphs for a terminal, readable in 80 columns and without colour."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence

MINIMUM_COLUMNS = 60
_GAP = 2
_NARROWEST = 6
#: Where the lines of a cell may break: at blanks, or also after hyphens.
_BLANKS = r"\s+"
_PARTS = r"\s+|(?<=[A-Za-z0-9]-)(?=[A-Za-z])"
_RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"


def columns() -> int:
    """Return the width to write for: COLUMNS, the width of the terminal on standard output, or 80, but at least 60."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isascii() and setting.isdigit() and int(setting) > 0:
        return max(MINIMUM_COLUMNS, int(setting))
    try:
        return max(MINIMUM_COLUMNS, os.get_terminal_size(1).columns or 80)
    except OSError:
        return 80


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, whole: int = 0) -> str:
    """Return a table of at most `width` characters, if its columns can be that narrow.

    Cells wrap between words; only words wider than a column are split. The first `whole` columns hold names to be
    copied: their words are never split.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    natural = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    needed = _longest(headers, cells, [_BLANKS] * len(headers))
    parts = _longest(headers, cells, _breaks(headers, whole))
    least = [*needed[:whole], *[_NARROWEST] * (len(needed) - whole)]
    widths = _fit(natural, (needed, parts, least), width - _GAP * (len(headers) - 1))
    rule = _RULE * (sum(widths) + _GAP * (len(widths) - 1))
    lines = [*_lines(headers, widths), rule]
    for row in cells:
        lines += _lines(row, widths)
    return "\n".join(lines)


def least_width(headers: Sequence[str], rows: Sequence[Sequence[str]], *, whole: int = 0) -> int:
    """Return the smallest width at which `table` splits words only after hyphens."""
    cells = [[clean(cell) for cell in row] for row in rows]
    return sum(_longest(headers, cells, _breaks(headers, whole))) + _GAP * (len(headers) - 1)


def _breaks(headers: Sequence[str], whole: int) -> list[str]:
    return [_BLANKS] * whole + [_PARTS] * (len(headers) - whole)


def _longest(headers: Sequence[str], cells: Sequence[Sequence[str]], breaks: Sequence[str]) -> list[int]:
    """Return the length of each column's longest unbreakable part; `breaks` holds a pattern per column."""
    columns = zip(breaks, zip(headers, *cells, strict=True), strict=True)
    return [max(len(part) for cell in column for part in re.split(at, cell)) for at, column in columns]


def _fit(natural: list[int], floors: Sequence[list[int]], room: int) -> list[int]:
    """Return column widths that fit into `room`.

    The widest columns shrink first, down to the first floors, then to the next.
    """
    widths = list(natural)
    for floor in floors:
        while sum(widths) > room:
            shrinkable = [number for number, width in enumerate(widths) if width > max(floor[number], 1)]
            if not shrinkable:
                break
            widths[max(shrinkable, key=lambda number: widths[number])] -= 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    # A column without any text has no width.
    wrapped = [textwrap.wrap(cell, width) if cell else [""] for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, wrapped))
    return [
        (" " * _GAP)
        .join(
            (cell[line] if line < len(cell) else "").ljust(width) for cell, width in zip(wrapped, widths, strict=True)
        )
        .rstrip()
        for line in range(height)
    ]


def paragraph(text: str, *, width: int, indent: str = "") -> str:
    return textwrap.fill(
        clean(text), width=min(width, 100), initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )


def labelled(label: str, text: str, *, width: int, label_columns: int = 12) -> str:
    """Return `label  text`, with later lines aligned to the text; if a word is too long, put the text below."""
    label = clean(label)
    if max(map(len, text.split()), default=0) > min(width, 100) - label_columns:
        return f"{label}\n{paragraph(text, width=width, indent='  ')}"
    return textwrap.fill(
        clean(text),
        width=min(width, 100),
        initial_indent=(f"{label} " if label else "").ljust(label_columns),
        subsequent_indent=" " * label_columns,
        break_long_words=False,
        break_on_hyphens=False,
    )


def shorten(text: str, width: int) -> str:
    """Cut a text to `width` characters; an ellipsis marks the cut."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def clean(text: str) -> str:
    """Replace unprintable characters in foreign text, so that it cannot control the terminal."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in text.replace("\n", " ").replace("\t", " ")
    )
