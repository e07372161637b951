# SPDX-License-Identifier: Apache-2.0
"""A recording lies where what is watched does not, if there is a choice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktrial.watch.record.place import paths_of, recording_place


def place(folder: Path, disks: dict[str, str], watched: str = "game") -> str:
    """Where it goes, below the test's folder."""
    for name in ("state", "game", "spare"):
        (folder / name).mkdir(exist_ok=True)

    def disks_of(path: Path) -> frozenset[str]:
        name = path.relative_to(folder).parts[0]
        return frozenset((disks[name],)) if name in disks else frozenset()

    usual = folder / "state/recordings"
    return str(recording_place(usual, [folder / watched], [folder / "spare"], disks_of).relative_to(folder))


@pytest.mark.parametrize(
    "disks, wanted",
    [
        ({"state": "sda", "game": "sdb", "spare": "sda"}, "state/recordings"),
        ({"state": "sda", "game": "sda", "spare": "sdb"}, f"spare/ktrial-{os.geteuid()}"),
        ({"state": "sda", "game": "sda", "spare": "sda"}, "state/recordings"),
        ({"state": "sda", "game": "sda"}, "state/recordings"),  # the spare one is memory, or nobody knows
        ({"spare": "sdb"}, "state/recordings"),
    ],
)
def test_it_goes_where_the_program_is_not(disks: dict[str, str], wanted: str, tmp_path: Path) -> None:
    assert place(tmp_path, disks) == wanted


def test_a_folder_that_somebody_else_can_write_to_is_not_taken(tmp_path: Path) -> None:
    disks = {"state": "sda", "game": "sda", "spare": "sdb"}
    assert place(tmp_path, disks).startswith("spare")
    own = tmp_path / f"spare/ktrial-{os.geteuid()}"
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    assert place(tmp_path, disks) == "state/recordings"
    own.rmdir()
    own.symlink_to(tmp_path / "game")
    assert place(tmp_path, disks) == "state/recordings"


def test_what_is_watched_is_the_program_where_it_was_started_and_swap(tmp_path: Path) -> None:
    header = "Filename Type Size Used Priority\n"
    (tmp_path / "swaps").write_text(f"{header}/dev/sda2 partition 1 0 -2\n/my\\040swap file 1 0 -3\n")
    swaps = [Path("/dev/sda2"), Path("/my swap")]
    found = [paths_of(words, pid, tmp_path) or [] for words, pid in ((("sh", "-c", "true"), None), (None, 7))]
    assert found[0][-2:] == swaps
    assert Path.cwd() in found[0]
    assert found[1][:2] == [tmp_path / "7/exe", tmp_path / "7/cwd"]


def test_where_swap_lies_is_not_guessed(tmp_path: Path) -> None:
    assert paths_of(None, None, tmp_path / "no-proc") is None
    (tmp_path / "self").mkdir()
    assert paths_of(None, None, tmp_path) == [Path("/")]
    (tmp_path / "swaps").mkdir()
    assert paths_of(None, None, tmp_path) is None
    assert recording_place(tmp_path / "state", None, [tmp_path], lambda path: frozenset(("sda",))) == tmp_path / "state"
