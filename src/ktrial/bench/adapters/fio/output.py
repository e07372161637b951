# SPDX-License-Identifier: Apache-2.0
"""JSON of fio (`--output-format=json` or `json+`): throughput, operations and completion latencies per direction.

ktrial reads `bw_bytes` (bytes per second), not `bw` (KiB per second). It stores the bins of json+ (nanoseconds ->
count), because bins can be merged and percentiles cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.kit.formats.tool_output import (
    Quantity,
    decode_output,
    json_document,
    json_quantity,
    json_table,
    json_whole,
    unreadable,
    whole,
)

DIRECTIONS = ("read", "write", "trim")


class FioDirection(msgspec.Struct, frozen=True, kw_only=True):
    """What one job did in one direction during `runtime_ms`; latencies are completion latencies.

    `operations` is None in terse output, which lacks it. The keys of `percentiles` are as fio prints them: "99.000000".
    """

    io_bytes: int
    operations: int | None
    runtime_ms: int
    throughput: Quantity
    rate: Quantity
    latency_mean: Quantity | None
    latency_max: Quantity | None
    percentiles: Mapping[str, Quantity]
    bins_ns: Mapping[int, int]


class FioJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job or, with group reporting, a group of jobs; `directions` lacks directions without transferred data."""

    name: str
    error: int
    options: Mapping[str, str]
    directions: Mapping[str, FioDirection]


class FioRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, which ended at `timestamp_ms` (since 1970; None if not printed).

    `preamble` holds the warnings before the JSON. `left_out` counts the lines after the JSON, in which fio repeats the
    results as text.
    """

    version: str
    timestamp_ms: int | None
    jobs: tuple[FioJob, ...]
    preamble: tuple[str, ...] = ()
    left_out: int = 0


def read_fio(data: bytes, source: str = "out.json") -> FioRun:
    """Parse fio's output file, or its stdout with warnings before the JSON. The run includes jobs that failed."""
    text = decode_output(data, source)
    begin = 0 if text.startswith("{") else text.find("\n{") + 1
    if not begin and not text.startswith("{"):
        raise unreadable(source, 1, text[:80], "JSON of fio: no line begins with '{'")
    end = text.find("\n}", begin) + 2
    after = text[end:].strip() if end > 1 else ""
    if after.startswith("{"):
        after = ""  # a second document: refused, because the whole is not valid JSON
    document = json_document(text[begin:end] if after else text[begin:], source)
    version, jobs = document.get("fio version"), document.get("jobs")
    if not isinstance(version, str) or not isinstance(jobs, list) or not jobs:
        raise unreadable(source, None, "", "output of fio: it has no 'fio version' or no 'jobs'")
    common = json_table(document.get("global options", {}), source, "'global options'")
    preamble = tuple(line for line in text[:begin].splitlines() if line.strip())
    ended = document.get("timestamp_ms")
    return FioRun(
        version=version,
        timestamp_ms=ended if isinstance(ended, int) and not isinstance(ended, bool) else None,
        jobs=tuple(_job(job, common, source) for job in jobs),
        preamble=preamble,
        left_out=len(after.splitlines()),
    )


def _job(value: object, common: Mapping[str, Any], source: str) -> FioJob:
    job = json_table(value, source, "a job")
    name = job.get("jobname")
    if not isinstance(name, str) or "error" not in job:
        raise unreadable(source, None, "", "complete output of fio: a job lacks 'jobname' or 'error'")
    own = json_table(job.get("job options", {}), source, "'job options'")
    directions: dict[str, FioDirection] = {}
    for direction in DIRECTIONS:
        if direction in job:
            table = json_table(job[direction], source, direction)
            if json_whole(table.get("total_ios"), source, f"total_ios of {direction}"):
                directions[direction] = _direction(table, direction, source)
    return FioJob(
        name=name,
        error=json_whole(job["error"], source, "the error number"),
        options={key: str(item) for key, item in {**common, **own}.items()},
        directions=directions,
    )


def _direction(table: Mapping[str, Any], name: str, source: str) -> FioDirection:
    missing = {"io_bytes", "bw_bytes", "iops", "runtime"} - set(table)
    if missing:
        raise unreadable(source, None, name, f"complete: it lacks {', '.join(sorted(missing))}")
    latency = json_table(table.get("clat_ns", {}), source, f"{name}.clat_ns")
    percentiles = json_table(latency.get("percentile", {}), source, f"{name}.clat_ns.percentile")
    bins = json_table(latency.get("bins", {}), source, f"{name}.clat_ns.bins")
    return FioDirection(
        io_bytes=json_whole(table["io_bytes"], source, "io_bytes"),
        operations=json_whole(table["total_ios"], source, "total_ios"),
        runtime_ms=json_whole(table["runtime"], source, "runtime"),
        throughput=json_quantity(table["bw_bytes"], "B/s", source, "bw_bytes"),
        rate=json_quantity(table["iops"], "1/s", source, "iops"),
        latency_mean=_optional(latency, "mean", source),
        latency_max=_optional(latency, "max", source),
        percentiles={
            key: json_quantity(value, "ns", source, f"percentile {key}") for key, value in percentiles.items()
        },
        bins_ns={
            whole(key, source, None, "nanoseconds"): json_whole(count, source, "a count") for key, count in bins.items()
        },
    )


def _optional(latency: Mapping[str, Any], key: str, source: str) -> Quantity | None:
    """Return a latency; None if fio counted no sample, for which it prints 0."""
    if not latency.get("N") or key not in latency:
        return None
    return json_quantity(latency[key], "ns", source, f"clat_ns.{key}")
