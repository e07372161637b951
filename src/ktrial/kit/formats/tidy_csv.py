# SPDX-License-Identifier: Apache-2.0
"""Reader of text tables: a header, then one row per run. Commas, semicolons, tabs or blanks separate the cells.

Every row must have as many cells as the header. If blanks separate the cells, a line that begins with `#` is a comment,
unless it is the header.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import decode_output, for_message, unreadable

DELIMITERS = ",;\t"
_BLANK = " "
_COMMENT = "#"
#: Characters of a ruling line between a header and its rows.
_RULE = "-=+| \t\r"
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[^\d.]*", re.ASCII)


class Row(msgspec.Struct, frozen=True):
    """A row and the line on which it ends."""

    line: int
    cells: tuple[str, ...]


class TidyTable(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed table: its columns, its rows, and the delimiter between their cells."""

    delimiter: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def delimiter_of(header: str) -> str | None:
    """Return the delimiter between the names of a header; None without a comma, semicolon or tab."""
    most = max(DELIMITERS, key=header.count)
    return most if most in header else None


def is_of_blanks(lines: Sequence[str]) -> bool:
    """Return whether only blanks separate the cells of a table.

    That needs a header without numbers, and a first row that has numbers and as many cells as the header.
    """
    first_two = list(islice((line for line in _of_blanks(lines) if line), 2))
    if len(first_two) < 2 or delimiter_of(first_two[0]) is not None or "|" in first_two[0]:
        return False
    header, row = (line.split() for line in first_two)
    return len(header) == len(row) > 1 and _has_number(row) and not _has_number(header) and header[0][0] not in "{[<"


def read_tidy_csv(data: bytes, source: str = "results.csv") -> TidyTable:
    """Read a table, skipping blank lines.

    Raise BadRun if no row follows the header, or if the header looks like a row. Raise BadRun for a row with more or
    fewer cells than the header.
    """
    text = decode_output(data, source).removeprefix("\ufeff")
    lines: Iterable[str] = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    delimiter = delimiter_of(first) or ","
    if is_of_blanks(text.split("\n")):
        delimiter, lines = _BLANK, _of_blanks(text.split("\n"))
    rows = _rows(lines, delimiter, source)
    head = next(rows, None)
    if head is None:
        raise unreadable(source, 1, first, "a table: it has no header")
    columns = _unique_names(head.cells)
    kept: list[Row] = []
    for row in rows:
        if len(row.cells) != len(columns):
            raise unreadable(source, row.line, delimiter.join(row.cells), _wrong_length(row, columns, delimiter))
        kept.append(row)
    if not kept:
        raise unreadable(source, head.line, first, "a table of results: no row follows the header")
    if (like := _numbers(head.cells)) and like == _numbers(kept[0].cells):
        raise BadRun(
            f"{source}:{head.line}: {for_message(first)} is not a header: the next row has numbers in the same columns",
            hint="add a first line that names the columns",
        )
    return TidyTable(delimiter=delimiter, columns=columns, rows=tuple(kept))


def _numbers(cells: Sequence[str]) -> frozenset[int]:
    return frozenset(place for place, cell in enumerate(cells) if _NUMBER.fullmatch(cell.strip()))


def _unique_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Return names for the columns: the second column called NAME becomes `NAME#2`, a nameless one `column 3`."""
    names: dict[str, None] = {}
    times: Counter[str] = Counter()
    for place, cell in enumerate(cells, 1):
        name = plain = cell.strip() or f"column {place}"
        while name in names:
            times[plain] += 1
            name = f"{plain}#{times[plain] + 1}"
        names[name] = None
    return tuple(names)


def _of_blanks(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines. Empty comments and ruling lines, and remove the `#` of a header."""
    plain = next((at for at, line in enumerate(lines) if line.strip() and not _is_beside(line)), len(lines))
    marked = next((at for at in reversed(range(plain)) if lines[at].lstrip().startswith(_COMMENT)), None)
    if marked is not None and plain < len(lines):
        header, row = lines[marked].lstrip().lstrip(_COMMENT).split(), lines[plain].split()
        if len(header) != len(row) or not _has_number(row):
            marked = None
    for at, line in enumerate(lines):
        if at == marked:
            yield " ".join(line.lstrip().lstrip(_COMMENT).split())
        else:
            yield "" if _is_beside(line) else " ".join(line.split())


def _has_number(words: Sequence[str]) -> bool:
    return any(map(_NUMBER.fullmatch, words))


def _is_beside(line: str) -> bool:
    return line.lstrip().startswith(_COMMENT) or not line.strip(_RULE)


def _rows(lines: Iterable[str], delimiter: str, source: str) -> Iterator[Row]:
    ended = (line + "\n" for line in lines)
    reader = csv.reader(ended, delimiter=delimiter, skipinitialspace=delimiter == _BLANK, strict=True)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            place = f"{source}:{reader.line_num}"
            raise unreadable(place, None, "", f"a row of cells, quoted as in CSV: {error}") from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield Row(reader.line_num, tuple(cells))


def _wrong_length(row: Row, columns: tuple[str, ...], delimiter: str) -> str:
    comma = delimiter == "," and len(row.cells) > len(columns)
    why = " (are decimals written with a comma?)" if comma else ""
    return f"a row of {len(columns)} cells: it has {len(row.cells)}{why}"
