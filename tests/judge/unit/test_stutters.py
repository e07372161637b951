# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from ktrial.judge.stats.stutters import Episode, episodes, late_frames, recurrence


def test_what_is_late_and_how_much_of_the_time() -> None:
    durations = np.full(600, 0.1)
    durations[[100, 300]] = 0.5
    ends = np.cumsum(durations)
    found = late_frames(ends, durations, 0.0, float(ends[-1]), 0.2)
    assert found.count == 2
    assert found.ends_s.tolist() == pytest.approx(ends[[100, 300]].tolist())
    assert found.share.estimate == pytest.approx(0.6 / ends[-1])
    assert found.share.low is not None
    assert found.share.high is not None
    assert found.share.low < found.share.estimate < found.share.high
    assert found.per_hour.estimate == pytest.approx(2 * 3600 / ends[-1])
    assert "200 ms" in found.definition


def test_without_a_limit_what_stands_out_among_its_neighbours() -> None:
    durations = np.concatenate([np.full(100, 0.016), [0.05], np.full(100, 0.05)])
    durations[50] = 0.04
    found = late_frames(np.cumsum(durations), durations, 0.0, float(durations.sum()), None)
    assert found.ends_s.tolist() == pytest.approx([0.016 * 50 + 0.04])


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    inside = 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        durations = np.full(3000, 0.1)
        durations[generator.random(3000) < 0.01] = 0.3
        found = late_frames(np.cumsum(durations), durations, 0.0, float(durations.sum()), 0.2)
        truth = 0.01 * 0.1 / (0.1 + 0.01 * 0.2)
        assert found.share.low is not None
        assert found.share.high is not None
        inside += found.share.low <= truth <= found.share.high
    assert inside >= 16


def test_too_short_for_an_interval() -> None:
    durations = np.full(100, 0.1)
    found = late_frames(np.cumsum(durations), durations, 0.0, 10.0, 0.05)
    assert found.share.low is None


def test_episodes_and_their_recurrence() -> None:
    begins = np.concatenate([np.array([0.0, 5.0, 9.0]) + 100.0 * turn for turn in range(8)])
    found = episodes(begins, begins + 0.1, 30.0)
    assert len(found) == 8
    assert found[1] == Episode(begin_s=100.0, end_s=109.1, count=3)
    again = recurrence(found, 0.0, 800.0, 30.0)
    assert again is not None
    assert again.period_s == 100.0
    assert again.p < 0.01
    assert recurrence(found[:4], 0.0, 800.0, 30.0) is None
    assert episodes(np.empty(0), np.empty(0), 30.0) == ()


def test_random_stutters_recur_by_chance_only() -> None:
    seen = 0
    for seed in range(30):
        begins = np.sort(np.random.default_rng(seed).uniform(0, 3600, size=25))
        again = recurrence(episodes(begins, begins + 0.1, 30.0), 0.0, 3600.0, 30.0)
        assert again is not None
        seen += again.p <= 0.05
    assert seen <= 5
