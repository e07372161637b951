# SPDX-License-Identifier: Apache-2.0
"""SHA256SUMS of a published folder: every file that is not what it says is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ktrial.cli.shared.recheck import _changed_files
from ktrial.evidence.differences import Difference
from ktrial.reports.publish import LIST


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = []
    for name in ("README.md", "comparison.json"):
        (tmp_path / name).write_text(name)
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (tmp_path / LIST).write_text("".join(lines))
    return tmp_path


def test_files_that_are_as_they_were_are_not_named(folder: Path) -> None:
    assert list(_changed_files(folder)) == []


def test_a_changed_file_and_one_that_has_gone_are_named(folder: Path) -> None:
    (folder / "README.md").write_text("another")
    (folder / "comparison.json").unlink()
    assert list(_changed_files(folder)) == [
        Difference(kind="hash", where="README.md", told="changed: it differs from SHA256SUMS"),
        Difference(
            kind="file", where="comparison.json", told="listed in SHA256SUMS, but not a regular file in the folder"
        ),
    ]


def test_a_list_that_cannot_be_read_is_named_alone(folder: Path) -> None:
    (folder / LIST).write_bytes(b"\xff")
    (difference,) = _changed_files(folder)
    assert (difference.kind, difference.where) == ("file", LIST)
    assert difference.told.startswith("cannot read it: ")
    (folder / LIST).unlink()
    assert len(list(_changed_files(folder))) == 1
