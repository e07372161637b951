# SPDX-License-Identifier: Apache-2.0
"""Pooling over machines, against statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects  # type: ignore[import-untyped]

from ktrial.judge.stats.machines import PooledMachine, machine_effect, pool
from ktrial.kit.errors import BadInput


def machine(estimate: float, error: float) -> PooledMachine:
    return PooledMachine(machine="m", blocks=20, estimate=estimate, error=error, low=0, high=0)


SCATTERED = ((0.08, 0.01), (0.01, 0.02), (0.12, 0.015), (-0.03, 0.02), (0.05, 0.01))
ALIKE = ((0.050, 0.02), (0.052, 0.02), (0.049, 0.03))


@pytest.mark.parametrize("effects", [SCATTERED, SCATTERED[:3], SCATTERED[1:]])
def test_the_pooled_effect_is_that_of_statsmodels(effects: tuple[tuple[float, float], ...]) -> None:
    estimates, errors = np.array(effects).T
    expected = combine_effects(estimates, errors**2, method_re="dl", use_t=True)
    found = pool([machine(*one) for one in effects])
    assert found.tau**2 == pytest.approx(expected.tau2, abs=1e-9)
    assert found.i_squared == pytest.approx(expected.i2, abs=1e-9)
    assert found.estimate == pytest.approx(expected.mean_effect_re, abs=1e-9)
    # "HKSJ" of statsmodels scales with q; the procedure never lets q fall below 1.
    plain = expected.sd_eff_w_re
    error = plain * math.sqrt(max(1.0, expected.scale_hksj_re))
    half = stats.t.ppf(0.975, len(effects) - 1) * error
    assert (found.low, found.high) == pytest.approx(
        (expected.mean_effect_re - half, expected.mean_effect_re + half), abs=1e-9
    )
    wide = stats.t.ppf(0.975, len(effects) - 2) * math.sqrt(expected.tau2 + error**2)
    assert found.predicted_high == pytest.approx(expected.mean_effect_re + wide, abs=1e-9)


def test_alike_machines_are_not_pooled_tighter_than_their_noise() -> None:
    found = pool([machine(*one) for one in ALIKE])
    weights = np.array([1 / error**2 for _, error in ALIKE])
    half = stats.t.ppf(0.975, 2) / math.sqrt(weights.sum())
    assert (found.tau, found.i_squared) == (0, 0)
    assert found.high - found.estimate == pytest.approx(half)


def test_one_machine_is_its_interval_turned_into_an_error() -> None:
    values = np.random.default_rng(1).normal(0.04, 0.02, 12)
    found = machine_effect("desk", values.tolist())
    means = np.sort([(values[i] + values[j]) / 2 for i in range(12) for j in range(i, 12)])
    # The published critical value for 12 pairs is 13.
    assert (found.low, found.high) == pytest.approx((means[13], means[-14]))
    assert found.error == pytest.approx((means[-14] - means[13]) / (2 * stats.t.ppf(0.975, 11)))


def test_too_little_is_refused() -> None:
    with pytest.raises(BadInput, match="too few machines to pool: 2"):
        pool([machine(0, 1), machine(0, 1)])
    with pytest.raises(BadInput, match="6 blocks"):
        machine_effect("desk", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    with pytest.raises(BadInput, match="same difference"):
        machine_effect("desk", [0.1] * 9)
