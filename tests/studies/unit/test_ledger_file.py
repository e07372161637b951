# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.kit.errors import KtrialError
from ktrial.studies.ledger.file import LedgerFile


def test_it_is_written_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.json"
    file = LedgerFile(path)
    assert file.read() is None
    file.write(b"one")
    file.write(b"two")
    assert file.read() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["ledger.json"]


def test_what_hinders_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KtrialError, match="cannot write"):
        LedgerFile(tmp_path / "file" / "ledger.json").write(b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(KtrialError, match="cannot read") as caught:
        LedgerFile(tmp_path / "folder").read()
    assert caught.value.hint == "move this folder elsewhere"
    with pytest.raises(KtrialError, match="cannot write") as caught:
        LedgerFile(tmp_path / "folder").write(b"x")
    assert caught.value.hint == "move this folder elsewhere"
