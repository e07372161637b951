# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktrial.domain.errors import Busy, KtrialError
from ktrial.host.machine_lock import PLACES, MachineLock, look


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
    assert "whatever their stores" in (caught.value.hint or "")
    first.close()
    second.take()
    for lock in (first, second, other):
        lock.close()


def test_the_lock_needs_no_file_of_ours(tmp_path: Path) -> None:
    lock = MachineLock(tmp_path)
    lock.take()
    assert list(tmp_path.iterdir()) == []
    lock.close()


def test_a_machine_without_a_place_for_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(KtrialError, match="cannot be locked"):
        MachineLock(tmp_path / "absent").take()


def test_the_real_place_can_be_opened_by_any_user() -> None:
    assert PLACES[0].exists()
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
