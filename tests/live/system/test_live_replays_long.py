# SPDX-License-Identifier: Apache-2.0
"""What live trials and their guards promise, on 2,000 replays and 2,000 simulated trials. Seeds are fixed."""

from __future__ import annotations

import numpy as np
import pytest

from perf.live import (
    LEAST_FOUND,
    MOST_FALSE,
    MOST_TRIPS,
    PLANTED,
    is_beyond,
    outcomes,
    plan_of,
    replays,
    steps_seen,
    trips_in_noise,
)

COUNT = 2_000
RECORDED = {one.name: one for one in outcomes()}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("adjusts", [False, True])
def test_equal_arms_are_seldom_told_apart_and_what_is_promised_is_found(name: str, adjusts: bool) -> None:
    recorded = RECORDED[name]
    plan = plan_of(recorded, adjusts=adjusts)
    equal = replays(recorded, plan, 1.0, COUNT, np.random.default_rng(1), adjusts=adjusts)
    assert not is_beyond(equal.better + equal.worse, COUNT, MOST_FALSE, "greater")
    slower = replays(recorded, plan, 1 + PLANTED, COUNT, np.random.default_rng(2), adjusts=adjusts)
    assert slower.better <= 0.01
    if plan.can_detect:
        assert not is_beyond(slower.worse, COUNT, LEAST_FOUND, "less")


def test_guards_trip_in_one_of_a_hundred_trials_of_equal_arms_at_most() -> None:
    assert not is_beyond(trips_in_noise(COUNT, np.random.default_rng(3)), COUNT, MOST_TRIPS, "greater")


@pytest.mark.parametrize("every_ms", [1_000, 15_000])
def test_a_step_of_half_the_latency_takes_two_scrapes_or_ten_seconds(every_ms: int) -> None:
    seen = steps_seen(COUNT // 10, every_ms, np.random.default_rng(4))
    assert (seen > max(2, 10_000 // every_ms)).mean() <= 0.01
