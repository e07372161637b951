# SPDX-License-Identifier: Apache-2.0
"""Ratings by a single key."""

from __future__ import annotations

import os
import pty
import select
import termios
from collections.abc import Sequence

from ktrial.live.rating import RatingKeys
from tests.support.live_trials import LiveTrial


def wait(descriptors: Sequence[int], seconds: float) -> bool:
    return bool(select.select(descriptors, [], [], seconds)[0])


def test_a_key_is_a_rating_and_the_terminal_is_as_before() -> None:
    person, terminal = pty.openpty()
    rung: list[str] = []
    before = termios.tcgetattr(terminal)
    os.write(person, b"5\n")
    assert wait([terminal], 5.0)
    keys = RatingKeys(terminal, wait, lambda: rung.append("rung"))
    keys.begin()
    # What was typed before the question is no answer.
    assert keys.look(0.05) is None
    os.write(person, b"x4")
    assert [keys.look(1.0), keys.look(1.0)] == [None, 4]
    keys.end()
    assert termios.tcgetattr(terminal) == before
    assert rung == ["rung"]
    os.close(person)
    os.close(terminal)


class Mood:
    """Likes the setting; the guards look at the work while it thinks. In one period it gives no answer."""

    def __init__(self, trial: LiveTrial) -> None:
        self.trial = trial
        self.asked = self.ended = 0

    def begin(self) -> None:
        self.asked += 1

    def look(self, seconds: float) -> int | None:
        self.trial.clock.sleep(seconds)
        return None if self.asked == 1 else 4 if self.trial.swappiness == 10 else 2

    def end(self) -> None:
        self.ended += 1


def test_ratings_are_outcomes_and_a_missing_one_is_missing() -> None:
    trial = LiveTrial(lambda now_s, swappiness: 1.0)
    mood = Mood(trial)
    trial.rules["rating"] = mood
    trial.run()
    assert [run.measurements.get("live.rating") for run in trial.runs if run.arm == "case"][-1] == 4
    assert "live.rating" not in trial.runs[0].measurements
    assert mood.ended == mood.asked
