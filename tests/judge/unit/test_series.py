# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from ktrial.judge.model.question import Observation
from ktrial.judge.observational_layout import Runs, read_runs
from ktrial.judge.outcome_series import OutcomeSeries, analyse, drift_check, read_series
from ktrial.judge.stats.arrays import Array


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


def in_turns(a: Array, b: Array) -> OutcomeSeries:
    """Runs of two arms that take turns."""
    runs = {
        arm: read_runs(
            [Observation(value=float(x), place=2 * i + which) for i, x in enumerate(values)], "difference", None
        )
        for which, (arm, values) in enumerate((("a", a), ("b", b)))
    }
    return read_series(runs)


def wandering(count: int, random: np.random.Generator) -> Array:
    """Each run 0.7 of the one before it, and new noise."""
    values = [float(random.normal())]
    for _ in range(count - 1):
        values.append(0.7 * values[-1] + float(random.normal(0, 0.7)))
    return np.array(values)


def test_runs_of_one_arm_that_depend_on_each_other_are_seen_beside_another_arm() -> None:
    random = np.random.default_rng(3)
    series = in_turns(wandering(40, random), random.normal(0, 1, 40))
    assert series.dependence is not None
    assert series.dependence.holds, "all runs together hide it"
    for pair in (("a", "b"), ("b", "a")):
        check = series.dependence_of(*pair)
        assert check is not None
        assert check.holds is False
        assert "consecutive runs of a are alike (lag-1 autocorrelation 0." in check.sentence


def test_independent_runs_are_seldom_taken_for_dependent_or_drifting() -> None:
    random = np.random.default_rng(5)
    alike = drifted = 0
    for _ in range(400):
        series = in_turns(random.normal(0, 1, 20), random.normal(0, 1, 20))
        dependence, drift = series.dependence_of("b", "a"), drift_check(series, "b", "a", 1.0)
        assert dependence is not None
        assert drift is not None
        alike += not dependence.holds
        drifted += drift.sentence.startswith("the runs")
    assert alike <= 32
    assert drifted <= 56


def test_arms_that_drift_apart_are_seen_though_together_they_do_not() -> None:
    random = np.random.default_rng(4)
    series = in_turns(
        np.linspace(0, 3, 20) + random.normal(0, 0.2, 20), np.linspace(3, 0, 20) + random.normal(0, 0.2, 20)
    )
    check = drift_check(series, "b", "a", 1.0)
    assert check is not None
    assert check.holds is False
    assert check.value == pytest.approx(-3.0, rel=0.15)
    assert check.sentence.startswith("the runs of b drifted, although all arms together did not")


@pytest.mark.parametrize("arms", ["ab", "abc"])
def test_a_difference_that_changes_with_the_block_is_a_finding(arms: str) -> None:
    """b is faster on four hosts and slower on two, far beyond the noise within a host: units are the hosts."""
    random = np.random.default_rng(6)
    gains = {"a": [0.0] * 6, "b": [1.0, 1.2, 0.9, 1.1, -0.8, -1.0], "c": [0.5, -0.4, 0.6, 0.1, 0.2, -0.5]}
    runs = {
        arm: read_runs(
            [
                Observation(value=3 * host + gain + float(random.normal(0, 0.05)), block=str(host))
                for host, gain in enumerate(gains[arm])
                for _ in range(5)
            ],
            "difference",
            "higher",
        )
        for arm in arms
    }
    _, tables, found = analyse(runs, "a", "difference", 0.05, True)
    (finding,) = found
    assert (finding.kind, finding.level) == ("interaction", "suspect")
    assert "changes from block to block by more than the noise within blocks (F(" in finding.sentence
    assert [pair.differs for table in tables for pair in table.pairs] == [False] * (3 if arms == "abc" else 0)


def test_equal_differences_are_seldom_an_interaction() -> None:
    random = np.random.default_rng(7)
    seen = 0
    for _ in range(300):
        runs = {
            arm: read_runs(
                [
                    Observation(value=3 * host + float(random.normal(0, 1)), block=str(host))
                    for host in range(6)
                    for _ in range(4)
                ],
                "difference",
                "higher",
            )
            for arm in "ab"
        }
        seen += bool(analyse(runs, "a", "difference", 0.05, True)[2])
    assert seen <= 10
