# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.stats import diagnostics
from ktrial.judge.stats.arrays import Array


def normal(count: int, seed: int = 2) -> Array:
    return np.random.default_rng(seed).normal(size=count)


def test_normality_is_shapiro_wilk() -> None:
    check = diagnostics.normality("stock", normal(20))
    assert check is not None
    assert (check.holds, check.value) == (True, stats.shapiro(normal(20)).pvalue)
    skewed = diagnostics.normality("stock", np.exp(3 * normal(20)))
    assert skewed is not None
    assert not skewed.holds
    assert diagnostics.normality("stock", np.full(9, 0.1)) is None
    assert diagnostics.normality("stock", normal(2)) is None


def test_equal_variance_is_that_of_levene() -> None:
    groups = [normal(12, 1), 3 * normal(9, 2), normal(20, 3)]
    check = diagnostics.equal_variance(groups)
    assert check is not None
    assert check.value == pytest.approx(stats.levene(*groups).pvalue, abs=1e-9)
    assert diagnostics.equal_variance([np.ones(5), np.ones(5)]) is None
    assert diagnostics.equal_variance([normal(5)]) is None


def test_drift_of_one_series_is_theil_and_kendalls() -> None:
    places, scores = np.arange(25.0), normal(25) + 0.1 * np.arange(25)
    found = diagnostics.drift([(places, scores)])
    assert found is not None
    assert found.slope == pytest.approx(stats.theilslopes(scores, places).slope)
    s = stats.kendalltau(places, scores).statistic * 25 * 24 / 2
    assert found.p == pytest.approx(2 * stats.norm.sf((s - 1) / np.sqrt(25 * 24 * 55 / 18)), abs=1e-9)


def test_a_difference_of_arms_is_no_drift() -> None:
    places = np.arange(40.0)
    apart = [(places[:20], normal(20, 1)), (places[20:], normal(20, 2) + 50)]
    found = diagnostics.drift(apart)
    assert found is not None
    assert abs(found.slope) < 0.1
    assert found.p > 0.05


def test_drift_of_a_long_series_is_told_from_a_part() -> None:
    places = np.arange(5000.0)
    found = diagnostics.drift([(places, 0.001 * places + normal(5000))])
    assert found is not None
    assert found.slope == pytest.approx(0.001, rel=0.1)
    assert found.p < 1e-9
    assert diagnostics.drift([(places[:2], places[:2])]) is None


def test_autocorrelation_by_hand() -> None:
    series = np.array([1.0, 2.0, 3.0, 4.0, 4.0, 3.0, 2.0, 1.0])
    check = diagnostics.autocorrelation(series)
    assert check is not None
    # Deviations -1.5 -0.5 0.5 1.5 1.5 0.5 -0.5 -1.5: sum of products of neighbours 4.75, of squares 10.
    assert check.value == pytest.approx(0.475)
    assert check.holds
    wave = diagnostics.autocorrelation(np.sin(np.arange(100) / 8))
    assert wave is not None
    assert not wave.holds
    assert diagnostics.autocorrelation(np.zeros(20)) is None
    assert diagnostics.autocorrelation(series[:5]) is None


@pytest.mark.parametrize(
    "values, resolution, expected",
    [
        ((1, 1, 2, 2, 1, 2), None, True),
        ((1, 2, 3, 4, 5, 6), None, False),
        ((1, 2, 3, 4, 5, 6), 5.0, True),
        ((1, 2, 3, 4, 5, 6), 0.1, False),
        ((1, 1, 1), None, False),
    ],
)
def test_steps_of_the_tool(values: tuple[float, ...], resolution: float | None, expected: bool) -> None:
    assert diagnostics.coarse(np.array(values, dtype=np.float64), resolution) is expected
