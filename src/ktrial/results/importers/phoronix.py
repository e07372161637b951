# SPDX-License-Identifier: Apache-2.0
"""composite.xml of the Phoronix Test Suite: a group for each system, a run for each raw value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ktrial.judge.model.asked import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun
from ktrial.results.foreign_names import slug
from ktrial.results.importers._phoronix import PhoronixEntry, PhoronixFile, PhoronixResult, read_phoronix
from ktrial.results.importers._shared import labelled
from ktrial.results.importers._units import AS_IT_STANDS, scale_of

NAME = "phoronix"
WHAT = "composite.xml of the Phoronix Test Suite."
_VERSION = re.compile(r"-\d+(?:\.\d+)*$")
_KERNEL = re.compile(r"(?:^|, )Kernel: ([^,]+)")


def sniff(head: bytes, name: str) -> bool:
    """Its root."""
    return b"<PhoronixTestSuite" in head


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """A run for each raw value; a file of means alone is refused."""
    file = read_phoronix(data, name)
    runs: list[ForeignRun] = []
    unknown: set[str] = set()
    for result in file.results:
        if scale_of(result.scale) is None:
            unknown.add(result.scale or "(none)")
        for entry in result.entries:
            runs += _runs(result, entry, file, len(runs), name)
    if not runs:
        raise BadRun(
            f"{name}: no test tells its runs: a mean of runs that are not there is no run; {'; '.join(file.left_out)}",
            hint="results saved by a newer Phoronix Test Suite keep RawString, the value of each run",
        )
    notes = list(file.left_out)
    if unknown:
        notes.append(f"kept as they stand, as scores: {', '.join(sorted(unknown))}")
    return ForeignResults(format=NAME, runs=labelled(runs, options.label, name), notes=tuple(notes))


def _runs(
    result: PhoronixResult, entry: PhoronixEntry, file: PhoronixFile, before: int, source: str
) -> list[ForeignRun]:
    scale = scale_of(result.scale) or AS_IT_STANDS
    test = _VERSION.sub("", result.test)
    name = "-".join(slug(part) for part in (test, result.description) if part)
    attributes = {"test": result.test, "title": result.title, **result.attributes, **_system(file.systems, entry)}
    return [
        ForeignRun(
            group=entry.system,
            benchmark=name,
            number=before + place,
            measurements=(
                ForeignMeasurement(
                    outcome="result",
                    value=scale.value(text, source, entry.line, f"run {place} of {result.title} on {entry.system}"),
                    unit=scale.unit,
                    direction=result.direction,
                    original=f"{text} {result.scale}".strip(),
                ),
            ),
            attributes=attributes,
        )
        for place, text in enumerate(entry.values, 1)
    ]


def _system(systems: Mapping[str, Mapping[str, str]], entry: PhoronixEntry) -> dict[str, str]:
    about = dict(systems.get(entry.system, {}))
    kernel = _KERNEL.search(about.get("software", ""))
    return {**about, "kernel": kernel[1]} if kernel else about
