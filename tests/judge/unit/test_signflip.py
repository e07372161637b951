# SPDX-License-Identifier: Apache-2.0
"""Counters: the sign-flip test against scipy's, the interval against the definition of an inverted test."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.sequential import Array, as_array
from ktrial.judge.stats.signflip import count_result, difference_interval, sign_flip_p


def scipy_p(differences: Array) -> float:
    """All sign flips of one sample, by scipy."""
    found: Any = stats.permutation_test(
        (differences,),
        lambda x, axis: x.sum(axis=axis),
        permutation_type="samples",
        n_resamples=10**6,
        vectorized=True,
    )
    return float(found.pvalue)


@pytest.mark.parametrize("blocks", [2, 4, 9, 13])
def test_p_is_that_of_scipy(blocks: int) -> None:
    for seed in range(3):
        generator = np.random.default_rng((blocks, seed))
        differences = generator.poisson(3, blocks) * generator.integers(-2, 4, blocks).astype(float)
        assert sign_flip_p(differences) == pytest.approx(scipy_p(differences), abs=1e-9)


def test_more_blocks_are_drawn_and_always_the_same() -> None:
    differences = np.random.default_rng(1).normal(0.35, 1, 16)
    exact = np.abs(
        np.array([[1 if pattern >> bit & 1 else -1 for bit in range(16)] for pattern in range(2**16)]) @ differences
    )
    expected = float((exact >= abs(differences.sum()) - 1e-9).mean())
    assert sign_flip_p(differences) == sign_flip_p(differences)
    assert sign_flip_p(differences) == pytest.approx(expected, abs=4 * np.sqrt(expected / 10_000))


def test_drawn_flips_never_give_a_p_of_zero() -> None:
    assert sign_flip_p(np.ones(60)) == pytest.approx(1 / 10_001)


def test_the_ratio_of_rates_and_its_interval_invert_the_test() -> None:
    generator = np.random.default_rng(5)
    control = generator.poisson(40, 12).astype(float)
    arm = generator.poisson(20, 12).astype(float)
    found = count_result(control, arm)
    assert found.ratio == pytest.approx(arm.sum() / control.sum())
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.5 < found.high
    low, high = found.low, found.high
    for ratio, kept in ((low * 1.001, True), (high * 0.999, True), (low * 0.999, False), (high * 1.001, False)):
        assert (scipy_p(ratio * control - arm) > 0.05) == kept
    assert found.p == pytest.approx(scipy_p(control - arm))


def test_an_arm_without_events_has_the_ratio_zero() -> None:
    control = as_array([3, 0, 5, 2, 8, 1, 9, 4, 0, 2, 6, 7])
    found = count_result(control, np.zeros(12))
    # Ten blocks with an event, all on one side: 2 of 2^10 patterns are as far out.
    assert found.p == pytest.approx(2 / 2**10)
    assert (found.ratio, found.low, found.bound) == (0, 0, None)
    assert found.high == pytest.approx(0, abs=1e-9)
    assert (found.control_zero_share, found.arm_zero_share) == pytest.approx((2 / 12, 1))


def test_no_event_in_either_arm_gives_a_bound_and_no_ratio() -> None:
    found = count_result(np.zeros(20), np.zeros(20))
    assert (found.ratio, found.low, found.high, found.p) == (None, None, None, 1)
    assert found.bound == pytest.approx(0.15)


def test_a_control_without_events_bounds_nothing() -> None:
    found = count_result(np.zeros(20), np.arange(20.0))
    assert (found.ratio, found.low, found.high, found.bound) == (None, None, None, None)
    assert found.p < 0.001


def test_few_events_leave_the_ratio_open_above() -> None:
    control = as_array([0, 0, 0, 4, 0, 0, 0, 0, 0, 0])
    found = count_result(control, as_array([1, 0, 0, 0, 0, 2, 0, 0, 0, 0]))
    assert (found.low, found.high) == (0, None)


def test_the_interval_of_the_difference_inverts_the_test() -> None:
    differences = np.random.default_rng(3).normal(2, 1, 10)
    ends = difference_interval(differences)
    assert ends is not None
    low, high = ends
    for shift, kept in ((low + 1e-6, True), (high - 1e-6, True), (low - 1e-6, False), (high + 1e-6, False)):
        assert (scipy_p(differences - shift) > 0.05) == kept
    assert difference_interval(differences[:5]) is None
    assert difference_interval(differences * 1e6) == pytest.approx((low * 1e6, high * 1e6), rel=1e-6)


def test_equal_blocks_have_an_interval_around_them() -> None:
    assert difference_interval(np.zeros(10)) == (0, 0)
    assert difference_interval(np.full(10, 0.5)) == pytest.approx((0.5, 0.5))


def test_an_interval_looks_beyond_all_differences() -> None:
    low, high = difference_interval(as_array([5, 7] * 3)) or (math.nan, math.nan)
    assert 5 - 1e-8 < low < 6 < high < 7 + 1e-8


def test_what_the_test_rejects_at_exactly_the_error_is_outside() -> None:
    """Five blocks of one sign have p = 2/32."""
    assert difference_interval(as_array([1, 2, 3, 4, 5]), 2 / 32) is not None
    found = count_result(np.ones(5), np.full(5, 2.0), 2 / 32)
    assert (found.low, found.high) == pytest.approx((2, 2))


def test_nothing_was_counted_is_no_evidence() -> None:
    assert sign_flip_p(as_array([])) == 1
