# SPDX-License-Identifier: Apache-2.0
"""Tidy CSV of `ktrial export-runs`: one row per measurement, in base units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.formats.tidy_csv import Row, read_tidy_csv
from ktrial.kit.formats.tool_output import Quantity, unreadable
from ktrial.kit.outcome import Direction, Unit
from ktrial.results.foreign import ForeignResults, ForeignRun
from ktrial.results.importers._shared import is_own_table, labelled, measurement
from ktrial.results.importers._units import Scale, signed_number
from ktrial.results.model import StoredMeasurement

NAME = "ktrial-csv"
WHAT = "Tidy CSV of ktrial export-runs: one row for each measurement, in base units."
_NEEDED = (
    *("session", "label", "run", "round", "benchmark", "outcome"),
    *("value", "unit", "direction", "original", "state"),
)
_UNITS: Mapping[str, Unit] = {unit: unit for unit in get_args(Unit)}
_DIRECTIONS: Mapping[str, Direction | None] = {"lower": "lower", "higher": "higher", "": None}
_Key = tuple[str, str, str, str]


def sniff(head: bytes, name: str) -> bool:
    return is_own_table(head)


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Combine the rows of each run. Return the runs without warm-ups (round 0)."""
    table = read_tidy_csv(data, name)
    missing = [column for column in _NEEDED if column not in table.columns]
    if missing:
        raise unreadable(
            name, 1, ",".join(table.columns), f"ktrial's own table: the header lacks {' and '.join(missing)}"
        )
    grouped: dict[_Key, list[tuple[Row, dict[str, str]]]] = {}
    for row in table.rows:
        cells = dict(zip(table.columns, (cell.strip() for cell in row.cells), strict=True))
        grouped.setdefault((cells["session"], cells["run"], cells["round"], cells["benchmark"]), []).append(
            (row, cells)
        )
    counted = {key: rows for key, rows in grouped.items() if key[2] != "0"}
    if not counted:
        raise unreadable(name, None, "", "a table with runs that count: it has only warm-ups")
    runs = [_run(rows, number, name) for number, rows in enumerate(counted.values(), 1)]
    left_out = len(grouped) - len(counted)
    notes = (f"warm-ups ignored: {left_out}",) if left_out else ()
    return ForeignResults(format=NAME, runs=labelled(runs, options.label, name), notes=notes)


def _run(rows: list[tuple[Row, dict[str, str]]], number: int, name: str) -> ForeignRun:
    first, cells = rows[0]
    if not cells["benchmark"] or not (cells["label"] or cells["session"]):
        wanted = "a row that names its benchmark and its label or session"
        raise unreadable(name, first.line, ",".join(first.cells), wanted)
    good = cells["state"] == "ok"
    measurements = tuple(_measurement(row, own, name) for row, own in rows if good and own["outcome"])
    bad = "has no measurement" if good else f"its state was {cells['state'] or 'unknown'}"
    return ForeignRun(
        group=cells["label"] or cells["session"],
        benchmark=cells["benchmark"],
        number=number,
        block=cells["round"] or None,
        measurements=measurements,
        attributes={key: cells[key] for key in ("session", "run", "started_unix_ms") if cells.get(key)},
        failure=None if measurements else bad,
    )


def _measurement(row: Row, cells: Mapping[str, str], name: str) -> StoredMeasurement:
    if cells["unit"] not in _UNITS:
        raise unreadable(name, row.line, cells["unit"], f"a base unit ({', '.join(_UNITS)})")
    if cells["direction"] not in _DIRECTIONS:
        raise unreadable(name, row.line, cells["direction"], "a direction (lower, higher or empty)")
    unit, expected = _UNITS[cells["unit"]], f"a value of {cells['outcome']}"
    number = signed_number(cells["value"], name, row.line, expected)
    value = Scale(unit).value(number, name, row.line, expected)
    quantity = Quantity(value, cells["original"] or f"{number} {cells['unit']}")
    return measurement(cells["outcome"], quantity, unit, _DIRECTIONS[cells["direction"]])
