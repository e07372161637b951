# SPDX-License-Identifier: Apache-2.0
"""`margine-bench-kernel/1`: one flat JSON object for one run of that script, without what was not measured."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.formats.tool_output import json_document, unreadable
from ktrial.kit.outcome import Direction
from ktrial.results.foreign import ForeignResults, ForeignRun
from ktrial.results.importers._shared import group_of, has_schema
from ktrial.results.importers._units import Scale, json_signed
from ktrial.results.model import StoredMeasurement

SCHEMA = "margine-bench-kernel/1"


class MargineMetric(msgspec.Struct, frozen=True, kw_only=True):
    """What a key measures: outcome, unit as shown, scale. The script's fixed time of a run has no direction."""

    outcome: str
    unit: str
    scale: Scale
    direction: Direction | None


def _metric(outcome: str, unit: str, scale: Scale, direction: Direction | None) -> MargineMetric:
    return MargineMetric(outcome=outcome, unit=unit, scale=scale, direction=direction)


_US, _MS = Scale("s", 1, 10**6), Scale("s", 1, 10**3)
METRICS: Mapping[str, MargineMetric] = {
    "schbench_p50_us": _metric("schbench-p50", "us", _US, "lower"),
    "schbench_p99_us": _metric("schbench-p99", "us", _US, "lower"),
    "sched_messaging_total_s": _metric("sched-messaging-total", "s", Scale("s"), "lower"),
    "sched_pipe_usecs_op": _metric("sched-pipe-time", "us", _US, "lower"),
    "sched_pipe_ops_sec": _metric("sched-pipe-rate", "1/s", Scale("1/s"), "higher"),
    "sysbench_events": _metric("sysbench-events", "count", Scale("count"), "higher"),
    "sysbench_total_time_s": _metric("sysbench-total-time", "s", Scale("s"), None),
    "sysbench_lat_avg_ms": _metric("sysbench-latency-mean", "ms", _MS, "lower"),
    "sysbench_lat_95th_ms": _metric("sysbench-latency-p95", "ms", _MS, "lower"),
}


class MargineRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: numbers by key as the file has them, and all else as text."""

    label: str | None
    numbers: Mapping[str, float]
    attributes: Mapping[str, str]
    collected: int | None
    expected: int | None


def read_margine(data: bytes, source: str = "run.json") -> MargineRun:
    """Read one run; a file that only says what machine it was is refused."""
    document = json_document(data, source)
    if document.get("schema") != SCHEMA:
        raise unreadable(source, None, repr(document.get("schema")), f"schema: {SCHEMA}")
    numbers: dict[str, float] = {}
    for key in METRICS:
        if key in document:
            numbers[key] = json_signed(document[key], source, key)
    if not numbers:
        raise unreadable(source, None, "the document", "a run that measured something: it only tells of the machine")
    label = document.get("label")
    counts = [document.get(key) for key in ("metrics_collected", "metrics_expected")]
    collected, expected = (one if isinstance(one, int) else None for one in counts)
    return MargineRun(
        label=label if isinstance(label, str) and label else None,
        numbers=numbers,
        attributes={
            key: str(value)
            for key, value in document.items()
            if key not in METRICS and key != "label" and isinstance(value, str | int | float)
        },
        collected=collected,
        expected=expected,
    )


NAME = "margine"
WHAT = "JSON of margine-bench-kernel/1."


def sniff(head: bytes, name: str) -> bool:
    return has_schema(head, SCHEMA)


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    run = read_margine(data, name)
    found = tuple(
        StoredMeasurement(
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
