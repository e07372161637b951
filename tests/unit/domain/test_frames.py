# SPDX-License-Identifier: Apache-2.0
"""Frame statistics: against figures worked out by hand, and against their definitions written plainly."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.domain.benchmark import ParsedRun, check_measurements
from ktrial.domain.errors import BadRun
from ktrial.domain.frames import (
    FRAME_OUTCOMES,
    LEAST_FRAMES,
    NEIGHBOURS,
    STUTTER_FACTOR,
    STUTTER_S,
    frame_statistics,
    usual,
)


def values(times_s: list[float]) -> dict[str, float]:
    return {one.outcome: one.value for one in frame_statistics(times_s).measurements}


def test_figures_worked_out_by_hand() -> None:
    times_s = [0.010] * 990 + [0.050] * 10
    found = values(times_s)
    assert found["frame-time-mean"] == pytest.approx(0.0104)
    assert found["fps"] == pytest.approx(1 / 0.0104)
    assert found["frame-time-p50"] == 0.010
    assert found["frame-time-p99"] == 0.010, "rank 990 of 1000 is the last of the fast ones"
    assert found["frame-time-p999"] == 0.050
    assert found["one-percent-low"] == pytest.approx(20.0)
    assert found["frame-time-max"] == 0.050
    assert "tenth-percent-low" not in found


def test_average_rate_is_not_the_mean_of_rates() -> None:
    assert values([0.010, 0.030] * 100)["fps"] == pytest.approx(50.0)


def test_lone_slow_frames_are_stutters() -> None:
    times_s = [1 / 60] * 600
    for at in (0, 100, 350, 599):
        times_s[at] = 2 / 60
    found = values(times_s)
    assert found["stutters"] == 4, "a missed refresh of the screen counts, also at the ends"
    assert found["late-time"] == pytest.approx(4 / 604)
    assert found["stutter-rate"] == pytest.approx(4 / (604 / 60))


def test_a_slower_scene_is_no_stutter() -> None:
    found = values([1 / 120] * 300 + [1 / 40] * 300)
    assert found["stutters"] <= NEIGHBOURS, "only where the slow scene begins"
    assert values([1 / 40] * 300)["stutters"] == 0


def test_short_frames_are_no_stutters() -> None:
    times_s = [0.002] * 300
    times_s[150] = STUTTER_S * 0.9
    assert values(times_s)["stutters"] == 0


def test_too_few_frames_are_missing_and_not_zero() -> None:
    with pytest.raises(BadRun, match="99 frames are too few"):
        frame_statistics([0.01] * (LEAST_FRAMES - 1))
    found = frame_statistics([0.01] * 499)
    assert {one.outcome: one.why for one in found.left_out} == {
        "frame-time-p999": "needs 1000 frames, there are 499",
        "one-percent-low": "needs 500 frames, there are 499",
        "tenth-percent-low": "needs 5000 frames, there are 499",
    }
    assert {one.outcome for one in found.measurements} | {one.outcome for one in found.left_out} == {
        one.outcome.name for one in FRAME_OUTCOMES
    }


@pytest.mark.parametrize("bad", [0.0, -0.01, math.nan, math.inf])
def test_what_is_no_time_is_refused(bad: float) -> None:
    with pytest.raises(BadRun, match="not above 0"):
        frame_statistics([0.01] * 200 + [bad])


def test_every_outcome_says_what_it_is() -> None:
    names = [one.outcome.name for one in FRAME_OUTCOMES]
    assert len(set(names)) == len(names)
    assert sum(one.outcome.headline for one in FRAME_OUTCOMES) == 1
    for one in FRAME_OUTCOMES:
        assert one.needs_frames >= LEAST_FRAMES
        for sentence in (one.definition, one.outcome.better, one.outcome.worse, one.outcome.blind_spots):
            assert sentence.endswith("."), sentence


@settings(max_examples=80, deadline=None)
@given(times_s=st.lists(st.floats(1e-4, 1.0), min_size=LEAST_FRAMES, max_size=300))
def test_against_the_definitions(times_s: list[float]) -> None:
    around = [
        statistics.median(times_s[max(0, at - NEIGHBOURS) : at] + times_s[at + 1 : at + 1 + NEIGHBOURS])
        for at in range(len(times_s))
    ]
    assert usual(times_s) == pytest.approx(around)
    stutters = [
        time_s - usual_s
        for time_s, usual_s in zip(times_s, around, strict=True)
        if time_s > STUTTER_FACTOR * usual_s and time_s > STUTTER_S
    ]
    found = values(times_s)
    assert found["stutters"] == len(stutters)
    assert found["late-time"] == pytest.approx(sum(stutters) / sum(times_s))
    p99 = found["frame-time-p99"]
    assert sum(time_s <= p99 for time_s in times_s) >= 0.99 * len(times_s)
    assert sum(time_s < p99 for time_s in times_s) < 0.99 * len(times_s)
    check_measurements(
        tuple(one.outcome for one in FRAME_OUTCOMES),
        ParsedRun(measurements=frame_statistics(times_s).measurements),
    )


@pytest.mark.parametrize("times_s, expected", [([], []), ([0.02], [0.02]), ([0.02, 0.05], [0.05, 0.02])])
def test_what_is_usual_around_few_frames(times_s: list[float], expected: list[float]) -> None:
    assert usual(times_s) == expected
