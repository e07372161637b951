# SPDX-License-Identifier: Apache-2.0
"""What is imported is in either kind of store as it was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.kit.errors import Refused
from ktrial.results.import_file import ForeignFile, ImportRequest, bring_in
from ktrial.results.store.runs import Store
from tests.support.imports import CASES, IMPORTERS, case_name, expected, read_case


@pytest.mark.parametrize("case", [case for case in CASES if expected(case).error is None], ids=case_name)
def test_all_runs_are_there(store: Store, case: Path) -> None:
    path = next(case.glob("input*"))
    file = ForeignFile(expected(case).name or path.name, path.read_bytes())
    wanted = ImportRequest(options=expected(case).options)
    brought = bring_in(file, wanted, IMPORTERS, store, lambda: 1_782_900_000_000)
    there = {run.number: run for one in brought.sessions for run in store.runs(one.session)}
    read = {run.number: run for run in read_case(case).runs}
    assert there.keys() == read.keys()
    for number, run in there.items():
        assert (run.state == "failed") == (read[number].failure is not None)
        assert [(one.outcome, one.value, one.unit, one.direction, one.original) for one in run.measurements] == [
            (one.outcome, one.value, one.unit, one.direction, one.original) for one in read[number].measurements
        ]
        assert run.document is not None
        assert run.document["attributes"] == dict(read[number].attributes)
    first = next(iter(store.runs(brought.sessions[0].session)))
    assert store.raw(first.raw["file"]) == file.data
    with pytest.raises(Refused):
        bring_in(file, wanted, IMPORTERS, store, lambda: 1_782_900_000_001)
