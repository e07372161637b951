# SPDX-License-Identifier: Apache-2.0
"""What was begun is known from before it is run until it is undone, whatever is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.bench.run.command_journal import CommandJournalFile
from ktrial.bench.run.undoable_command import ArmCommand
from ktrial.kit.errors import KtrialError

TOUCH = ArmCommand(run=("/bin/touch", "a b"), undo=("/bin/rm", "a b"), environment={"HOME": "/root"}, directory="/")


def test_what_is_left_is_the_newest_first_and_another_process_sees_it(tmp_path: Path) -> None:
    journal = CommandJournalFile(tmp_path / "measuring")
    assert journal.left() == ()
    first = journal.begin("trial", "case", TOUCH)
    second = journal.begin("trial", "case", ArmCommand(run=("x",), undo=("y",)))
    again = CommandJournalFile(tmp_path / "measuring")
    assert [(one.number, one.trial, one.arm) for one in again.left()] == [
        (second, "trial", "case"),
        (first, *("trial", "case")),
    ]
    assert again.left()[1].command == TOUCH
    assert Path(journal.where).stat().st_mode & 0o777 == 0o600
    again.end(second)
    assert [one.number for one in journal.left()] == [first]
    again.end(first)
    assert journal.left() == ()
    assert not Path(journal.where).exists()


def test_cut_off_anywhere_it_tells_what_was_whole(tmp_path: Path) -> None:
    journal = CommandJournalFile(tmp_path)
    journal.begin("trial", "case", TOUCH)
    first = Path(journal.where).read_bytes()
    journal.begin("trial", "other", TOUCH)
    whole = Path(journal.where).read_bytes()
    for size in range(len(whole) + 1):
        Path(journal.where).write_bytes(whole[:size])
        arms = [one.arm for one in journal.left()]
        assert arms == (["other", "case"] if size == len(whole) else ["case"] if size >= len(first) else [])
    Path(journal.where).write_bytes(whole[:-5])
    journal.begin("trial", "third", TOUCH)
    assert [one.arm for one in journal.left()] == ["third", "case"]


def test_what_is_no_journal_is_named_with_its_line(tmp_path: Path) -> None:
    journal = CommandJournalFile(tmp_path)
    journal.begin("trial", "case", TOUCH)
    with Path(journal.where).open("ab") as file:
        file.write(b'{"event": "danced"}\n')
    with pytest.raises(KtrialError, match=r"commands\.jsonl:2: ") as caught:
        journal.left()
    assert "by hand" in (caught.value.hint or "")
