# SPDX-License-Identifier: Apache-2.0
"""pyperf's JSON: a run for each value."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.judge.model.asked import ImportOptions
from ktrial.kit.outcome import Direction, Unit
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun
from ktrial.results.importers._pyperf import known, read_pyperf
from ktrial.results.importers._shared import group_of, has_keys

NAME = "pyperf"
WHAT = "JSON of pyperf (-o FILE)."
#: Unit of the file -> outcome, unit, direction, unit as shown.
_UNITS: Mapping[str, tuple[str, Unit, Direction | None, str]] = {
    "second": ("time", "s", "lower", "s"),
    "byte": ("memory", "B", "lower", "B"),
    "integer": ("value", "score", None, ""),
}


def sniff(head: bytes, name: str) -> bool:
    """Benchmarks of runs."""
    return has_keys(head, "benchmarks", "runs")


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """A run for each value that is no warm-up."""
    runs: list[ForeignRun] = []
    warm_ups = 0
    group = group_of(options.label, name)
    for benchmark in read_pyperf(data, name):
        outcome, unit, direction, shown = _UNITS[benchmark.unit]
        warm_ups += benchmark.warm_ups
        for one in benchmark.values:
            found = ForeignMeasurement(
                outcome=outcome,
                value=float(one.value),
                unit=unit,
                direction=direction,
                original=f"{one.value} {shown}".strip(),
            )
            attributes = {**one.metadata, **known(one.metadata)}
            runs.append(
                ForeignRun(
                    group=group,
                    benchmark=benchmark.name,
                    number=len(runs) + 1,
                    measurements=(found,),
                    part_of=f"process {one.process} of {benchmark.name}",
                    attributes=attributes,
                )
            )
    notes = ["values of one process depend on each other: `compare` takes each process by its mean"]
    if warm_ups:
        notes.append(f"warm-ups left out: {warm_ups}")
    return ForeignResults(format=NAME, runs=tuple(runs), notes=tuple(notes))
