# SPDX-License-Identifier: Apache-2.0
"""`matrix.json` of lkp-tests: a run for each column, the commit is the group. It has a list for every statistic.

`stats_source` names the runs: `…/TEST/PARAMETERS/MACHINE/…/COMMIT/NUMBER/stats.json`. A matrix of one single run has
none: its columns are samples in time. A statistic that appears late is filled with zeros at the front, one that
disappears is short at the end: both are missing, not zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import json_document, json_list, unreadable
from ktrial.results.foreign import ForeignResults, ForeignRun, slug, stem
from ktrial.results.importers._shared import has_keys, labelled, looks_like_json
from ktrial.results.importers._units import AS_IT_STANDS, Scale, json_signed, scale_of
from ktrial.results.model import StoredMeasurement

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


NAME = "lkp"
WHAT = "matrix.json of lkp-tests, the one with a column for each run."
_FIRST = re.compile(rb'\s*\{\s*"[^"]+\.[^"]+"\s*:\s*\[\s*-?[0-9]')
_SUFFIX = re.compile(r"_(us|ms|ns)$")
#: Parts of a path from its end: run number and file behind the commit; at least the test stands before it.
_LEAST_PARTS = 4


def sniff(head: bytes, name: str) -> bool:
    """Lists of numbers by dotted names, in a file that is called so."""
    if has_keys(head, "stats_source"):
        return True
    return looks_like_json(head) and stem(name) == "matrix" and _FIRST.match(head) is not None


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each column, with all statistics that it has."""
    matrix = read_lkp(data, name)
    runs = [_run(run, number, name) for number, run in enumerate(matrix.runs, 1)]
    notes = ["no statistic tells its unit: kept as they stand, but for times named _us, _ms or _ns"]
    if matrix.filled:
        notes.append(
            f"{matrix.filled} zeros at the front of a statistic are left out: lkp writes them where a run has none"
        )
    return ForeignResults(format=NAME, runs=labelled(runs, options.label, name), notes=tuple(notes))


def _run(run: LkpRun, number: int, name: str) -> ForeignRun:
    parts = [part for part in run.path.split("/") if part]
    after = parts[parts.index("result") + 1 :] if "result" in parts else parts
    group = after[-3] if len(after) >= _LEAST_PARTS else stem(name)
    benchmark = slug(after[0]) if len(after) >= _LEAST_PARTS else "lkp"
    return ForeignRun(
        group=group,
        benchmark=benchmark,
        number=number,
        measurements=tuple(_measurement(key, value, f"{key} of {run.path}", name) for key, value in run.values.items()),
        attributes={"path": run.path},
        failure=None if run.values else "has no statistic",
    )


def _measurement(key: str, value: float, at: str, name: str) -> StoredMeasurement:
    match = _SUFFIX.search(key)
    scale: Scale = (scale_of(match[1]) if match else None) or AS_IT_STANDS
    shown = f" {match[1]}" if match else ""
    return StoredMeasurement(
        outcome=key,
        value=scale.value(value, name, None, at),
        unit=scale.unit,
        direction=None,
        original=f"{value}{shown}",
    )
