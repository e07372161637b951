# SPDX-License-Identifier: Apache-2.0
"""pyperf's JSON: one run per value.

A file has benchmarks with worker processes ("runs"), which have values and, separately, warm-ups. Metadata that all
benchmarks share are at the top level. Metadata that all runs of a benchmark share are in the benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.formats.tool_output import Quantity, json_document, json_list, json_table, unreadable, unreadable_value
from ktrial.kit.outcome import Direction, Unit
from ktrial.results.foreign import ForeignResults, ForeignRun
from ktrial.results.importers._shared import group_of, has_keys, measurement

_VERSION = "1.0"


class PyperfValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value, per loop of the benchmark. `process` is the number of the worker process that measured it, from 1."""

    process: int
    value: float
    metadata: Mapping[str, str]


class PyperfBenchmark(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark; `unit` is `second`, `byte` or `integer`, `warm_ups` counts the ignored values."""

    name: str
    unit: str
    values: tuple[PyperfValue, ...]
    warm_ups: int


def read_pyperf(data: bytes, source: str = "pyperf.json") -> tuple[PyperfBenchmark, ...]:
    document = json_document(data, source)
    version = document.get("version")
    if version != _VERSION:
        raise unreadable_value(source, version, f"pyperf's format version {_VERSION!r}")
    benchmarks = json_list(document.get("benchmarks"), source, "'benchmarks'")
    common = _metadata(document, "metadata", source)
    if not benchmarks:
        raise unreadable(source, None, "", "a file with results: its list 'benchmarks' is empty")
    return tuple(_benchmark(one, common, f"benchmarks[{index}]", source) for index, one in enumerate(benchmarks))


#: The platform of a run, such as `Linux-6.12.9-example-x86_64-with-glibc2.36`.
_PLATFORM = re.compile(r"Linux-(.+)-\w+-with-.+")
_GOVERNOR = re.compile(r"governor:([\w-]+)")
_DEGREES = re.compile(r"=(-?\d{1,3}(?:\.\d+)?) ?C(?:,|$)")


def facts_of_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return kernel, governor, version and temperature from the metadata, under ktrial's names."""
    facts: dict[str, str] = {}
    if kernel := _PLATFORM.fullmatch(metadata.get("platform", "")):
        facts["kernel"] = kernel[1]
    if governors := sorted(set(_GOVERNOR.findall(metadata.get("cpu_config", "")))):
        facts["governor"] = " and ".join(governors)
    if degrees := _DEGREES.findall(metadata.get("cpu_temp", "")):
        facts["temperature_c"] = max(degrees, key=float)
    if version := metadata.get("perf_version") or metadata.get("pyperf_version"):
        facts["tool_version"] = f"pyperf {version}"
    return facts


def _benchmark(value: object, common: Mapping[str, str], at: str, source: str) -> PyperfBenchmark:
    table = json_table(value, source, at)
    metadata = {**common, **_metadata(table, f"{at}.metadata", source)}
    name = metadata.get("name")
    if name is None:
        raise unreadable(source, None, at, "a benchmark with a name in its metadata")
    unit = metadata.get("unit", "second")
    if unit not in {"second", "byte", "integer"}:
        raise unreadable_value(source, unit, f"second, byte or integer ({at}.metadata.unit)")
    values: list[PyperfValue] = []
    warm_ups = 0
    runs = json_list(table.get("runs"), source, f"{at}.runs")
    for number, one in enumerate(runs):
        run = json_table(one, source, f"{at}.runs[{number}]")
        warm_ups += len(json_list(run.get("warmups", []), source, f"{at}.runs[{number}].warmups"))
        own = {**metadata, **_metadata(run, f"{at}.runs[{number}].metadata", source)}
        for index, item in enumerate(json_list(run.get("values", []), source, f"{at}.runs[{number}].values")):
            place = f"{at}.runs[{number}].values[{index}]"
            values.append(PyperfValue(process=number + 1, value=_number(item, place, source), metadata=own))
    if not values:
        raise unreadable(source, None, f"{at} ({name})", "a benchmark with values: no run has a value")
    return PyperfBenchmark(name=name, unit=unit, values=tuple(values), warm_ups=warm_ups)


def _number(value: object, at: str, source: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0 or value > 1e30:
        raise unreadable_value(source, value, f"a number above 0 and up to 1e30 ({at})")
    return value


def _metadata(table: Mapping[str, Any], at: str, source: str) -> dict[str, str]:
    """Return the metadata that are texts or numbers, all as text."""
    metadata = json_table(table.get("metadata", {}), source, at)
    return {name: str(one) for name, one in metadata.items() if isinstance(one, str | int | float)}


NAME = "pyperf"
WHAT = "JSON of pyperf (-o FILE)."
#: Unit of the file -> outcome, unit, direction, unit as shown.
_UNITS: Mapping[str, tuple[str, Unit, Direction | None, str]] = {
    "second": ("time", "s", "lower", "s"),
    "byte": ("memory", "B", "lower", "B"),
    "integer": ("value", "score", None, ""),
}


def sniff(head: bytes, name: str) -> bool:
    return has_keys(head, "benchmarks", "runs")


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each value except warm-ups."""
    runs: list[ForeignRun] = []
    warm_ups = 0
    group = group_of(options.label, name)
    for benchmark in read_pyperf(data, name):
        outcome, unit, direction, shown = _UNITS[benchmark.unit]
        warm_ups += benchmark.warm_ups
        for one in benchmark.values:
            value = Quantity(float(one.value), f"{one.value} {shown}".strip())
            runs.append(
                ForeignRun(
                    group=group,
                    benchmark=benchmark.name,
                    number=len(runs) + 1,
                    measurements=(measurement(outcome, value, unit, direction),),
                    part_of=f"process {one.process} of {benchmark.name}",
                    attributes={**one.metadata, **facts_of_metadata(one.metadata)},
                )
            )
    notes = ["values of one process depend on each other: `compare` uses the mean of each process"]
    if warm_ups:
        notes.append(f"warm-ups ignored: {warm_ups}")
    return ForeignResults(format=NAME, runs=tuple(runs), notes=tuple(notes))
