# SPDX-License-Identifier: Apache-2.0
"""Live trials on recorded live work, by the shipped judge: the short form of `perf.live`."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from ktrial.judge.collect_log import collect, pairs_of, visit_scores
from perf.live import (
    MOST_FALSE,
    PLANTED,
    Recorded,
    canary,
    is_beyond,
    outcomes,
    periods,
    plan_of,
    recording,
    replay_log,
    replays,
)
from perf.simulated_trials import ARM, CONTROL, OUTCOME

COUNT = 60


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return next(one for one in outcomes() if one.name == "redis, median latency")


def test_three_percent_is_found_with_the_cap_that_was_stated_first(recorded: Recorded) -> None:
    plan = plan_of(recorded)
    assert plan.can_detect
    generator = np.random.default_rng(1)
    slower = replays(recorded, plan, 1 + PLANTED, COUNT, generator, adjusts=True)
    assert binomtest(round(slower.worse * COUNT), COUNT, 0.9, alternative="less").pvalue > 0.01
    assert slower.better == 0
    # The rule in use hardly sees it on the same recording.
    assert canary(recorded, plan, 1 + PLANTED, COUNT, generator) < slower.worse / 2


def test_equal_arms_are_seldom_told_apart(recorded: Recorded) -> None:
    plan = plan_of(recorded)
    equal = replays(recorded, plan, 1.0, COUNT, np.random.default_rng(2), adjusts=True)
    assert not is_beyond(equal.better + equal.worse, COUNT, MOST_FALSE, "greater")


def test_a_replay_is_a_trial_of_neighbouring_periods(recorded: Recorded) -> None:
    plan = plan_of(recorded)
    readings = periods(recorded, plan, plan.cap, np.random.default_rng(3))
    log = replay_log(plan, readings, 1 + PLANTED, 5, adjusts=False)
    trial = collect(log)
    found = pairs_of(visit_scores(trial, OUTCOME), ARM, CONTROL).differences
    values = np.array([value for value, _ in readings]).reshape(plan.cap, 2)
    apart = np.abs(np.log(values[:, 0] / values[:, 1]))
    # What was planted is taken away again: then only the order decides the sign.
    assert np.abs(found + math.log(1 + PLANTED)) == pytest.approx(apart)


@pytest.mark.parametrize("file", ["redis.csv", "pgbench.csv"])
def test_recordings_are_whole(file: str) -> None:
    rows = recording(file)
    assert len(rows) > 2_400
    assert (np.diff(rows[:, 0]) >= 0).all()
    assert (rows[:, 1:5] > 0).all()
