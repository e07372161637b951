# SPDX-License-Identifier: Apache-2.0
"""Tables as text: a header, then one row for each run, separated by commas, semicolons or tabs.

Every row must be as long as the header.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ktrial.formats.tool_output import decoded, shown, unreadable

DELIMITERS = ",;\t"


class Row(msgspec.Struct, frozen=True):
    """One row and the line on which it ends."""

    line: int
    cells: tuple[str, ...]


class TidyTable(msgspec.Struct, frozen=True, kw_only=True):
    """A whole table."""

    delimiter: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def delimiter_of(header: str) -> str | None:
    """What separates the names of a header; None where nothing does."""
    counts = {delimiter: header.count(delimiter) for delimiter in DELIMITERS}
    most = max(counts, key=lambda delimiter: counts[delimiter])
    return most if counts[most] else None


def read_tidy_csv(data: bytes, source: str = "results.csv") -> TidyTable:
    """Read a table; a header without rows is refused, blank lines are passed over."""
    text = decoded(data, source).removeprefix("\ufeff")
    first = next((line for line in text.split("\n") if line.strip()), "")
    delimiter = delimiter_of(first) or ","
    rows = _rows(text, delimiter, source)
    head = next(rows, None)
    if head is None:
        raise unreadable(source, 1, first, "a table: it has no header")
    columns = _named(head.cells)
    found: list[Row] = []
    for row in rows:
        if len(row.cells) != len(columns):
            raise unreadable(source, row.line, delimiter.join(row.cells), _wrong_length(row, columns, delimiter))
        found.append(row)
    if not found:
        raise unreadable(source, head.line, first, "a table of results: no row follows its header")
    return TidyTable(delimiter=delimiter, columns=columns, rows=tuple(found))


def _named(cells: Sequence[str]) -> tuple[str, ...]:
    """The columns; the second one of a name is `NAME#2`, and one without a name is called by its place."""
    names: dict[str, None] = {}
    times: Counter[str] = Counter()
    for place, cell in enumerate(cells, 1):
        name = plain = cell.strip() or f"column {place}"
        while name in names:
            times[plain] += 1
            name = f"{plain}#{times[plain] + 1}"
        names[name] = None
    return tuple(names)


def _rows(text: str, delimiter: str, source: str) -> Iterator[Row]:
    reader = csv.reader((line + "\n" for line in text.split("\n")), delimiter=delimiter, strict=True)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise unreadable(source, reader.line_num, shown(str(error)), "a row of cells, quoted as in CSV") from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield Row(reader.line_num, tuple(cells))


def _wrong_length(row: Row, columns: tuple[str, ...], delimiter: str) -> str:
    comma = delimiter == "," and len(row.cells) > len(columns)
    why = ": are decimals written with a comma?" if comma else ""
    return f"a row of {len(columns)} cells: it has {len(row.cells)}{why}"
