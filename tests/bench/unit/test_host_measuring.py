# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktrial.agent.run_folder import remove_leftovers
from ktrial.bench.run.place import MeasuringPlace
from ktrial.kit.errors import Busy, KtrialError
from ktrial.tuning.state.lock import MachineLock


def place_in(folder: Path) -> MeasuringPlace:
    return MeasuringPlace(folder, MachineLock(folder))


def test_only_one_measures_at_a_time(tmp_path: Path) -> None:
    first, second = place_in(tmp_path), place_in(tmp_path)
    first.lock()
    with pytest.raises(Busy, match=f"process {os.getpid()}"):
        second.lock()
    first.close()
    second.lock()
    second.close()


def test_the_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    place = place_in(tmp_path / "measuring")
    place.lock()
    place.close()
    assert (tmp_path / "measuring").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "measuring" / "lock").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KtrialError, match=r"cannot write .*: Not a directory"):
        place_in(tmp_path / "file" / "measuring").lock()


def test_what_a_killed_measurement_left_is_taken_away(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "run-x" / "deep").mkdir(parents=True)
    (work / "run-x" / "deep" / "file").write_text("left")
    (work / "run-x" / "deep").chmod(0o500)
    remove_leftovers(work)
    assert list(work.iterdir()) == []
