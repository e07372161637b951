# SPDX-License-Identifier: Apache-2.0
"""When a block of a live trial may begin, and who may ask something of a trial that runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.kit.errors import Busy, Refused
from ktrial.live.control import TrialDesk, ask_of, running_trials
from ktrial.live.pace import LivePace
from ktrial.trial.protocol.live import parse_quiet
from tests.support.live_trials import MIDNIGHT_MS, in_utc

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with in_utc():
        yield


def at(hour: float) -> int:
    return MIDNIGHT_MS + round(hour * HOUR_MS)


def test_no_block_begins_in_quiet_hours_or_would_reach_into_them() -> None:
    pace = LivePace(3600.0, 4, quiet=parse_quiet("22:00-06:00"))
    assert pace.hold_up(at(12), 0) is None
    assert pace.hold_up(at(21), 0) is None
    late = pace.hold_up(at(21.5), 0)
    assert late is not None
    assert late.left_s == 8.5 * 3600
    night = pace.hold_up(at(1), 0)
    assert night is not None
    assert night.left_s == 5 * 3600
    assert pace.hold_up(at(6), 0) is None


def test_switches_of_the_last_24_hours_count_against_the_budget() -> None:
    pace = LivePace(60.0, 4, switches=6, switched_ms=[at(0)])
    for hour in (1, 2, 3):
        pace.switched(at(hour))
    held = pace.hold_up(at(4), 0)
    assert held is not None
    # Two of the four switches must be a day ago, so that a block's four fit into six.
    assert held.left_s == 21 * 3600
    assert pace.hold_up(at(4) + 21 * HOUR_MS + 1, 0) is None


def test_blocks_are_spread_over_the_time() -> None:
    pace = LivePace(60.0, 4, spread_s=7200.0, started_ms=at(8))
    assert pace.hold_up(at(8), 0) is None
    held = pace.hold_up(at(8.5), 1)
    assert held is not None
    assert held.left_s == 1.5 * 3600
    assert pace.hold_up(at(10), 1) is None


def test_another_process_reaches_a_running_trial_and_no_other(tmp_path: Path) -> None:
    desk = TrialDesk(tmp_path / "live", "wsf-1")
    desk.open()
    assert running_trials(tmp_path / "live") == ("wsf-1",)
    assert desk.request() == "run"
    for wanted in ("pause", "run", "stop"):
        ask_of(tmp_path / "live", "wsf-1", wanted)
        assert desk.request() == wanted
    with pytest.raises(Refused, match="wsf-2 is not running"):
        ask_of(tmp_path / "live", "wsf-2", "stop")
    with pytest.raises(Busy, match="another process is running wsf-1"):
        TrialDesk(tmp_path / "live", "wsf-1").open()
    desk.close()
    assert running_trials(tmp_path / "live") == ()


def test_a_killed_trial_does_not_count_as_running(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        TrialDesk(tmp_path, "killed").open()
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    assert (tmp_path / "killed").exists()
    assert running_trials(tmp_path) == ()
    TrialDesk(tmp_path, "killed").open()
