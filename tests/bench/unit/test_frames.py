# SPDX-License-Identifier: Apache-2.0
"""Frame statistics: against figures worked out by hand, and against their definitions written plainly."""

from __future__ import annotations

import itertools
import math
import statistics
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.bench.benchmark import ParsedRun, check_measurements
from ktrial.judge.model.stutter import NEIGHBOURS, STUTTER_FACTOR, STUTTER_S, usual
from ktrial.kit.errors import BadInput, BadRun
from ktrial.recordings.figures import watch_figures
from ktrial.recordings.frames.statistics import BELOW_FPS, FRAME_OUTCOMES, LEAST_FRAMES, below_rate, frame_statistics
from ktrial.recordings.model import Frames, Recording, Source


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


def test_the_share_of_slow_frames_is_what_a_recording_has_too() -> None:
    times_s = [0.010] * 196 + [0.041] * 3 + [0.040]
    found = {below: frame_statistics(times_s, below) for below in (BELOW_FPS, 30.0, 20.0)}
    share = {below: one.measurements[-1] for below, one in found.items()}
    assert {below: one.value for below, one in share.items()} == {25.0: 3 / 200, 30.0: 4 / 200, 20.0: 0.0}
    assert share[25.0].original == "3 of 200 frames took longer than 40 ms"
    assert frame_statistics(times_s).measurements[-1] == share[25.0]
    ends_s = list(itertools.accumulate(times_s))
    frames = Frames(kind="frame", source="frames", ends_s=array("d", ends_s), durations_s=array("d", times_s))
    sources = (Source(name="frames", state="active"),)
    recording = Recording(name="r", begin_s=0.0, end_s=ends_s[-1], sources=sources, frames=frames)
    watched = watch_figures(recording, below_fps=30.0)
    assert next(one for one in watched.measurements if one.outcome == "slow-frame-share") == share[30.0]


@pytest.mark.parametrize("bad", [0, 0.5, 1001, True, "30", math.nan])
def test_a_rate_that_none_can_be_below_of_is_refused(bad: object) -> None:
    with pytest.raises(BadInput, match=r"--below-fps: expected 1 to 1000 frames per second, got "):
        below_rate(bad, "--below-fps")


def test_too_few_frames_are_missing_and_not_zero() -> None:
    with pytest.raises(BadRun, match="too few frames for frame statistics: 99 "):
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
    with pytest.raises(BadRun, match="expected a finite number above 0"):
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
