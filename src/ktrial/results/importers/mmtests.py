# SPDX-License-Identifier: Apache-2.0
"""mmtests' JSON: a group for each test name, a run for each sample."""

from __future__ import annotations

from ktrial.judge.model.asked import ImportOptions
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun
from ktrial.results.foreign_names import stem
from ktrial.results.importers._mmtests import MmtestsExtract, MmtestsValue, read_mmtests
from ktrial.results.importers._shared import has_keys, labelled

NAME = "mmtests"
WHAT = "JSON of mmtests (compare-mmtests.pl --json-export)."


def sniff(head: bytes, name: str) -> bool:
    """Keys of its objects."""
    return any(has_keys(head, key) for key in ("_ExtractModules", "_ResultData", "_ModuleName", "_TestName"))


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """A run for each sample: which samples are of one execution is not told."""
    extracts = read_mmtests(data, name)
    runs: list[ForeignRun] = []
    for extract in extracts:
        for one in extract.values:
            runs.append(_run(extract, one, extract.test_name or stem(name), len(runs) + 1))
    notes = ["which samples are of one execution is not told: each is a run; those of one iteration may be of one"]
    if not all(extract.unit_known for extract in extracts):
        notes.append("a type of data without a known unit is kept as it stands, as a score")
    return ForeignResults(format=NAME, runs=labelled(runs, options.label, name), notes=tuple(notes))


def _run(extract: MmtestsExtract, one: MmtestsValue, group: str, number: int) -> ForeignRun:
    found = ForeignMeasurement(
        outcome=one.operation,
        value=one.value,
        unit=extract.unit.unit,
        direction=extract.direction,
        original=one.original,
    )
    return ForeignRun(
        group=group,
        benchmark=extract.module,
        number=number,
        measurements=(found,),
        attributes={"iteration": str(one.iteration), "sample": one.sample},
    )
