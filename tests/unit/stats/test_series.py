# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from ktrial.domain.question import Observation
from ktrial.stats.layout import Runs, read_runs
from ktrial.stats.series import drift_check, read_series


def hosts(values: np.random.Generator, slope: float) -> dict[str, Runs]:
    """Three hosts of very different speed, each with ten runs of `a` and then ten of `b`; drift within each host."""
    runs: dict[str, list[Observation]] = {"a": [], "b": []}
    for host in range(3):
        for index in range(20):
            value = 5 * host + slope * index + float(values.normal(0, 0.01))
            arm = "a" if index < 10 else "b"
            runs[arm].append(Observation(value=value, place=20 * host + index, block=str(host)))
    return {arm: read_runs(held, "difference", "higher") for arm, held in runs.items()}


def test_what_differs_between_hosts_is_no_drift() -> None:
    series = read_series(hosts(np.random.default_rng(1), 0.0))
    check = drift_check(series, "b", "a", 0.05)
    assert check is not None
    assert check.holds
    assert series.dependence is not None
    assert series.dependence.holds


def test_drift_within_hosts_is_held_against_the_effect() -> None:
    series = read_series(hosts(np.random.default_rng(1), 0.1))
    check = drift_check(series, "b", "a", 1.0)
    assert check is not None
    assert check.holds is False
    # The arms lie ten runs apart in each host.
    assert check.value == pytest.approx(1.0, rel=0.05)


def test_rounds_of_single_runs_tell_no_drift() -> None:
    runs = {
        arm: read_runs(
            [Observation(value=1.0 + i, place=2 * i + first, block=str(i)) for i in range(9)], "difference", "higher"
        )
        for first, arm in enumerate("ab")
    }
    assert drift_check(read_series(runs), "b", "a", 0.0) is None


def test_arms_without_a_common_block_have_no_drift_between_them() -> None:
    runs = {
        arm: read_runs(
            [Observation(value=1.0 + i, place=2 * i + first, block=arm + str(i % 2)) for i in range(9)],
            "difference",
            "higher",
        )
        for first, arm in enumerate("ab")
    }
    assert drift_check(read_series(runs), "b", "a", 1.0) is None
