# SPDX-License-Identifier: Apache-2.0
"""`margine-bench-kernel/1`: a flat JSON object for one pass over the margine suite; figures not measured are absent."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.formats.tool_output import Quantity, json_document, unreadable, unreadable_value
from ktrial.kit.outcome import Direction
from ktrial.results.foreign import ForeignResults, ForeignRun
from ktrial.results.importers._shared import group_of, has_schema, measurement
from ktrial.results.importers._units import Scale, json_signed

SCHEMA = "margine-bench-kernel/1"


class MargineMetric(msgspec.Struct, frozen=True):
    """The meaning of a key: its outcome, its unit as printed, and the scale to the base unit.

    `direction` is None for the fixed duration of a run.
    """

    outcome: str
    unit: str
    scale: Scale
    direction: Direction | None


_US, _MS = Scale("s", 1, 10**6), Scale("s", 1, 10**3)
METRICS: Mapping[str, MargineMetric] = {
    "schbench_p50_us": MargineMetric("schbench-p50", "us", _US, "lower"),
    "schbench_p99_us": MargineMetric("schbench-p99", "us", _US, "lower"),
    "sched_messaging_total_s": MargineMetric("sched-messaging-total", "s", Scale("s"), "lower"),
    "sched_pipe_usecs_op": MargineMetric("sched-pipe-time", "us", _US, "lower"),
    "sched_pipe_ops_sec": MargineMetric("sched-pipe-rate", "1/s", Scale("1/s"), "higher"),
    "sysbench_events": MargineMetric("sysbench-events", "count", Scale("count"), "higher"),
    "sysbench_total_time_s": MargineMetric("sysbench-total-time", "s", Scale("s"), None),
    "sysbench_lat_avg_ms": MargineMetric("sysbench-latency-mean", "ms", _MS, "lower"),
    "sysbench_lat_95th_ms": MargineMetric("sysbench-latency-p95", "ms", _MS, "lower"),
}


class MargineRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run: the file's numbers by key, and everything else as text."""

    label: str | None
    numbers: Mapping[str, float]
    attributes: Mapping[str, str]
    collected: int | None
    expected: int | None


def read_margine(data: bytes, source: str = "run.json") -> MargineRun:
    """Read a run. Raise UnreadableOutput for a file with another schema, or without any of METRICS."""
    document = json_document(data, source)
    if document.get("schema") != SCHEMA:
        raise unreadable_value(source, document.get("schema"), f"the schema {SCHEMA}")
    numbers = {key: json_signed(document[key], source, key) for key in METRICS if key in document}
    if not numbers:
        raise unreadable(source, None, "", "a run with results: it has none of the metrics that ktrial reads")
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
    measurements = []
    for key, number in run.numbers.items():
        metric = METRICS[key]
        value = Quantity(metric.scale.value(number, name, None, key), f"{number} {metric.unit}")
        measurements.append(measurement(metric.outcome, value, metric.scale.unit, metric.direction))
    notes = ["one file is one run: import several of each label"]
    if run.collected is not None and run.expected is not None and run.collected < run.expected:
        notes.append(f"only {run.collected} of {run.expected} metrics were measured")
    whole = ForeignRun(
        group=options.label or run.label or group_of(None, name),
        benchmark="margine-bench-kernel",
        number=1,
        measurements=tuple(measurements),
        attributes=run.attributes,
    )
    return ForeignResults(format=NAME, runs=(whole,), notes=tuple(notes))
