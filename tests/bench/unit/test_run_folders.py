# SPDX-License-Identifier: Apache-2.0
"""Private directories of runs in a guest, with the programs there as programs of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktrial.bench.benchmark import RawOutput
from ktrial.bench.guest_tools import GuestTools
from ktrial.bench.run import folders as run_folders
from ktrial.bench.run.folders import FoldersInGuest
from ktrial.kit.errors import AgentError, KtrialError


class Guest:
    """A session whose guest is this machine below a folder; `gone`: every request fails."""

    def __init__(self) -> None:
        self.gone = self.exact = False
        self.programs = {"/usr/bin/mktemp", "/usr/bin/cat", "/usr/bin/rm"}

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        if self.gone:
            raise AgentError("lost", "the guest has ended")
        assert do == "exec"
        told = {"timed_out": False, "wall_ns": 1}
        if fields["argv"][0] not in self.programs:
            return {**told, "exit": {"failed": "it is not there"}, "stdout": "", "stderr": "", **_sizes("", "")}
        done = subprocess.run(fields["argv"], capture_output=True, text=True, check=False, env=fields["environment"])
        status = {"status": done.returncode}
        sizes = _sizes(done.stdout, done.stderr)
        return {**told, "exit": status, "stdout": done.stdout, "stderr": done.stderr, **sizes}

    def list(self, patterns: list[str]) -> dict[str, tuple[str, ...]]:
        if self.gone:
            raise AgentError("lost", "the guest has ended")
        found = {one: Path(one) for one in patterns}
        return {one: tuple(map(str, path.parent.glob(path.name))) for one, path in found.items()}


def _sizes(stdout: str, stderr: str) -> dict[str, int]:
    return {"stdout_total_bytes": len(stdout), "stderr_total_bytes": len(stderr)}


@pytest.fixture
def guest() -> Guest:
    return Guest()


@pytest.fixture
def folders(guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FoldersInGuest:
    monkeypatch.setattr(run_folders, "_GUEST_DISK", str(tmp_path))
    session: Any = guest
    return FoldersInGuest(lambda: session, lambda: GuestTools(places={}, exact=guest.exact))


def test_a_program_has_a_directory_of_its_own_whose_files_are_read_before_it_goes(folders: FoldersInGuest) -> None:
    made, other = (folders.make(in_memory=False, for_program=True) for _ in range(2))
    assert made != other
    (made / "out.json").write_text("{}", encoding="utf-8")
    (made / "log.1").write_text("a", encoding="utf-8")
    raw = folders.with_files(RawOutput(exit_status=0), made, ("out.json", "log.*", "never-written"))
    assert raw.files == {"out.json": b"{}", "log.1": b"a"}
    assert raw.unread is None
    folders.remove(made)
    assert (made.exists(), other.exists()) == (False, True)


def test_in_an_exact_guest_a_directory_stays(folders: FoldersInGuest, guest: Guest) -> None:
    made = folders.make(in_memory=False, for_program=True)
    guest.exact = True
    folders.remove(made)
    assert made.exists()


def test_a_load_of_the_agents_own_works_where_all_do(folders: FoldersInGuest, guest: Guest, tmp_path: Path) -> None:
    guest.gone = True
    assert folders.make(in_memory=False, for_program=False) == tmp_path
    folders.remove(tmp_path)
    assert tmp_path.exists()


def test_a_guest_without_what_makes_a_directory_says_so(folders: FoldersInGuest, guest: Guest) -> None:
    guest.programs.clear()
    with pytest.raises(KtrialError, match="cannot make a private folder in the guest: it is not there"):
        folders.make(in_memory=False, for_program=True)


def test_files_that_cannot_be_read_are_told(folders: FoldersInGuest, guest: Guest) -> None:
    made = folders.make(in_memory=False, for_program=True)
    (made / "folder").mkdir()
    raw = folders.with_files(RawOutput(exit_status=0), made, ("folder",))
    assert raw.unread is not None
    assert "Is a directory" in raw.unread
    guest.gone = True
    assert folders.with_files(RawOutput(exit_status=0), made, ("a",)).unread == "a: the guest has ended"
    folders.remove(made)
