# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktrial.host import private_folder
from ktrial.host.private_folder import private_place


def test_a_folder_that_goes_with_the_session_goes_before_the_one_with_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert private_place("x") == tmp_path / "x"
    monkeypatch.setattr(private_folder, "ROOTS_OWN", tmp_path / "none")
    monkeypatch.setattr(private_folder, "_OF_USERS", tmp_path / "users")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert private_place("x") == tmp_path / "state" / "ktrial" / "x"


def test_a_folder_of_somebody_else_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert private_place("x") != tmp_path / "x"
