# SPDX-License-Identifier: Apache-2.0
"""margine-bench-kernel/1: one run of several measurements."""

from __future__ import annotations

from ktrial.judge.model.asked import ImportOptions
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun
from ktrial.results.importers._margine import METRICS, SCHEMA, read_margine
from ktrial.results.importers._shared import group_of, has_schema

NAME = "margine"
WHAT = "JSON of margine-bench-kernel/1."


def sniff(head: bytes, name: str) -> bool:
    """Its schema."""
    return has_schema(head, SCHEMA)


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """One run; its label is the group."""
    run = read_margine(data, name)
    found = tuple(
        ForeignMeasurement(
            outcome=metric.outcome,
            value=metric.scale.value(run.numbers[key], name, None, key),
            unit=metric.scale.unit,
            direction=metric.direction,
            original=f"{run.numbers[key]} {metric.unit}",
        )
        for key, metric in METRICS.items()
        if key in run.numbers
    )
    notes = ["one file is one run: import several of each label"]
    if run.collected is not None and run.expected is not None and run.collected < run.expected:
        notes.append(f"only {run.collected} of {run.expected} metrics were measured")
    whole = ForeignRun(
        group=options.label or run.label or group_of(None, name),
        benchmark="margine-bench-kernel",
        number=1,
        measurements=found,
        attributes=run.attributes,
    )
    return ForeignResults(format=NAME, runs=(whole,), notes=tuple(notes))
