# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ktrial.stats.arrays import Array
from ktrial.stats.modes import two_modes


def mixture(gap: float, count: int, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    return generator.normal(0, 0.02, count) + gap * (generator.random(count) < 0.4)


def test_two_modes_are_found_with_their_places_and_shares() -> None:
    values = np.concatenate((np.random.default_rng(1).normal(0, 0.02, 12), np.random.default_rng(2).normal(1, 0.02, 8)))
    found = two_modes(values)
    assert found is not None
    assert found.clear
    assert (found.low, found.high) == pytest.approx((values[:12].mean(), values[12:].mean()), abs=1e-3)
    assert found.low_share == pytest.approx(0.6, abs=1e-6)
    # Far apart, each value belongs to one mode: the likelihood by hand, with the least spread that a mode may have.
    sd = max(0.05 * values.std(), values[:12].std())
    other = max(0.05 * values.std(), values[12:].std())
    two = sum(stats.norm.logpdf(values[:12], values[:12].mean(), sd) + math.log(0.6))
    two += sum(stats.norm.logpdf(values[12:], values[12:].mean(), other) + math.log(0.4))
    one = sum(stats.norm.logpdf(values, values.mean(), values.std()))
    assert found.gain == pytest.approx(2 * (two - one) - 3 * math.log(20), abs=0.2)


def test_one_mode_is_seldom_two() -> None:
    found = [two_modes(mixture(0.0, 24, seed)) for seed in range(100)]
    assert sum(one is not None and one.clear for one in found) <= 4
    found = [two_modes(mixture(0.2, 24, seed)) for seed in range(100)]
    assert sum(one is not None and one.clear for one in found) >= 90


def test_too_few_or_equal_values_have_no_modes() -> None:
    assert two_modes(mixture(1.0, 11, 1)) is None
    assert two_modes(np.ones(20)) is None
    assert two_modes(np.full(20, 0.1)) is None
    assert two_modes(np.zeros(20)) is None
    assert two_modes(np.array([])) is None


def test_a_run_far_out_is_no_mode() -> None:
    assert two_modes(np.append(np.random.default_rng(0).normal(0, 1, 20), 40.0)) is None


def test_two_values_are_two_modes() -> None:
    found = two_modes(np.repeat([1.0, 2.0], [8, 12]))
    assert found is not None
    assert found.clear
    assert found.low_share == pytest.approx(0.4, abs=1e-6)
