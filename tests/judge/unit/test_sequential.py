# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ktrial.judge.sequential import (
    Array,
    Rule,
    as_array,
    call,
    cap_of,
    chance_of_verdict,
    decide,
    first_exclusion,
    hodges_lehmann,
    interval_at,
    looks,
    walsh,
    worth_it,
)
from ktrial.judge.stats.critical import LOOKS
from ktrial.kit.errors import BadInput

MARGIN = math.log1p(0.02)
PROFILE = tuple(0.01 * (-1) ** place * (1 + place / 10) for place in range(10))
numbers = st.lists(st.floats(-1, 1).map(lambda value: round(value, 6)), min_size=1, max_size=25)


def noise(blocks: int, sd: float = 0.03, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(0, sd, blocks)


@given(numbers)
def test_walsh_averages_are_all_means_of_two(values: list[float]) -> None:
    pairs = itertools.combinations_with_replacement(values, 2)
    expected = sorted((one + other) / 2 for one, other in pairs)
    assert walsh(as_array(values)) == pytest.approx(expected, abs=1e-12)
    assert hodges_lehmann(as_array(values)) == pytest.approx(median(expected), abs=1e-12)


@given(numbers)
def test_mirrored_differences_have_the_mirrored_decision(values: list[float]) -> None:
    rule = Rule(12, MARGIN, profile=PROFILE)
    one, other = decide(as_array(values), rule), decide(-as_array(values), rule)
    mirrored = {"better": "worse", "worse": "better"}
    assert other.verdict == (mirrored.get(one.verdict, one.verdict) if one.verdict else None)
    assert (one.why, one.blocks) == (other.why, other.blocks)
    if one.low is not None and one.high is not None:
        assert (other.low, other.high) == pytest.approx((-one.high, -one.low))


@given(numbers, st.integers(1, 25))
def test_later_blocks_never_change_a_decision(values: list[float], first: int) -> None:
    rule = Rule(16, MARGIN, profile=PROFILE)
    early = decide(as_array(values[:first]), rule)
    if early.verdict is not None:
        assert decide(as_array(values), rule) == early


def test_the_order_of_calls_is_equivalent_first() -> None:
    assert call(0.001, 0.019, 0.02) == "equivalent"
    assert call(0.001, 0.021, 0.02) == "better"
    assert call(-0.021, -0.001, 0.02) == "worse"
    assert call(-0.001, 0.021, 0.02) is None
    assert call(-0.02, 0.01, 0.02) is None
    assert call(-0.01, 0.02, 0.02) is None
    assert call(0.0, 0.0, 0.0) is None


def test_looks_and_caps_are_those_of_the_tables() -> None:
    assert looks(7) == looks(7, 1) == {7: 1}
    assert list(looks(20)) == [7, 9, 12, 16, 20]
    assert list(looks(20, 2)) == [9, 12, 16, 20]
    assert [cap_of(blocks) for blocks in (1, 7, 8, 9)] == [7, 7, 9, 9]
    assert cap_of(LOOKS[-1]) == LOOKS[-1]
    with pytest.raises(BadInput, match=f"{LOOKS[-1] + 1} blocks are too many"):
        cap_of(LOOKS[-1] + 1)


def test_worth_it_looks_at_the_near_end_then_at_the_estimate() -> None:
    assert worth_it("better", 0.05, 0.02, 0.09, 0.02) == "yes"
    assert worth_it("better", 0.05, 0.01, 0.09, 0.02) == "likely"
    assert worth_it("better", 0.02, 0.01, 0.09, 0.02) == "likely"
    assert worth_it("better", 0.015, 0.01, 0.09, 0.02) == "unclear"
    assert worth_it("worse", -0.05, -0.09, -0.03, 0.02) == "yes"
    assert worth_it("worse", -0.03, -0.09, -0.01, 0.02) == "likely"
    assert worth_it("equivalent", 0.0, -0.01, 0.01, 0.02) is None


def test_seven_blocks_of_one_sign_decide_at_cap_seven_only_then() -> None:
    values = as_array([0.03, 0.05, 0.04, 0.06, 0.035, 0.045, 0.055])
    assert decide(values[:6], Rule(7, MARGIN)).verdict is None
    found = decide(values, Rule(7, MARGIN))
    # By hand: index 1 of the sorted Walsh averages is (0.030 + 0.035) / 2, from the top (0.055 + 0.060) / 2.
    assert (found.verdict, found.why, found.blocks) == ("better", "boundary", 7)
    assert (found.low, found.high) == pytest.approx((0.0325, 0.0575))
    assert found.estimate == pytest.approx(0.045)


def test_an_open_trial_of_cap_thirty_has_no_look_at_seven() -> None:
    values = np.full(7, 0.5) + noise(7)
    assert decide(values, Rule(30, MARGIN)).verdict is None
    assert decide(values, Rule(20, MARGIN)).verdict == "better"


def test_intervals_are_intersected_and_the_newest_wins_where_they_are_apart() -> None:
    values = noise(12, 0.02, seed=4)
    seen = [interval_at(values[:blocks], 12, 1) for blocks in (7, 9, 12)]
    lows, highs = zip(*(ends for ends in seen if ends), strict=True)
    assert list(lows) == sorted(lows)
    assert list(highs) == sorted(highs, reverse=True)
    # Seven blocks at 0.5 give an interval there; after thirteen more at -2 the newest one lies below -0.7.
    apart = np.concatenate((np.full(7, 0.5), np.full(13, -2.0))) + noise(20, 0.001)
    newest = walsh(apart)
    assert newest[-41] < -0.7
    assert interval_at(apart, 20, 1) == (newest[40], newest[-41])


def test_intervals_that_only_touch_have_their_common_end() -> None:
    """Seven blocks say 0.5 exactly; with two more at 1 the newest interval begins there and is wider."""
    values = as_array([0.5] * 7 + [1.0] * 2)
    assert walsh(values)[-1 - looks(20)[9]] > 0.5
    assert interval_at(values[:7], 20, 1) == interval_at(values, 20, 1) == (0.5, 0.5)


def test_the_interval_at_one_look_is_the_inverted_test() -> None:
    """Shifts inside are kept by scipy's exact signed-rank test, those outside rejected."""
    values = noise(7, seed=11)
    ends = interval_at(values, 7, 1)
    assert ends is not None
    # At cap 7 the index is 1: rejected is what has a sum of at most 1, p = 4/128.
    for shift, inside in (
        (ends[0] + 1e-9, True),
        (ends[1] - 1e-9, True),
        (ends[0] - 1e-9, False),
        (ends[1] + 1e-9, False),
    ):
        p = stats.wilcoxon(values - shift, method="exact").pvalue
        assert (p > 4 / 128 + 1e-12) == inside


def test_all_equal_differences_are_equivalent_or_a_claim_at_once() -> None:
    assert decide(np.zeros(20), Rule(20, MARGIN)).verdict == "equivalent"
    assert decide(np.full(20, 0.1), Rule(20, MARGIN)).verdict == "better"
    assert decide(np.zeros(20), Rule(20, 0.0))[:3] == ("inconclusive", "cap", 20)


def test_fast_path_needs_one_sign_a_profile_and_distance() -> None:
    far = as_array([0.3, 0.25, 0.4, 0.35])
    rule = Rule(20, MARGIN, profile=PROFILE)
    found = decide(far, rule)
    reach = 1.5 * max(abs(value) for value in PROFILE)
    assert (found.verdict, found.why, found.blocks) == ("better", "fast path", 4)
    assert (found.low, found.high) == pytest.approx((0.25 - reach, 0.4 + reach))
    assert decide(-far, rule).verdict == "worse"
    for values, other in (
        (far[:3], rule),
        (far, rule._replace(profile=None)),
        (far, rule._replace(profile=PROFILE[:9])),
        (far, rule._replace(profile=(0.01,) * 10)),
        (far, rule._replace(comparisons=5, row=4)),
        (as_array([0.3, -0.25, 0.4, 0.35]), rule),
        (as_array([0.3, reach, 0.4, 0.35]), rule),
        (as_array([0.3, reach, 0.4, 0.35]), rule._replace(margin=0.01)),
        (as_array([0.3, 2 * 0.2, 0.4, 0.35]), rule._replace(margin=0.2)),
        (as_array([0.5, 2 * 0.2, 0.6, 0.7]), rule._replace(margin=0.2)),
    ):
        assert decide(values, other).verdict is None
    assert decide(as_array([0.5, 2.25 * 0.2, 0.6, 0.7]), rule._replace(margin=0.2)).why == "fast path"


def test_fast_path_of_several_comparisons_reaches_farther() -> None:
    largest = max(abs(value) for value in PROFILE)
    near = np.full(4, 1.75 * largest) + as_array([0, 1e-3, 0, 1e-3])
    assert near.min() > 2 * 0.005
    assert decide(near, Rule(20, 0.005, profile=PROFILE)).why == "fast path"
    assert decide(near, Rule(20, 0.005, row=2, comparisons=2, profile=PROFILE)).verdict is None
    far = decide(near * 2, Rule(20, 0.005, row=2, comparisons=2, profile=PROFILE))
    assert far.why == "fast path"
    assert decide(near * 2, Rule(20, 0.005, row=3, comparisons=4, profile=PROFILE)).why == "fast path"
    assert far.low == pytest.approx(float((near * 2).min()) - 2 * largest)


def test_fast_path_is_never_narrower_than_the_tool_can_tell() -> None:
    far = as_array([0.3, 0.25, 0.4, 0.35])
    found = decide(far, Rule(20, MARGIN, profile=PROFILE, resolution=0.2))
    assert (found.low, found.high) == pytest.approx((0.05, 0.6))


def test_futility_is_the_normal_chance_of_the_specification() -> None:
    values = noise(12, 0.2, seed=8)
    means = walsh(values)
    spread = float(np.quantile(means, 0.75) - np.quantile(means, 0.25)) / 0.95
    half, error = 2.25 * spread / math.sqrt(20), spread * math.sqrt(1 / 12 - 1 / 20)
    effect = abs(float(np.median(means)))
    expected = stats.norm.sf((half - effect) / error) + stats.norm.cdf((MARGIN - half - effect) / error)
    assert chance_of_verdict(means, 12, Rule(20, MARGIN)) == pytest.approx(expected, rel=1e-9)


def test_hopeless_noise_is_given_up_at_twelve() -> None:
    values = as_array([0.5, -0.5, 0.4, -0.4, 0.3, -0.3, 0.6, -0.6, 0.2, -0.2, 0.7, -0.7])
    assert decide(values, Rule(20, MARGIN))[:3] == ("inconclusive", "futility", 12)
    assert decide(values[:9], Rule(20, MARGIN)).verdict is None


def test_first_exclusion_takes_the_first_look() -> None:
    values = np.concatenate((np.full(9, 0.1), np.full(11, -0.5))) + noise(20, 0.001)
    assert first_exclusion(values, 20, 1) == "better"
    assert first_exclusion(-values, 20, 1) == "worse"
    assert first_exclusion(noise(6), 20, 1) is None
    assert first_exclusion(np.zeros(20), 20, 1) is None
