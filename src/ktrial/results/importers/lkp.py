# SPDX-License-Identifier: Apache-2.0
"""`matrix.json` of lkp-tests: a list for every statistic, one run per column. The commit is the group.

`stats_source` names the runs: `…/TEST/PARAMETERS/MACHINE/…/COMMIT/NUMBER/stats.json`. The matrix of a single run lacks
it: its columns are samples over time. If runs lack a statistic, lkp writes zeros at the front of its list, or a list
that is too short; ktrial treats both as missing, not as zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import Quantity, json_document, json_list, unreadable, unreadable_value
from ktrial.results.foreign import ForeignResults, ForeignRun, slug, stem
from ktrial.results.importers._shared import has_keys, labelled, looks_like_json, measurement
from ktrial.results.importers._units import AS_IT_STANDS, Scale, json_signed, scale_of
from ktrial.results.model import StoredMeasurement

_SOURCE = "stats_source"


class LkpRun(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the matrix, which is a run: its source path and its statistics, in the file's order."""

    path: str
    values: Mapping[str, float]


class LkpMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of a file; `filled` counts the zeros at the front of the file's lists, which ktrial ignores."""

    runs: tuple[LkpRun, ...]
    filled: int


def read_lkp(data: bytes, source: str = "matrix.json") -> LkpMatrix:
    document = json_document(data, source)
    if _SOURCE not in document:
        raise BadRun(
            f"{source}: this matrix has samples of one run and no 'stats_source' that names runs",
            hint="use the matrix.json one folder up, which has a column for each run",
        )
    paths = json_list(document.pop(_SOURCE), source, _SOURCE)
    if not paths or not all(isinstance(path, str) for path in paths):
        raise unreadable_value(source, paths, f"a list of paths, one for each run ({_SOURCE})")
    if len(set(paths)) != len(paths):
        raise unreadable_value(source, paths, f"a list of different paths ({_SOURCE})")
    columns: list[dict[str, float]] = [{} for _ in paths]
    filled = 0
    for name, value in document.items():
        items = json_list(value, source, name)
        if len(items) > len(paths):
            raise unreadable(source, None, "", f"consistent: {name} has {len(items)} values for {len(paths)} runs")
        numbers = [json_signed(item, source, f"{name}[{index}]") for index, item in enumerate(items)]
        first = next((index for index, number in enumerate(numbers) if number), len(numbers))
        filled += first
        for column, number in zip(columns[first:], numbers[first:], strict=False):
            column[name] = number
    if not any(columns):
        raise unreadable(source, None, "", "a matrix of statistics: all its values are 0")
    runs = tuple(LkpRun(path=path, values=values) for path, values in zip(paths, columns, strict=True))
    return LkpMatrix(runs=runs, filled=filled)


NAME = "lkp"
WHAT = "matrix.json of lkp-tests, the one with a column for each run."
_FIRST = re.compile(rb'\s*\{\s*"[^"]+\.[^"]+"\s*:\s*\[\s*-?[0-9]')
_SUFFIX = re.compile(r"_(us|ms|ns)$")
#: A path has at least test, commit, run number and file.
_LEAST_PARTS = 4


def sniff(head: bytes, name: str) -> bool:
    """Return whether the file is a matrix of lkp.

    Such a file has the key `stats_source`, or is called `matrix` and its first key contains a dot and lists numbers.
    """
    if has_keys(head, "stats_source"):
        return True
    return looks_like_json(head) and stem(name) == "matrix" and _FIRST.match(head) is not None


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each column, with all its statistics."""
    matrix = read_lkp(data, name)
    runs = [_run(run, number, name) for number, run in enumerate(matrix.runs, 1)]
    notes = ["the file has no units: statistics are stored unchanged, except times named _us, _ms or _ns"]
    if matrix.filled:
        notes.append(
            f"{matrix.filled} zeros at the front of statistics are ignored: lkp writes them for missing values"
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
    return measurement(key, Quantity(scale.value(value, name, None, at), f"{value}{shown}"), scale.unit, None)
