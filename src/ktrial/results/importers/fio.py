# SPDX-License-Identifier: Apache-2.0
"""fio's JSON and terse lines: one run of all its jobs, which ran in parallel or in sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktrial.bench.adapters.fio.output import FioDirection, FioJob, read_fio
from ktrial.bench.adapters.fio.terse import is_fio_terse, read_fio_terse
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.results.foreign import ForeignResults, ForeignRun, slug
from ktrial.results.importers._shared import group_of, has_keys, measurement
from ktrial.results.model import StoredMeasurement

NAME = "fio"
WHAT = "JSON or terse lines of fio (--output-format=json, json+ or terse)."
_QUANTILES: Mapping[str, str] = {"latency-p50": "50.000000", "latency-p99": "99.000000", "latency-p999": "99.900000"}


def sniff(head: bytes, name: str) -> bool:
    """Return whether `head` is fio's JSON or terse output; other text may precede JSON and surround terse lines."""
    return is_fio_terse(head) or has_keys(head[head.find(b"{") :] if b"{" in head else b"", "fio version")


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return one run; if there are several jobs, the names of outcomes begin with the job's name."""
    terse = is_fio_terse(data)
    run = read_fio_terse(data, name) if terse else read_fio(data, name)
    names = _names(run.jobs)
    several = len(run.jobs) > 1
    found: list[StoredMeasurement] = []
    for job, called in zip(run.jobs, names, strict=True):
        for direction, done in job.directions.items():
            found += _measurements_of(f"{called}-{direction}" if several else direction, done)
    errors = [
        f"{called} ended with error {job.error}" for job, called in zip(run.jobs, names, strict=True) if job.error
    ]
    if not found and not errors:
        raise BadRun(
            f"{name}: no job read, wrote or trimmed anything", hint="run fio with a job that reads, writes or trims"
        )
    attributes = {
        f"{called}.{key}": text
        for job, called in zip(run.jobs, names, strict=True)
        for key, text in job.options.items()
    }
    ended = {} if run.timestamp_ms is None else {"timestamp_ms": str(run.timestamp_ms)}
    whole = ForeignRun(
        group=group_of(options.label, name),
        benchmark="fio" if several else f"fio-{slug(names[0])}",
        number=1,
        measurements=() if errors else tuple(found),
        attributes={"tool_version": run.version, **ended, **attributes},
        failure="; ".join(errors) or None,
    )
    notes = [f"before fio's JSON: {line}" for line in run.preamble]
    if run.left_out:
        notes.append(f"{run.left_out} lines after fio's JSON are ignored")
    steps = ("latencies are whole microseconds: fio's JSON has nanoseconds",) if terse else ()
    return ForeignResults(format=NAME, runs=(whole,), notes=("one file is one run: import several", *steps, *notes))


def _names(jobs: Sequence[FioJob]) -> list[str]:
    """Return the names of the jobs; jobs with equal names are numbered."""
    plain = [job.name for job in jobs]
    return [
        name if plain.count(name) == 1 else f"{name}.{plain[:index].count(name) + 1}"
        for index, name in enumerate(plain)
    ]


def _measurements_of(prefix: str, done: FioDirection) -> list[StoredMeasurement]:
    found = [
        measurement(f"{prefix}-throughput", done.throughput, "B/s", "higher"),
        measurement(f"{prefix}-rate", done.rate, "1/s", "higher"),
    ]
    for name, key in _QUANTILES.items():
        if key in done.percentiles:
            found.append(measurement(f"{prefix}-{name}", done.percentiles[key], "s", "lower"))
    return found
