# SPDX-License-Identifier: Apache-2.0
"""What becomes of a trial when the machine sleeps, and when somebody sets its clock."""

from __future__ import annotations

import pytest

from ktrial.judge.model.log import BlockDrawn, BlockVoided, RunEnded, TrialEnd
from tests.support import trial_course
from tests.support.bench import FakeSleep
from tests.support.trial_course import FOUND, Trial, steady


class Asleep(FakeSleep):
    """Sleeps for a minute and a half once, at some look."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at
        self._looks = 0

    def slept_s(self) -> float:
        self._looks += 1
        return 0.0 if self._looks < self._at else 90.0


def test_a_suspend_in_a_run_makes_its_block_void_and_the_block_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two looks a run: of two warm-ups and three blocks of two visits, the second visit of the third block sleeps."""
    monkeypatch.setattr(trial_course, "FakeSleep", lambda: Asleep(2 * (2 + 2 * 3)))
    trial = Trial(steady)
    judgement = trial.run()
    assert judgement is not None
    (void,) = [event for event in trial.log if isinstance(event, BlockVoided)]
    assert (void.block, void.cause, void.reason) == (3, "suspend", "the machine slept for 90 s during the run")
    drawn = [event for event in trial.log if isinstance(event, BlockDrawn)]
    assert judgement.blocks == len(drawn) - 1
    assert judgement.voided == 1
    assert isinstance(trial.log[-1], TrialEnd)
    assert next(one.verdict for one in judgement.judged if one.role == "primary") == "better"
    assert trial.machine.files == FOUND


def test_a_clock_that_is_set_back_changes_nothing_but_the_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders and durations come from the clock that nobody can set."""
    plain = Trial(steady)
    expected = plain.run()
    stepped = Trial(steady)
    looks = iter(range(10_000))
    monkeypatch.setattr(stepped.clock, "unix_ms", lambda: 10**12 - 86_400_000 * next(looks))
    assert stepped.run() == expected
    assert stepped.log == plain.log
    dates = [record.started_unix_ms for record in stepped.store.records]
    assert dates == sorted(dates, reverse=True)
    assert [one.resources.wall_ns for one in stepped.store.records] == [
        one.resources.wall_ns for one in plain.store.records
    ]
    assert sum(isinstance(event, RunEnded) for event in stepped.log) == len(stepped.store.records)
