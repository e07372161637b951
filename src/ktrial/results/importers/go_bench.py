# SPDX-License-Identifier: Apache-2.0
"""Go's benchmark text: a run for each result line."""

from __future__ import annotations

import re

from ktrial.judge.model.asked import ImportOptions
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun
from ktrial.results.importers._go_bench import GoResult, read_go_bench
from ktrial.results.importers._shared import group_of

NAME = "go-bench"
WHAT = "Text of Go benchmarks (go test -bench) and of what prints like them."
_LINE = re.compile(rb"^Benchmark(?:[^a-z\s]\S*)?\s+\d+\s+\S+\s+\S+", re.MULTILINE)


def sniff(head: bytes, name: str) -> bool:
    """A result line."""
    return _LINE.search(head) is not None


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """A run for each line, in order; a failed benchmark is a failed run."""
    group = group_of(options.label, name)
    results = read_go_bench(data, name)
    runs = tuple(_run(result, group, number) for number, result in enumerate(results, 1))
    unknown = sorted({one.unit for result in results for one in result.values if one.base == "score"})
    notes = ["one value is a mean over its iterations"]
    if unknown:
        notes.append(f"kept as they stand, as scores: {', '.join(unknown)}")
    return ForeignResults(format=NAME, runs=runs, notes=tuple(notes))


def _run(result: GoResult, group: str, number: int) -> ForeignRun:
    attributes = dict(result.config)
    if result.processors is not None:
        attributes["gomaxprocs"] = str(result.processors)
    if result.iterations is not None:
        attributes["iterations"] = str(result.iterations)
    return ForeignRun(
        group=group,
        benchmark=result.name,
        number=number,
        measurements=tuple(
            ForeignMeasurement(
                outcome=one.unit, value=one.value, unit=one.base, direction=one.direction, original=one.original
            )
            for one in result.values
        ),
        attributes=attributes,
        failure=None if result.values else "the text says FAIL",
    )
