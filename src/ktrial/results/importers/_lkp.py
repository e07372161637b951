# SPDX-License-Identifier: Apache-2.0
"""`matrix.json` of lkp-tests: every statistic of several runs, a list for each, a column for each run.

`stats_source` names the runs: `…/TEST/PARAMETERS/MACHINE/…/COMMIT/NUMBER/stats.json`. A matrix of one single run has
none: its columns are samples in time. A statistic that appears late is filled with zeros at the front, one that
disappears is short at the end: both are missing, not zero.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import json_document, json_list, unreadable
from ktrial.results.importers._units import json_signed

_SOURCE = "stats_source"


class LkpRun(msgspec.Struct, frozen=True, kw_only=True):
    """One column: where it came from, and the statistics that it has, in the file's order."""

    path: str
    values: Mapping[str, float]


class LkpMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """All runs. `filled` counts the zeros at the front that were left out."""

    runs: tuple[LkpRun, ...]
    filled: int


def read_lkp(data: bytes, source: str = "matrix.json") -> LkpMatrix:
    """Read a matrix of several runs."""
    document = json_document(data, source)
    if _SOURCE not in document:
        raise BadRun(
            f"{source}: no 'stats_source': the matrix of one run, whose columns are samples in time, not runs",
            hint="give the matrix.json one folder up: it has a column for each run",
        )
    paths = json_list(document.pop(_SOURCE), source, _SOURCE)
    if not paths or not all(isinstance(path, str) for path in paths):
        raise unreadable(source, None, repr(paths), f"{_SOURCE}: a list of paths, one for each run")
    if len(set(paths)) != len(paths):
        raise unreadable(source, None, repr(paths), f"{_SOURCE}: paths that differ")
    columns: list[dict[str, float]] = [{} for _ in paths]
    filled = 0
    for name, value in document.items():
        items = json_list(value, source, name)
        if len(items) > len(paths):
            raise unreadable(source, None, f"{len(items)} items", f"{name}: at most one for each of {len(paths)} runs")
        numbers = [json_signed(item, source, f"{name}[{index}]") for index, item in enumerate(items)]
        first = next((index for index, number in enumerate(numbers) if number), len(numbers))
        filled += first
        for column, number in zip(columns[first:], numbers[first:], strict=False):
            column[name] = number
    if not any(columns):
        raise unreadable(source, None, "the document", "a matrix of statistics: it holds no value but 0")
    runs = tuple(LkpRun(path=path, values=values) for path, values in zip(paths, columns, strict=True))
    return LkpMatrix(runs=runs, filled=filled)
