# SPDX-License-Identifier: Apache-2.0
"""schbench's output, text or JSON: one run with the outcome names of ktrial's own benchmark."""

from __future__ import annotations

import re

from ktrial.bench.adapters.schbench.output import SchbenchRun, read_schbench_json, read_schbench_text
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.results.foreign import ForeignResults, ForeignRun
from ktrial.results.importers._shared import group_of, has_keys, looks_like_json, measurement
from ktrial.results.model import StoredMeasurement

NAME = "schbench"
WHAT = "schbench's text, or its JSON (-j FILE)."
_TEXT = re.compile(rb"(?:Latenc\w{1,4}|RPS) percentiles \((?:usec|requests)\)")
_JSON = re.compile(rb'"(?:wakeup|request)_latency(?:_pct|"\s*:)')


def sniff(head: bytes, name: str) -> bool:
    """Return whether `head` has schbench's percentiles or, in JSON, its keys for latencies."""
    if looks_like_json(head):
        return _JSON.search(head) is not None and (has_keys(head, "int") or has_keys(head, "schbench"))
    return _TEXT.search(head) is not None


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return one run with the last percentiles that schbench printed for wake-ups, requests and request rates."""
    run = read_schbench_json(data, name) if looks_like_json(data) else read_schbench_text(data, name)
    found = tuple(one for label in ("wakeup", "request") for one in _latencies(run, label)) + _requests(run)
    if not found:
        raise BadRun(f"{name}: no wake-up and no request was sampled", hint="run schbench for a longer time")
    samples = {f"{label}.samples": str(one.samples) for label, one in run.blocks.items() if one.samples is not None}
    kernel = {"kernel": run.kernel} if run.kernel is not None else {}
    runtime = {"parameters": f"runtime={run.runtime_s} s"} if run.runtime_s is not None else {}
    whole = ForeignRun(
        group=group_of(options.label, name),
        benchmark="schbench",
        number=1,
        measurements=found,
        attributes={"layout": run.layout, **kernel, **runtime, **samples},
    )
    notes = ("the number of threads is unknown; runs with different numbers cannot be compared",)
    return ForeignResults(format=NAME, runs=(whole,), notes=notes)


def _latencies(run: SchbenchRun, label: str) -> tuple[StoredMeasurement, ...]:
    block = run.blocks.get(label)
    if block is None or block.empty:
        return ()
    found = tuple(
        measurement(f"{label}-p{key.replace('.', '')}", one, "s", "lower") for key, one in block.percentiles.items()
    )
    return found if block.maximum is None else (*found, measurement(f"{label}-max", block.maximum, "s", "lower"))


def _requests(run: SchbenchRun) -> tuple[StoredMeasurement, ...]:
    block = run.blocks.get("rps")
    median = block.percentiles.get("50") if block is not None and not block.empty else None
    found = () if median is None else (measurement("rps-p50", median, "1/s", "higher"),)
    return found if run.average_rps is None else (*found, measurement("rps-average", run.average_rps, "1/s", "higher"))
