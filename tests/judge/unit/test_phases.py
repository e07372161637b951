# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from ktrial.judge.stats.phases import find_phases

TIMES = np.arange(0.0, 3600.0, 5.0)


def rates(*levels: tuple[float, float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Levels up to each moment, with noise."""
    values = np.zeros(len(TIMES))
    for level, until_s in reversed(levels):
        values[until_s > TIMES] = level
    return np.asarray(values * np.exp(0.2 * np.random.default_rng(1).standard_normal(len(TIMES))))


def test_three_phases_as_the_case_study_has_them() -> None:
    found = find_phases([("reclaim", TIMES, rates((3000, 600), (20000, 1800), (5, 3600)))], 0.0, 3600.0)
    assert [phase.name for phase in found.phases] == ["warm-up", "ramp-up", "steady state"]
    assert [phase.end_s for phase in found.phases] == [600, 1800, 3600]
    assert found.doubt is None
    assert found.told_by == ("reclaim",)


def test_a_recording_that_ends_in_the_ramp_up() -> None:
    found = find_phases([("reclaim", TIMES, rates((5, 1800), (20000, 3600)))], 0.0, 3600.0)
    assert [phase.name for phase in found.phases] == ["warm-up", "ramp-up"]
    assert found.doubt == "the recording ends before a steady state"


def test_too_short_and_nothing_to_tell_by() -> None:
    short = find_phases([("reclaim", TIMES[:60], rates((5, 3600))[:60])], 0.0, 300.0)
    assert short.doubt is not None
    assert "too short" in short.doubt
    assert find_phases([], 0.0, 3600.0).phases[0].name == "whole"
    flat = find_phases([("reclaim", TIMES, np.zeros(len(TIMES)))], 0.0, 3600.0)
    assert flat.told_by == ()


def test_one_level_is_a_steady_state() -> None:
    found = find_phases([("reclaim", TIMES, rates((50, 3600)))], 0.0, 3600.0)
    assert [phase.name for phase in found.phases] == ["steady state"]
