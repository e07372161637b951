# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ktrial.agent import run_folder
from ktrial.agent.run_folder import PrivateFolder, own_tmpfs, private_place, remove_leftovers
from ktrial.kit.errors import KtrialError


def test_a_folder_that_goes_with_the_session_goes_before_the_one_with_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert private_place("x") == tmp_path / "x"
    monkeypatch.setattr(run_folder, "ROOTS_OWN", tmp_path / "none")
    monkeypatch.setattr(run_folder, "_OF_USERS", tmp_path / "users")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert private_place("x") == tmp_path / "state" / "ktrial" / "x"


def test_a_run_in_memory_finds_its_folder_where_sudo_dropped_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as users:
        monkeypatch.setattr(run_folder, "ROOTS_OWN", Path(users) / "none")
        monkeypatch.setattr(run_folder, "_OF_USERS", Path(users))
        with pytest.raises(KtrialError, match="this user has none"):
            own_tmpfs()
        place = Path(users) / str(os.geteuid())
        place.mkdir()
        assert own_tmpfs() == place / "ktrial-work"


#: Another process with the same session and results elsewhere; it says what it made, and waits to be killed.
OTHER = """
import sys
from pathlib import Path
from ktrial.agent.run_folder import PrivateFolder
folder = PrivateFolder(Path(sys.argv[1]))
(folder.path / "object").write_text("built")
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_what_another_with_the_same_session_works_in_is_no_leftover_until_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(run_folder, "ROOTS_OWN", tmp_path / "none")
    argv = [sys.executable, "-c", OTHER, str(tmp_path / "ktrial-work")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        remove_leftovers(tmp_path / "state" / "work")
        assert (theirs / "object").read_text() == "built"
        other.kill()
    remove_leftovers(tmp_path / "state" / "work")
    assert list((tmp_path / "ktrial-work").iterdir()) == []


def test_a_folder_is_taken_away_by_its_owner_and_can_be_made_again(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path / "work")
    (folder.path / "deep").mkdir(mode=0o500)
    assert (tmp_path / "work").stat().st_mode & 0o777 == 0o700
    folder.remove()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_folder_of_somebody_else_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert private_place("x") != tmp_path / "x"


def test_a_place_that_is_a_link_or_somebody_elses_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(run_folder, "ROOTS_OWN", tmp_path / "none")
    left = tmp_path / "elsewhere" / "run-x"
    left.mkdir(parents=True)
    (tmp_path / "ktrial-work").symlink_to(tmp_path / "elsewhere")
    remove_leftovers(tmp_path / "work")
    assert left.is_dir()
    (tmp_path / "ktrial-work").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "ktrial-work")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    remove_leftovers(tmp_path / "work")
    assert (tmp_path / "ktrial-work" / "run-x").is_dir()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    remove_leftovers(tmp_path / "work")
    assert list((tmp_path / "ktrial-work").iterdir()) == []
