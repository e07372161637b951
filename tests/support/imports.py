# SPDX-License-Identifier: Apache-2.0
"""The golden cases of the importers: folders `tests/golden/imports/<format>/<case>/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.results.foreign import ForeignResults, ForeignRun
from ktrial.results.import_file import ForeignFile, ImportRequest, read_results
from ktrial.results.importers import all_importers

FOLDER = Path(__file__).parents[1] / "golden" / "imports"
CASES = sorted(path for path in FOLDER.glob("*/*") if path.is_dir())
IMPORTERS = all_importers()


class Expected(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The expected result.

    `error` and `hint` are parts of the message; without them, runs and notes must be exactly these. `name` is the
    file's name, if it matters; `sniffed` is false if only --format shows the format.
    """

    name: str | None = None
    options: ImportOptions = ImportOptions()
    sniffed: bool = True
    error: str | None = None
    hint: str | None = None
    runs: list[dict[str, Any]] = []
    notes: list[str] = []


def expected(case: Path) -> Expected:
    return msgspec.json.decode((case / "expected.json").read_bytes(), type=Expected)


def case_name(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def read_case(case: Path) -> ForeignResults:
    """Return the case as `ktrial import` reads it, in its format."""
    wanted = expected(case)
    path = next(case.glob("input*"))
    file = ForeignFile(wanted.name or path.name, path.read_bytes())
    as_format = None if wanted.sniffed else case.parent.name
    return read_results(file, ImportRequest(options=wanted.options, as_format=as_format), IMPORTERS)


def run_of(run: ForeignRun) -> dict[str, Any]:
    """Return a run in the form of a case, without missing fields."""
    measured = {one.outcome: [one.value, one.unit, one.direction, one.original] for one in run.measurements}
    parts = {
        "group": run.group,
        "benchmark": run.benchmark,
        "block": run.block,
        "part_of": run.part_of,
        "failure": run.failure,
        "attributes": dict(run.attributes),
        "measurements": measured,
    }
    return {name: part for name, part in parts.items() if part}
