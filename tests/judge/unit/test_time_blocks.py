# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from ktrial.judge.stats.time_blocks import cells_of, mean_over


def in_bursts(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Half an hour, read once a second: bursts of 5 s that come with a chance of one in twenty."""
    busy = np.random.default_rng(seed).random(360) < 0.05
    return np.arange(1800.0), np.repeat(np.where(busy, 100.0, 0.0), 5)


def test_the_interval_of_a_mean_holds_the_truth_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(60):
        mean = mean_over(*in_bursts(seed), 0.0, 1800.0)
        assert mean.low is not None
        assert mean.high is not None
        assert mean.low <= mean.estimate <= mean.high
        inside += mean.low <= 5.0 <= mean.high
    assert inside >= 51


def test_moments_that_were_not_read_count_for_nothing() -> None:
    times_s, values = in_bursts(1)
    steady = np.full_like(values, 3.0)
    read = (times_s < 400) | (times_s > 900)
    mean = mean_over(times_s[read], steady[read], 0.0, 1800.0)
    assert (mean.estimate, mean.low, mean.high) == pytest.approx((3.0, 3.0, 3.0))


def test_a_time_that_is_too_short_has_no_interval() -> None:
    assert cells_of(59.0) is None
    assert cells_of(0.0) is None
    mean = mean_over(np.arange(50.0), np.arange(50.0), 0.0, 50.0)
    assert (mean.estimate, mean.low, mean.high) == (24.5, None, None)
