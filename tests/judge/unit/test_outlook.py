# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.judge.judge import judge
from ktrial.judge.model.log import OutcomeRule
from ktrial.judge.outlook import expected_stop
from tests.support.trials import TIME, pair_log, protocol


def test_nothing_is_expected_before_the_first_interval() -> None:
    fixed = protocol()
    assert expected_stop(fixed, judge([fixed])) is None
    assert expected_stop(fixed, judge(pair_log(fixed, [0.0, 0.1, -0.1]))) is None


def test_nothing_is_expected_of_what_is_decided() -> None:
    fixed = protocol()
    assert expected_stop(fixed, judge(pair_log(fixed, [0.1] * 7))) is None


def test_an_interval_that_would_clear_zero_soon_is_expected_to_at_that_look() -> None:
    """With 7 blocks the interval is 0.01 +- 0.015: half of that at 7/n = 0.44, so at the look of 16 blocks."""
    fixed = protocol(outcomes={TIME: OutcomeRule(direction="lower", role="primary", margin=0.001)})
    said = judge(pair_log(fixed, [0.01 + one for one in (-0.015, -0.01, -0.005, 0.0, 0.005, 0.01, 0.015)]))
    effect = said.judged[0].effect
    assert effect is not None
    assert effect.low is not None
    assert effect.high is not None
    half = (effect.high - effect.low) / 2
    by_hand = next(look for look in (9, 12, 16, 20) if half * (7 / look) ** 0.5 < effect.estimate)
    assert expected_stop(fixed, said) == by_hand


def test_a_wide_interval_around_nothing_goes_to_the_cap() -> None:
    fixed = protocol(outcomes={TIME: OutcomeRule(direction="lower", role="primary", margin=0.001)})
    said = judge(pair_log(fixed, [0.1, -0.1, 0.1, -0.1, 0.1, -0.1, 0.0]))
    assert expected_stop(fixed, said) == 20


def test_a_counter_is_decided_at_its_cap_only() -> None:
    fixed = protocol(outcomes={TIME: OutcomeRule(direction="lower", role="primary", scale="count")})
    assert expected_stop(fixed, judge([fixed])) == 20
