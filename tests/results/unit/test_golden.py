# SPDX-License-Identifier: Apache-2.0
"""Every case of every importer: the runs and notes exactly, or a part of the message that refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.kit.errors import BadInput
from ktrial.results.import_file import claiming
from tests.support.imports import CASES, IMPORTERS, case_name, expected, read_case, run_of


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_case(case: Path) -> None:
    wanted = expected(case)
    if wanted.error is not None:
        with pytest.raises(BadInput) as caught:
            read_case(case)
        assert caught.value.message == wanted.error
        assert caught.value.hint == wanted.hint
        assert caught.value.message.startswith(wanted.name or "input")
        return
    found = read_case(case)
    assert found.format == case.parent.name
    assert [run_of(run) for run in found.runs] == wanted.runs
    assert list(found.notes) == wanted.notes
    assert [run.number for run in found.runs] == list(range(1, len(found.runs) + 1))


def test_every_case_says_where_it_is_from() -> None:
    for case in CASES:
        why = (case / "why").read_text(encoding="utf-8")
        assert why.count("\n") == 1, case_name(case)
        assert len(why.split()) >= 8, case_name(case)


def test_every_format_has_good_and_bad_cases() -> None:
    for name in IMPORTERS:
        cases = [expected(case) for case in CASES if case.parent.name == name]
        assert any(case.error is None for case in cases), name
        assert any(case.error is not None for case in cases), name
    assert {case.parent.name for case in CASES} == set(IMPORTERS)


@pytest.mark.parametrize("case", [case for case in CASES if expected(case).sniffed], ids=case_name)
def test_one_format_alone_claims_a_file(case: Path) -> None:
    path = next(case.glob("input*"))
    head = path.read_bytes()[: 64 * 1024]
    name = expected(case).name or path.name
    assert [one.name for one in claiming(head, name, IMPORTERS)] == [case.parent.name]
