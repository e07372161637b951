# SPDX-License-Identifier: Apache-2.0
"""ktrial's own result files, `ktrial.bench/1`."""

from __future__ import annotations

from ktrial.judge.model.asked import ImportOptions
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun
from ktrial.results.importers._ktrial_bench import SCHEMA, read_ktrial_bench
from ktrial.results.importers._shared import has_schema

NAME = "ktrial-bench"
WHAT = "Result files of ktrial bench -o (ktrial.bench/1)."


def sniff(head: bytes, name: str) -> bool:
    """Its schema."""
    return has_schema(head, SCHEMA)


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """The runs that count, failed ones too; the label of the session is the group."""
    file = read_ktrial_bench(data, name)
    group = options.label or file.label or file.session
    runs = []
    for number, one in enumerate(file.runs, 1):
        told = {"run": str(one.run), "round": str(one.round), "tool": one.tool, "tool_version": one.tool_version}
        attributes = {**file.attributes, **{key: text for key, text in told.items() if text is not None}}
        if one.argv:
            attributes["command"] = " ".join(one.argv)
        runs.append(
            ForeignRun(
                group=group,
                benchmark=one.benchmark,
                number=number,
                measurements=tuple(
                    ForeignMeasurement(
                        outcome=kept.outcome,
                        value=kept.value,
                        unit=kept.unit,
                        direction=kept.direction,
                        original=kept.original,
                    )
                    for kept in (() if one.failure is not None else one.measurements)
                ),
                attributes=attributes,
                failure=one.failure,
                record=one.whole,
            )
        )
    notes = [
        "artefacts, order and conditions of the runs stay in the file: compare the file itself, or bring in a bundle"
    ]
    if old := sum(one.whole is None for one in file.runs):
        notes.append(f"records of another form, of which the numbers alone are read: {old}")
    if file.warm_ups:
        notes.append(f"warm-ups left out: {file.warm_ups}")
    notes += [f"{benchmark} is missing: {why}" for benchmark, why in file.missing.items()]
    missing = {group: file.missing} if file.missing else {}
    return ForeignResults(format=NAME, runs=tuple(runs), notes=tuple(notes), missing=missing)
