# SPDX-License-Identifier: Apache-2.0
"""Reports of pgbench, one or more in a file: each is a run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrial.bench.adapters.pgbench.output import PgbenchRun, read_pgbench
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput
from ktrial.kit.formats.tool_output import Quantity
from ktrial.results.foreign import ForeignResults, ForeignRun, slug
from ktrial.results.importers._shared import group_of, measurement
from ktrial.results.model import StoredMeasurement

NAME = "pgbench"
WHAT = "Reports of pgbench (PostgreSQL), as it prints them."
_REPORT = re.compile(rb"^transaction type: ", re.MULTILINE)
_MARK = re.compile(rb"^(?:pgbench \(|transaction type: )", re.MULTILINE)
_PROCESSED = re.compile(rb"^number of transactions actually processed: ", re.MULTILINE)
_BUILT_IN = re.compile(r"<builtin: (.+)>")


def sniff(head: bytes, name: str) -> bool:
    return _REPORT.search(head) is not None and _PROCESSED.search(head) is not None


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    group = group_of(options.label, name)
    begins = _begins(data)
    if not begins:
        raise BadInput("no report of pgbench in this file", file=name, hint="save the complete output of pgbench")
    runs = []
    for number, (begin, end) in enumerate(zip([0, *begins[1:]], [*begins[1:], len(data)], strict=True), 1):
        source = name if len(begins) == 1 else f"{name} (report {number})"
        runs.append(_run(read_pgbench(data[begin:end], source), group, number))
    notes = ("one report is one run: repeat it",) if len(runs) == 1 else ()
    return ForeignResults(format=NAME, runs=tuple(runs), notes=notes)


def _begins(data: bytes) -> list[int]:
    """Return where reports begin: at the line with the version, which older versions don't print."""
    begins: list[int] = []
    version: int | None = None
    for mark in _MARK.finditer(data):
        if mark[0].startswith(b"pgbench"):
            version = mark.start()
        else:
            begins.append(mark.start() if version is None else version)
            version = None
    return begins


def _run(run: PgbenchRun, group: str, number: int) -> ForeignRun:
    script = _BUILT_IN.sub(r"\1", run.script or "unknown")
    parameters = {"clients": run.clients, "threads": run.threads, "scale": run.scale, "mode": run.mode}
    parameters |= {"seconds": run.seconds} if run.seconds is not None else {"transactions": run.transactions}
    version = {} if run.version is None else {"tool_version": run.version}
    return ForeignRun(
        group=group,
        benchmark=f"pgbench-{slug(script)}",
        number=number,
        measurements=() if run.failed else tuple(_measurements_of(run)),
        attributes={**version, "parameters": ", ".join(f"{key}={value}" for key, value in parameters.items())},
        failure=f"{run.failed} of the transactions failed" if run.failed else None,
    )


def _measurements_of(run: PgbenchRun) -> Iterator[StoredMeasurement]:
    """Yield the measurements under the names of ktrial's own benchmark."""
    # A skipped transaction would have been slow; its latency is unknown, so a mean without it is too low.
    if not run.skipped:
        yield measurement("latency-mean", run.latency_mean, "s", "lower")
    if run.lag_mean is not None:
        yield measurement("lag-mean", run.lag_mean, "s", "lower")
    yield measurement("transaction-rate", run.rate, "1/s", "higher")
    if run.late is not None:
        late, total = run.late + (run.skipped or 0), run.transactions + (run.skipped or 0)
        yield measurement("late-share", Quantity(late / total, f"{late} of {total}"), "ratio", "lower")
