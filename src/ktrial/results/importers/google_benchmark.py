# SPDX-License-Identifier: Apache-2.0
"""Google Benchmark's JSON: one run per repetition; all repetitions are values of one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import (
    Quantity,
    json_document,
    json_list,
    json_quantity,
    json_table,
    unreadable_value,
)
from ktrial.kit.outcome import Unit
from ktrial.results.foreign import ForeignResults, ForeignRun, slug
from ktrial.results.importers._shared import group_of, has_keys, measurement
from ktrial.results.importers._units import json_signed
from ktrial.results.model import StoredMeasurement

NAME = "google-benchmark"
WHAT = "JSON of Google Benchmark (--benchmark_out=FILE)."
_TIMES = {"real_time": "time", "cpu_time": "cpu-time"}
_RATES: Mapping[str, tuple[str, Unit]] = {
    "bytes_per_second": ("bytes-per-second", "B/s"),
    "items_per_second": ("items-per-second", "1/s"),
}
_TIME_UNITS = ("ns", "us", "ms", "s")
#: Keys that the library writes besides counters: indices, texts, and figures that do not describe one run.
_OWN = frozenset(
    {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations"}
    | {"allocs_per_iter", "max_bytes_used", "total_allocated_bytes", "net_heap_growth"}
)


def sniff(head: bytes, name: str) -> bool:
    return has_keys(head, "context", "library_build_type") or has_keys(head, "benchmarks", "real_time", "time_unit")


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each repetition, without means, medians and deviations. Raise BadRun if that leaves nothing."""
    document = json_document(data, name)
    machine = _machine(json_table(document.get("context", {}), name, "'context'"))
    every = [
        (f"benchmarks[{index}]", json_table(one, name, f"benchmarks[{index}]"))
        for index, one in enumerate(json_list(document.get("benchmarks"), name, "'benchmarks'"))
    ]
    single = [(at, one) for at, one in every if one.get("run_type", "iteration") == "iteration"]
    if all(one.get("error_occurred") for _, one in single) and len(single) < len(every):
        raise BadRun(
            f"{name}: the file has no single run that succeeded, only means, medians and deviations",
            hint="repeat the run without --benchmark_report_aggregates_only and with --benchmark_repetitions=10",
        )
    group = group_of(options.label, name)
    runs = tuple(_run(one, at, group, number, machine, name) for number, (at, one) in enumerate(single, 1))
    return ForeignResults(format=NAME, runs=runs, notes=tuple(_notes(runs, len(every) - len(single), machine)))


def _run(
    one: Mapping[str, Any], at: str, group: str, number: int, machine: Mapping[str, str], source: str
) -> ForeignRun:
    benchmark = one.get("run_name", one.get("name"))
    if not isinstance(benchmark, str) or not benchmark:
        raise unreadable_value(source, benchmark, f"a string ({at}.name)")
    failure = str(one.get("error_message") or "it failed") if one.get("error_occurred") else None
    return ForeignRun(
        group=group,
        benchmark=benchmark,
        number=number,
        measurements=() if failure is not None else tuple(_measurements_of(one, at, source)),
        part_of="the process",
        attributes={**machine, **{key: str(one[key]) for key in ("iterations", "label") if key in one}},
        failure=failure,
    )


def _measurements_of(one: Mapping[str, Any], at: str, source: str) -> list[StoredMeasurement]:
    unit = one.get("time_unit", "ns")
    if unit not in _TIME_UNITS:
        raise unreadable_value(source, unit, f"one of {', '.join(_TIME_UNITS)} ({at}.time_unit)")
    measurements = [
        measurement(outcome, json_quantity(one.get(key), unit, source, f"{at}.{key}"), "s", "lower")
        for key, outcome in _TIMES.items()
    ]
    for key, value in one.items():
        if key in _RATES:
            outcome, base = _RATES[key]
            rate = json_quantity(value, "count", source, f"{at}.{key}").value
            measurements.append(measurement(outcome, Quantity(rate, f"{value} {base}"), base, "higher"))
        elif key not in _TIMES and key not in _OWN and isinstance(value, int | float) and not isinstance(value, bool):
            # The prefix avoids a clash: the program chose the name, which may be that of a time.
            count = Quantity(float(json_signed(value, source, f"{at}.{key}")), str(value))
            measurements.append(measurement(f"counter-{slug(key)}", count, "score", None))
    return measurements


def _machine(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the file's facts about the machine under ktrial's names."""
    names = {"date": "date", "host_name": "hostname", "num_cpus": "cpus", "library_build_type": "library_build_type"}
    facts = {ours: str(context[theirs]) for theirs, ours in names.items() if theirs in context}
    if version := context.get("library_version"):
        facts["tool_version"] = f"google-benchmark {version}"
    return facts


def _notes(runs: tuple[ForeignRun, ...], aggregates: int, machine: Mapping[str, str]) -> list[str]:
    notes = ["repetitions of one process depend on each other: `compare` uses their mean for each file"]
    if aggregates:
        notes.append(f"means, medians and deviations of repetitions ignored: {aggregates}")
    scores = sorted({one.outcome for run in runs for one in run.measurements if one.unit == "score"})
    if scores:
        notes.append(f"counters stored unchanged, as scores: {', '.join(scores)}")
    failed = sum(run.failure is not None for run in runs)
    if failed:
        notes.append(f"{failed} of {len(runs)} runs failed and are stored as failed")
    if machine.get("library_build_type") == "debug":
        notes.append("the library was built for debugging, which makes times longer")
    return notes
