# SPDX-License-Identifier: Apache-2.0
"""Tables with one row per run; options name the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput
from ktrial.kit.formats.tidy_csv import Row, TidyTable, delimiter_of, is_of_blanks, read_tidy_csv
from ktrial.kit.formats.tool_output import Quantity, unreadable
from ktrial.results.foreign import ForeignResults, ForeignRun, slug, stem
from ktrial.results.importers._shared import group_of, measurement
from ktrial.results.importers._units import AS_IT_STANDS, Scale, known_units, scale_of, signed_number
from ktrial.results.model import StoredMeasurement

NAME = "csv"
WHAT = "Tidy CSV or blank-separated table: one row per run; --value, --by, --block and --benchmark name the columns."
TAKES_COLUMNS = True
_NAMED_UNIT = re.compile(r"(.+?)(?<!\s)\s*+[(\[]([^()\[\]]+)[)\]]")
_ENDING = re.compile(r"(.+)_(s|ms|us|ns|sec|bytes|percent)")
_RATE = re.compile(r"(?:.*_)?([^_]+)_per_(s|sec|second|min|minute)")
_CELL = re.compile(r"(\S*[\d.,])\s*([^\d\s.,+-].*)")
#: Things to count whose names are not plurals.
_COUNTED = frozenset({"io", "irq", "req", "op", "tx", "rx", "bogo", "cswch", "packet", "frame"})
#: Units of size as names of columns spell them, in lower case.
_SIZES = {"kb": "kB", "mb": "MB", "gb": "GB", "kib": "KiB", "mib": "MiB", "gib": "GiB"}
_UNIT = "unit"
#: A message names at most this many values of a column, and this many characters of each.
_SHOWN, _LONGEST = 8, 40
#: Names of the columns that replace those of --groups.
_GROUP, _VALUE = "group of --groups", "value"
_SUMMARY = ("mean", "stddev", "median")


class _Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of values: its header, the outcome and unit that the header names, and its index."""

    header: str
    outcome: str
    place: int
    unit: str | None


def sniff(head: bytes, name: str) -> bool:
    """Return whether the file looks like a table. Other formats take precedence.

    In a table, blanks separate the cells, or the first two lines have equally many delimiters. If the file's name ends
    in .csv or .tsv, a delimiter in the first line suffices.
    """
    if b"\0" in head:
        return False
    lines = [line for line in head.decode("utf-8", "replace").split("\n") if line.strip()]
    if is_of_blanks(lines):
        return True
    delimiter = delimiter_of(lines[0]) if lines else None
    if delimiter is None or lines[0].lstrip("\ufeff").lstrip()[:1] in {"{", "[", "<"}:
        return False
    if all(line.startswith(delimiter) for line in lines[:2]):
        return False  # an indented text
    named = name.lower().endswith((".csv", ".tsv"))
    return named or (len(lines) > 1 and lines[0].count(delimiter) == lines[1].count(delimiter))


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each row. A row without values is a failed run, never 0."""
    whole = read_tidy_csv(data, name)
    _check_summary(whole, name)
    if options.groups:
        whole, options = _rows_of_groups(whole, options, name)
    numbers = _select_rows(whole, options.where or (), name)
    table = msgspec.structs.replace(whole, rows=tuple(whole.rows[number - 1] for number in numbers))
    columns = _value_columns(table, options, name)
    _check_unit(columns, options, name)
    by = _group_places(table, options.by, name)
    block, benchmark = (
        _place(table, column, option, name)
        for column, option in ((options.block, "--block"), (options.benchmark, "--benchmark"))
    )
    scales = {column.header: _scale(column, table, options, name) for column in columns}
    of_row = _unit_column(table, columns)
    used = {column.place for column in columns}
    used |= {place for place in (*by, block, benchmark, of_row) if place is not None}
    fallback = group_of(options.label, name)
    runs = [
        ForeignRun(
            group=" / ".join(_cell(row, place, table, name) for place in by) or fallback,
            benchmark=slug(stem(name)) if benchmark is None else _cell(row, benchmark, table, name),
            number=number,
            block=None if block is None else _cell(row, block, table, name),
            attributes={
                header: row.cells[place].strip()
                for place, header in enumerate(table.columns)
                if place not in used and row.cells[place].strip()
            },
            measurements=(values := _measurements_of(row, columns, _of_row(row, of_row, scales), options, name)),
            in_order=not options.groups,
            failure=None if values else f"empty: {', '.join(column.header for column in columns)}",
        )
        for number, row in zip(numbers, table.rows, strict=True)
    ]
    if not any(run.measurements for run in runs):
        raise BadInput(
            f"every value is empty in {' and '.join(column.header for column in columns)}",
            file=name,
            hint=f"name another column with --value: {', '.join(table.columns)}",
        )
    return ForeignResults(
        format=NAME,
        runs=tuple(runs),
        notes=(
            *_notes(columns, {} if of_row is not None else scales, options, runs),
            *_twice(table),
            *_left_out(*(len({row.line for row in one.rows}) for one in (table, whole))),
        ),
    )


def _rows_of_groups(table: TidyTable, options: ImportOptions, name: str) -> tuple[TidyTable, ImportOptions]:
    """Turn a table with a column per group into one with a row per value; also return the options that read it.

    A column may be shorter than others: its empty cells below the last value are not runs.
    """
    label = f"the name {options.label!r}"
    others_given = {"--by": options.by, label: options.label, "a second --value": options.values[1:]}
    if clash := next((option for option, value in others_given.items() if value), None):
        raise BadInput(
            f"cannot combine --groups with {clash}: each column of --groups is a group",
            file=name,
            hint=f"leave out --groups or {clash}",
        )
    assert options.groups is not msgspec.UNSET
    groups = dict.fromkeys(column.strip() for column in options.groups.split(","))
    places = {column: place for column in groups if (place := _place(table, column, "--groups", name)) is not None}
    last = {
        place: max((row.line for row in table.rows if row.cells[place].strip()), default=0) for place in places.values()
    }
    if empty := [column for column, place in places.items() if not last[place]]:
        raise BadInput(
            f"--groups {empty[0]!r}: every cell of this column is empty",
            file=name,
            hint="remove this column from --groups" if len(empty) < len(places) else "name columns that have values",
        )
    others = [place for place, column in enumerate(table.columns) if column not in places]
    value = options.values[0] if options.values else _VALUE
    if value in (names := [table.columns[place] for place in others]):
        hint = "choose another name with --value, which names the values of --groups"
        raise BadInput(f"cannot name the values {value!r}: a column has this name", file=name, hint=hint)
    rows = tuple(
        Row(row.line, (*(row.cells[other] for other in others), column, row.cells[place]))
        for row in table.rows
        for column, place in places.items()
        if row.line <= last[place]
    )
    long = msgspec.structs.replace(table, columns=(*names, _GROUP, value), rows=rows)
    return long, msgspec.structs.replace(options, values=(value,), by=_GROUP)


def _select_rows(table: TidyTable, where: Sequence[str], name: str) -> list[int]:
    """Return the numbers of the rows that have one of the selected values in every named column."""
    selected: dict[int, set[str]] = {}
    for text in where:
        column = next((one for one in table.columns if text.startswith(f"{one}=")), text.partition("=")[0])
        place = _place(table, column, "--where", name)
        assert place is not None, "the option names a column"
        if "=" not in text:
            raise BadInput(f"--where {text!r}: missing value", file=name, hint="write COLUMN=VALUE")
        selected.setdefault(place, set()).add(text[len(column) + 1 :].strip())
    numbers = [
        number
        for number, row in enumerate(table.rows, 1)
        if all(row.cells[place].strip() in values for place, values in selected.items())
    ]
    if not numbers:
        choices = (f"values of {table.columns[place]}: {', '.join(_values(table, place))}" for place in selected)
        raise BadInput("--where matches no row", file=name, hint=f"use {'; '.join(choices)}")
    return numbers


def _values(table: TidyTable, place: int) -> list[str]:
    """Return the first values of a column, each cut to the length that a message may quote."""
    return [text[:_LONGEST] for text in sorted({row.cells[place].strip() for row in table.rows})[:_SHOWN]]


def _left_out(count: int, all_rows: int) -> tuple[str, ...]:
    return (f"--where excludes {all_rows - count} of {all_rows} rows",) if count < all_rows else ()


def _group_places(table: TidyTable, by: str | None, name: str) -> tuple[int, ...]:
    """Return the columns that together name the groups."""
    if by is None:
        return ()
    names = [by] if by in table.columns else [one.strip() for one in by.split(",")]
    return tuple(place for one in names if (place := _place(table, one, "--by", name)) is not None)


def _twice(table: TidyTable) -> tuple[str, ...]:
    again = [name for name in table.columns if name.endswith("#2") and name[:-2] in table.columns]
    return tuple(f"column {name[:-2]!r} occurs twice: the second one is {name!r}" for name in again)


def _check_summary(table: TidyTable, name: str) -> None:
    if all(word in table.columns for word in _SUMMARY):
        raise BadInput(
            "this table has only summaries (mean, stddev, median), no single runs",
            file=name,
            hint="export the single runs; hyperfine writes them with --export-json",
        )


def _place(table: TidyTable, wanted: str | None, option: str, name: str) -> int | None:
    if wanted is None:
        return None
    if wanted not in table.columns:
        raise BadInput(
            f"{option} {wanted!r}: no such column", file=name, hint=f"use one of: {', '.join(table.columns)}"
        )
    return table.columns.index(wanted)


def _value_columns(table: TidyTable, options: ImportOptions, name: str) -> tuple[_Column, ...]:
    if not options.values:
        raise BadInput(
            "no option names the column of the values",
            file=name,
            hint=f"add --value COLUMN (one of {', '.join(table.columns)}) and --by COLUMN for the groups, "
            "or --groups COLUMN,COLUMN if each group has its own column",
        )
    columns: dict[str, _Column] = {}
    for header in options.values:
        place = _place(table, header, "--value", name)
        assert place is not None, "the option names a column"
        outcome, unit = _outcome_and_unit(header)
        if outcome in columns:
            raise BadInput(
                f"--value {header!r}: another column already measures {outcome}",
                file=name,
                hint="leave out one of the columns",
            )
        columns[outcome] = _Column(header=header, outcome=outcome, place=place, unit=unit)
    return tuple(columns.values())


def _outcome_and_unit(header: str) -> tuple[str, str | None]:
    """Return the outcome and the unit in a header: `time(sec)`, `p99_us`, `requests_per_s`, `read_MB_per_s`."""
    if named := _NAMED_UNIT.fullmatch(header):
        return named[1], named[2].strip()
    if rate := _RATE.fullmatch(header):
        time = "min" if rate[2].startswith("min") else "s"
        unit = f"{rate[1]}/{time}"
        return header, unit if scale_of(unit) is not None else f"1/{time}"
    ending = _ENDING.fullmatch(header)
    if ending and ending[2] in {"s", "sec"} and (rate_unit := _rate_unit(ending[1])) is not None:
        return header, rate_unit
    return (ending[1], ending[2]) if ending else (header, None)


def _rate_unit(name: str) -> str | None:
    """Return the unit of `read_MB_s` or `faults_s`, if the word before the seconds is a size or a count."""
    word = name.rpartition("_")[2]
    word = _SIZES.get(word, word)
    if (scale := scale_of(f"{word}/s")) is not None and scale.unit == "B/s":
        return f"{word}/s"
    plural = word.endswith("s") and not word.endswith(("ss", "times", "latencies", "seconds", "durations", "delays"))
    return "1/s" if plural or word.lower() in _COUNTED else None


def _cell(row: Row, place: int, table: TidyTable, name: str) -> str:
    text = row.cells[place].strip()
    if not text:
        raise unreadable(name, row.line, "", f"a value of column {table.columns[place]!r}: the cell is empty")
    return text


def _scale(column: _Column, table: TidyTable, options: ImportOptions, name: str) -> tuple[str, Scale]:
    """Return the unit of a column: from the header, from --unit, or the one in all of its cells."""
    header = column.unit if column.unit is not None and scale_of(column.unit) is not None else None
    unit = header or options.unit or column.unit or _unit_of_cells(column, table, name)
    if unit is None:
        return "", AS_IT_STANDS
    return unit, scale_of(unit) or AS_IT_STANDS


def _check_unit(columns: Sequence[_Column], options: ImportOptions, name: str) -> None:
    """Raise BadInput if --unit is unknown, or if all columns name another unit themselves."""
    if options.unit is None:
        return
    scale = scale_of(options.unit)
    if scale is None:
        raise BadInput(f"--unit {options.unit}: no such unit", hint=f"use one of: {', '.join(known_units())}")
    scales = [None if column.unit is None else scale_of(column.unit) for column in columns]
    if None not in scales and scale not in scales:
        raise BadInput(
            f"--unit {options.unit}: the header of column {columns[0].header!r} says {columns[0].unit}",
            file=name,
            hint="remove --unit, or rename the column if its name is wrong",
        )


def _unit_column(table: TidyTable, columns: Sequence[_Column]) -> int | None:
    """Return the index of the column `unit` for a single column of values without its own unit; otherwise None."""
    alone = len(columns) == 1 and columns[0].unit is None
    return table.columns.index(_UNIT) if alone and _UNIT in table.columns else None


def _of_row(row: Row, place: int | None, scales: dict[str, tuple[str, Scale]]) -> dict[str, tuple[str, Scale]]:
    """Return the scales of a row, which may name its own unit."""
    unit = "" if place is None else row.cells[place].strip()
    scale = scale_of(unit) if unit else None
    return scales if scale is None else dict.fromkeys(scales, (unit, scale))


def _unit_of_cells(column: _Column, table: TidyTable, name: str) -> str | None:
    first: tuple[int, str] | None = None
    bare: tuple[int, str] | None = None
    for row in table.rows:
        text = row.cells[column.place].strip()
        match = _CELL.fullmatch(text)
        if match is None or scale_of(match[2]) is None:
            bare = bare or ((row.line, text) if text else None)
        elif first is None:
            first = (row.line, match[2])
        elif first[1] != match[2]:
            raise unreadable(name, row.line, text, f"in {first[1]}, the unit of line {first[0]}")
    if first is not None and bare is not None:
        raise unreadable(name, bare[0], bare[1], f"in {first[1]}, the unit of line {first[0]}")
    return first[1] if first else None


def _measurements_of(
    row: Row, columns: Sequence[_Column], scales: dict[str, tuple[str, Scale]], options: ImportOptions, name: str
) -> tuple[StoredMeasurement, ...]:
    measurements: list[StoredMeasurement] = []
    for column in columns:
        text = row.cells[column.place].strip()
        if not text:
            continue
        unit, scale = scales[column.header]
        match = _CELL.fullmatch(text)
        if match is not None and scale_of(match[2]) is not None:
            if match[2] != unit:
                raise unreadable(name, row.line, text, f"in {unit}, the unit of column {column.header!r}")
            text = match[1]
        expected = f"a value of column {column.header!r}"
        number = signed_number(text, name, row.line, expected)
        quantity = Quantity(scale.value(number, name, row.line, expected), f"{number} {unit}".strip())
        measurements.append(measurement(column.outcome, quantity, scale.unit, options.direction))
    return tuple(measurements)


def _notes(
    columns: Sequence[_Column], scales: dict[str, tuple[str, Scale]], options: ImportOptions, runs: Sequence[ForeignRun]
) -> tuple[str, ...]:
    notes: list[str] = []
    for column in columns:
        unit, scale = scales.get(column.header, ("", None))
        if scale is AS_IT_STANDS:
            what = f"unit {unit!r} is unknown" if unit else "no unit (set it with --unit)"
            notes.append(f"{column.header}: {what}: stored unchanged, as a score")
    if options.direction is None:
        notes.append("it is unknown which direction is better (set it with --direction)")
    failed = sum(run.failure is not None for run in runs)
    if failed:
        notes.append(f"{failed} of {len(runs)} rows have no value and are stored as failed runs")
    return tuple(notes)
