# SPDX-License-Identifier: Apache-2.0
"""matrix.json of lkp-tests: a run for each column, the commit is the group."""

from __future__ import annotations

import re

from ktrial.judge.model.asked import ImportOptions
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun
from ktrial.results.foreign_names import slug, stem
from ktrial.results.importers._lkp import LkpRun, read_lkp
from ktrial.results.importers._shared import has_keys, labelled, looks_like_json
from ktrial.results.importers._units import AS_IT_STANDS, Scale, scale_of

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
    """A run for each column, with all statistics that it has."""
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


def _measurement(key: str, value: float, at: str, name: str) -> ForeignMeasurement:
    match = _SUFFIX.search(key)
    scale: Scale = (scale_of(match[1]) if match else None) or AS_IT_STANDS
    shown = f" {match[1]}" if match else ""
    return ForeignMeasurement(
        outcome=key,
        value=scale.value(value, name, None, at),
        unit=scale.unit,
        direction=None,
        original=f"{value}{shown}",
    )
