# SPDX-License-Identifier: Apache-2.0
"""Every case of tests/golden/formats_foreign is read as its format; adding a case adds no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from ktrial.tuning.origin.formats.sniff import READERS, Format, read, sniff

GOLDEN = Path(__file__).parents[2] / "golden" / "formats_foreign"
CASES = sorted(path for path in GOLDEN.glob("*/*") if path.is_dir())


def test_every_format_has_a_case() -> None:
    assert {path.parent.name for path in CASES} == set(get_args(Format)) == set(READERS)


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_case(case: Path) -> None:
    why = (case / "why").read_text()
    assert len(why.split()) > 3, f"{case}: 'why' must say how the expected values were found without the parser"
    expected = json.loads((case / "expected.json").read_text())
    reading = READERS[case.parent.name]((case / "input").read_bytes(), "input")  # type: ignore[index]
    found = [json.loads(msgspec.json.encode(item)) for item in reading.assignments]
    shown = [
        {key: record[key] for key in wanted} for record, wanted in zip(found, expected["assignments"], strict=False)
    ]
    assert shown == expected["assignments"]
    assert len(found) == len(expected["assignments"]), found[len(expected["assignments"]) :]
    assert sorted({item.line_number for item in reading.unread}) == expected["unread"], reading.unread
    assert {record["file"] for record in found} <= {"input"}


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_case_is_recognised_by_content_alone(case: Path) -> None:
    data = (case / "input").read_bytes()
    assert case.parent.name in {sniff("-", data).format, read(data, "-")[1].format}
