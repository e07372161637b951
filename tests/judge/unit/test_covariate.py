# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]

from ktrial.judge.observational_layout import Layout
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.covariate import adjusted


def layout(unit: str, control: Array, arm: Array, covariates: tuple[Array, Array] | None) -> Layout:
    return Layout(control=control, arm=arm, unit=unit, order="interleaved", covariates=covariates)


def test_arms_are_those_of_a_regression() -> None:
    random = np.random.default_rng(3)
    heat, warmer = random.normal(50, 3, 9), random.normal(54, 3, 12)
    control, arm = 0.01 * heat + random.normal(0, 0.02, 9), 0.01 * warmer + 0.03 + random.normal(0, 0.02, 12)
    effect = adjusted(layout("run", control, arm, (heat, warmer)), "log", 0.05)
    columns = np.array([np.ones(21), np.repeat([0.0, 1.0], [9, 12]), np.concatenate([heat, warmer])]).T
    fitted = OLS(np.concatenate([control, arm]), columns).fit()
    assert effect is not None
    assert [effect.estimate, effect.low, effect.high] == pytest.approx(
        [fitted.params[1], *fitted.conf_int()[1]], abs=1e-9
    )


def test_blocks_are_those_of_a_regression_of_differences() -> None:
    random = np.random.default_rng(3)
    heat, warmer = random.normal(50, 3, 12), random.normal(52, 3, 12)
    control, arm = 0.01 * heat + random.normal(0, 0.02, 12), 0.01 * warmer + random.normal(0.03, 0.02, 12)
    effect = adjusted(layout("block", control, arm, (heat, warmer)), "log", 0.05)
    fitted = OLS(arm - control, np.array([np.ones(12), warmer - heat]).T).fit()
    assert effect is not None
    assert [effect.estimate, effect.low, effect.high] == pytest.approx(
        [fitted.params[0], *fitted.conf_int()[0]], abs=1e-9
    )


def test_a_covariate_that_tells_nothing_adjusts_nothing() -> None:
    values = np.array([1.0, 2.0, 3.0])
    constant = np.full(3, 50.0)
    assert adjusted(layout("run", values, values + 1, None), "log", 0.05) is None
    for unit in ("run", "block"):
        assert adjusted(layout(unit, values, values + 1, (constant, constant)), "log", 0.05) is None
        assert adjusted(layout(unit, values[:1], values[:1], (values[:1], values[1:2])), "log", 0.05) is None
