# SPDX-License-Identifier: Apache-2.0
"""Tables and paragraphs for a terminal: readable in 80 columns and without colour."""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Sequence

MINIMUM_COLUMNS = 60


def columns() -> int:
    """Width to write for: the terminal's, 80 where there is none."""
    return max(MINIMUM_COLUMNS, shutil.get_terminal_size((80, 24)).columns)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, styles: Sequence[str] = ()) -> str:
    """A table of `width` columns; cells wrap, nothing is cut off. Colour only where rich finds a colour terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, header in enumerate(headers):
        grid.add_column(header, overflow="fold", style=styles[number] if number < len(styles) else "")
    for row in rows:
        grid.add_row(*(Text(clean(cell)) for cell in row))
    sink = io.StringIO()
    Console(file=sink, width=width, highlight=False).print(grid)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())


def paragraph(text: str, *, width: int, indent: str = "") -> str:
    """Wrapped text."""
    return textwrap.fill(
        clean(text), width=min(width, 100), initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )


def labelled(label: str, text: str, *, width: int, label_columns: int = 12) -> str:
    """`label       text`, wrapped below the text."""
    return textwrap.fill(
        clean(text),
        width=min(width, 100),
        initial_indent=f"{label:<{label_columns}}",
        subsequent_indent=" " * label_columns,
        break_long_words=False,
        break_on_hyphens=False,
    )


def clean(text: str) -> str:
    """Foreign text without control characters, so that it cannot steer the terminal."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in text.replace("\n", " ").replace("\t", " ")
    )
