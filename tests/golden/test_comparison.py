# SPDX-License-Identifier: Apache-2.0
"""Each folder below `comparison` is a command, its input files, and what it writes on a terminal of 80 columns."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest

from ktrial.cli.main import main

CASES = Path(__file__).parent / "comparison"


@pytest.mark.parametrize("case", sorted(folder.name for folder in CASES.iterdir()))
def test_the_terminal_shows_what_the_case_holds(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CASES / case
    assert (folder / "why").read_text().strip(), "a case says how it was made"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(folder)
    out, err = io.StringIO(), io.StringIO()
    status = main(shlex.split((folder / "command").read_text()), out, err)
    assert (status, err.getvalue()) == (0, "")
    assert out.getvalue() == (folder / "stdout").read_text()
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert all(character.isprintable() or character == "\n" for character in out.getvalue())
