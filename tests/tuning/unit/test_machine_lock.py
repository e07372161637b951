# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ktrial.kit.errors import Busy, KtrialError, Refused
from ktrial.tuning.state.lock import BUILD_PLACES, PLACES, MachineLock, look


def test_a_machine_has_one_trial_and_another_machine_its_own(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    first, second, other = MachineLock(here), MachineLock(here), MachineLock(there)
    first.take()
    first.take()
    other.take()
    with pytest.raises(
        Busy, match=rf"another trial runs on this machine: process {os.getpid()}\b.*, since 20"
    ) as caught:
        second.take()
    assert "even with separate stores" in (caught.value.hint or "")
    first.close()
    second.take()
    for lock in (first, second, other):
        lock.close()


def test_commands_share_the_machine_and_exclude_trials(tmp_path: Path) -> None:
    first, second, trial = MachineLock(tmp_path), MachineLock(tmp_path), MachineLock(tmp_path)
    first.share()
    second.share()
    with pytest.raises(Busy, match=rf"a command of `ktrial with` runs on this machine: process {os.getpid()}\b"):
        trial.take()
    assert trial.others_trying() == (), "a command is no trial"
    first.close()
    second.close()
    trial.take()
    with pytest.raises(Refused, match=rf"a trial runs on this machine: process {os.getpid()}\b"):
        first.share()
    trial.close()


def test_the_lock_needs_no_file_of_ours(tmp_path: Path) -> None:
    lock = MachineLock(tmp_path)
    lock.take()
    assert list(tmp_path.iterdir()) == []
    lock.close()


HOLDS = """import sys, pathlib
from ktrial.tuning.state.lock import MachineLock
lock = MachineLock(pathlib.Path(sys.argv[1]))
getattr(lock, sys.argv[2])()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("does, asks", [("build", "others_building"), ("take", "others_trying")])
def test_builds_and_trials_of_other_processes_are_seen_and_kept_away_by_nobody(
    tmp_path: Path, does: str, asks: str
) -> None:
    (tmp_path / "proc").mkdir()
    mine = MachineLock(tmp_path)
    mine.build()
    if does == "build":
        mine.take()
    assert (mine.others_building(), mine.others_trying()) == ((), ()), "this process is nobody else"
    words = [sys.executable, "-c", HOLDS, str(tmp_path), does]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        (told,) = getattr(mine, asks)()
        assert told.startswith(f"process {other.pid} of ")
        other.communicate("")
    assert getattr(mine, asks)() == ()
    mine.close()


def test_a_machine_without_a_place_for_builds_has_none(tmp_path: Path) -> None:
    lock = MachineLock(tmp_path / "absent")
    lock.build()
    assert (lock.others_building(), lock.others_trying()) == ((), ())


def test_a_machine_without_a_place_for_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(KtrialError, match="to lock this machine") as error:
        MachineLock(tmp_path / "absent").take()
    assert error.value.hint == "check the folder after --machine-root"


def test_the_real_place_can_be_opened_by_any_user() -> None:
    assert PLACES[0].exists()
    assert BUILD_PLACES[0].exists()
    assert BUILD_PLACES[0].stat().st_ino != PLACES[0].stat().st_ino
    assert PLACES[1].stat().st_mode & 0o444 == 0o444


def test_this_process_is_seen_as_it_is() -> None:
    seen = look(os.getpid())
    assert seen.user is not None
    assert seen.started is not None
    assert seen.environment is not None
    assert any("py" in word for word in seen.words)


def test_a_process_that_is_gone_is_only_a_number() -> None:
    seen = look(2**22 + 1)  # beyond any pid_max
    assert (seen.pid, seen.user, seen.words, seen.environment, seen.started) == (2**22 + 1, None, (), None, None)
