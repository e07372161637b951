# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ktrial.judge.sequential import as_array
from ktrial.judge.stats.evalue import BETS, e_interval, e_value, scales

SIZES = as_array([0.05, 0.01, 0.2, 0.03, 0.08, 0.04, 0.11, 0.02])
PROFILE = (0.03, -0.04, 0.05, 0.01)


def test_one_block_by_hand() -> None:
    u = 1.5
    above = sum(math.exp(bet * u) / math.cosh(bet * u) for bet in BETS) / len(BETS)
    below = sum(math.exp(-bet * u) / math.cosh(bet * u) for bet in BETS) / len(BETS)
    found = e_value(as_array([0.15]), 0.1)
    assert found == pytest.approx((above, below))
    assert found.both == pytest.approx((above + below) / 2)
    assert e_value(as_array([0.35]), 0.1, theta=0.2) == pytest.approx((above, below))


@pytest.mark.parametrize("profile", [None, PROFILE])
def test_its_mean_over_all_signs_is_one(profile: tuple[float, ...] | None) -> None:
    """What makes it an e-value: whichever signs the coins give, the mean is 1, also with a scale of earlier blocks."""
    values = []
    for signs in itertools.product((-1.0, 1.0), repeat=len(SIZES)):
        differences = SIZES * signs
        values.append(e_value(differences, scales(differences, profile)))
    assert np.mean([one.above for one in values]) == pytest.approx(1, abs=1e-9)
    assert np.mean([one.both for one in values]) == pytest.approx(1, abs=1e-9)
    assert np.std([one.both for one in values]) > 0.1


def test_a_scale_never_looks_at_its_own_block() -> None:
    assert scales(SIZES, None)[:4].tolist() == [math.inf] * 4
    # By hand: the first four less their median 0.04 are 0.01, -0.03, 0.16 and -0.01.
    assert scales(SIZES, None)[4] == pytest.approx(math.sqrt(0.0267 / 4))
    changed = SIZES.copy()
    changed[5] = 9.0
    assert scales(SIZES, None)[:6].tolist() == scales(changed, None)[:6].tolist()
    assert scales(SIZES, None)[6] != scales(changed, None)[6]
    # Root mean square of the profile: sqrt((9 + 16 + 25 + 1) / 4) = 3.571; 1.4826 times the median size is 5.19.
    assert scales(SIZES, PROFILE) == pytest.approx(1.4826 * 0.035)
    assert scales(SIZES, (0.0, 0.0))[0] == math.inf


def test_the_interval_holds_what_is_not_rejected() -> None:
    differences = np.random.default_rng(2).normal(0.1, 0.04, 30)
    low, high = e_interval(differences, 0.04, 80) or (math.nan, math.nan)
    assert low < 0.1 < high
    assert e_value(differences, 0.04, low - 1e-6).above >= 80 > e_value(differences, 0.04, low + 1e-6).above
    assert e_value(differences, 0.04, high + 1e-6).below >= 80 > e_value(differences, 0.04, high - 1e-6).below


def test_an_interval_may_be_wider_than_all_that_was_seen() -> None:
    low, high = e_interval(SIZES, 20.0, 80) or (math.nan, math.nan)
    assert low < -5 < 5 < high
    assert e_value(SIZES, 20.0, low - 1e-6).above >= 80 > e_value(SIZES, 20.0, low + 1e-6).above
    assert e_value(SIZES, 20.0, high + 1e-6).below >= 80 > e_value(SIZES, 20.0, high - 1e-6).below


def test_nothing_was_bet_is_no_interval() -> None:
    assert e_value(as_array([]), 1.0) == (1, 1)
    assert e_interval(SIZES[:3], scales(SIZES[:3], None), 40) is None
    assert e_interval(as_array([]), 1.0, 40) is None


def test_a_middle_that_is_rejected_itself_has_no_interval() -> None:
    """The median is 0, and the two that are not lie far on one side."""
    assert e_interval(as_array([0, 0, 0, 5, 5]), 1.0, 3.0) is None


def test_where_evidence_never_reaches_the_bound_there_is_no_interval() -> None:
    assert e_interval(SIZES[:2], 0.1, 80) is None
