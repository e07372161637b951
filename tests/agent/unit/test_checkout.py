# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.agent import checkout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("config", "cache", "state", "data"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    monkeypatch.setattr(checkout, "checkout_folder", lambda: tmp_path / "checkout")
    monkeypatch.setattr(checkout, "_FOLDER_OF_ROOT", tmp_path / "etc/ktrial")
    return tmp_path


def test_what_was_made_is_removed_and_what_is_the_users_own_stays(home: Path) -> None:
    environment = home / "checkout/.setup/venv.1"
    environment.mkdir(parents=True)
    (home / "checkout/.venv").symlink_to(".setup/venv.1")
    made = ("cache/ktrial", "data/ktrial/tools/schbench", "state/ktrial/tools", "checkout/agent/target")
    for folder in (*made, "state/ktrial/runs", "config/ktrial/knobs", "etc/ktrial/knobs.d", "checkout/src"):
        (home / folder).mkdir(parents=True)
    removed = checkout.remove_own_files()
    expected = [
        "cache/ktrial",
        "data/ktrial/tools",
        "state/ktrial/tools",
        "checkout/.venv",
        "checkout/.setup",
        "checkout/agent/target",
    ]
    assert removed == [str(home / name) for name in expected]
    assert not any((home / name).exists() for name in expected)
    assert checkout.remaining_files() == [
        str(home / "config/ktrial"),
        str(home / "state/ktrial"),
        str(home / "etc/ktrial"),
        str(home / "checkout"),
    ]
    assert checkout.remove_own_files() == []


def test_this_is_a_checkout() -> None:
    folder = checkout.checkout_folder()
    assert folder is not None
    assert (folder / "pyproject.toml").is_file()
