# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.judge.observational_layout import Order
from ktrial.judge.observational_verdict import Case, decide, is_equivalent, layout_doubts, order_check, worth


def effect(low: float | None, high: float | None) -> Effect:
    middle = 0.1 if low is None or high is None else (low + high) / 2
    return Effect(estimate=middle, low=low, high=high, method="by hand")


def case(low: float | None, high: float | None, **changes: Any) -> Case:
    plain = Case(
        effect=effect(low, high),
        p_adjusted=0.001,
        floor=0.001,
        floor_adjusted=0.001,
        family=1,
        margin=0.02,
        resolution=0.0,
        alpha=0.05,
        direction="lower",
        explored=None,
        order="interleaved",
        confounded_by=None,
    )
    return msgspec.structs.replace(plain, **changes)


def test_a_difference_that_was_seen_is_named_beside_what_it_may_come_from() -> None:
    (doubt,) = layout_doubts(case(0.03, 0.05, order="sequence"))
    assert "(time and arm are confounded): " in doubt.sentence
    (doubt,) = layout_doubts(case(-0.01, 0.01, order="sequence"))
    assert "(time and arm are confounded): " not in doubt.sentence


@pytest.mark.parametrize(
    "given, verdict, why",
    [
        (case(0.03, 0.05, direction=None), "different", "it is unknown whether higher or lower is better"),
        (case(-0.03, 0.05, direction=None), "no difference seen", "includes zero (it is unknown whether"),
        (case(-0.01, 0.01, direction=None), "equivalent", "margin"),
        (case(0.03, 0.05, order="sequence"), "different", "cause unknown: time and arm are confounded"),
        (case(-0.05, -0.03, order="unknown"), "different", "cause unknown: the order"),
        (case(0.03, 0.05, confounded_by="boot"), "different", "cause unknown: boot and arm are confounded"),
        (case(0.03, 0.05, confounded_by="machine", explored="exploratory"), "inconclusive", "exploratory"),
        (case(0.03, 0.05, order="sequence", floor=0.1, floor_adjusted=0.1), "inconclusive", "0.1, above 0.05"),
        (
            case(0.03, 0.05, order="sequence", p_adjusted=0.06, family=9),
            "no difference seen",
            "chance among 9 comparisons (adjusted p = 0.06) (time and arm",
        ),
        (case(0.0, 0.0, order="sequence"), "inconclusive", "all values are equal"),
        (case(None, None, order="sequence"), "inconclusive", "there is no interval (time and arm are confounded)"),
        (case(0.001, 0.01, order="sequence"), "different", "time and arm are confounded"),
        (case(-0.01, 0.01, order="unknown"), "no difference seen", "includes zero (the order"),
        (case(-0.01, 0.01, confounded_by="boot"), "no difference seen", "includes zero (boot and arm are confounded)"),
        (case(0.03, 0.05), "better", "excludes zero"),
        (case(-0.05, -0.001), "worse", "excludes zero"),
        (case(-0.01, 0.01), "equivalent", "margin"),
        (case(0.001, 0.01), "equivalent", "a real difference, but smaller than the margin"),
        (case(-0.01, 0.03), "inconclusive", "both"),
        (case(0.0, 0.0), "inconclusive", "all values are equal"),
        (case(None, None), "inconclusive", "both"),
        (case(0.03, 0.05, p_adjusted=0.06), "inconclusive", "chance"),
        (case(0.03, 0.05, p_adjusted=0.05), "better", "excludes zero"),
        (case(0.03, 0.05, floor=0.05, floor_adjusted=0.05), "better", "excludes zero"),
        (case(0.03, 0.05, order="sequence", p_adjusted=0.05), "different", "cause unknown"),
        (case(0.03, 0.05, p_adjusted=0.06, family=9), "inconclusive", "among 9 comparisons"),
        (case(0.03, 0.05, p_adjusted=0.06, family=2), "inconclusive", "may be chance among 2 comparisons"),
        (case(0.03, 0.05, floor=0.1, floor_adjusted=0.1), "inconclusive", "0.1, above 0.05"),
        (case(-0.01, 0.01, floor_adjusted=0.1, family=100), "inconclusive", "correction for 100"),
        (case(0.03, 0.05, floor=0.05, floor_adjusted=0.1, family=2), "inconclusive", "and 0.1 after correction for 2"),
        (case(0.03, 0.05, explored="exploratory"), "inconclusive", "exploratory"),
    ],
)
def test_every_rule(given: Case, verdict: Verdict, why: str) -> None:
    found, because, findings = decide(given)
    assert found == verdict
    assert why in because
    doubted = given.order != "interleaved" or given.confounded_by is not None
    assert bool(findings) is doubted


@pytest.mark.parametrize(
    "order, holds, said",
    [
        ("interleaved", True, "the arms were measured in turns"),
        ("sequence", False, "one after the other"),
        ("unknown", None, "the order of the runs is unknown"),
    ],
)
def test_whether_time_and_arm_were_kept_apart(order: Order, holds: bool | None, said: str) -> None:
    found = order_check(order)
    assert (found.name, found.holds, found.value) == ("interleaved", holds, None)
    assert said in found.sentence


@pytest.mark.parametrize("low, high", [(-0.015, 0.005), (-0.005, 0.015)])
def test_the_step_of_the_tool_widens_the_interval_on_both_sides(low: float, high: float) -> None:
    assert is_equivalent(case(low, high))
    assert is_equivalent(case(low, high, resolution=0.004))
    assert is_equivalent(case(low, high, resolution=0.0049))
    assert not is_equivalent(case(low, high, resolution=0.006))


def test_equal_values_are_equivalent_only_where_the_step_is_known() -> None:
    assert is_equivalent(case(0.0, 0.0)) is False
    assert not is_equivalent(case(-0.02, 0.0)), "on the margin is not inside"
    assert not is_equivalent(case(0.0, 0.02))
    assert is_equivalent(case(0.0, 0.0, resolution=0.01))


@pytest.mark.parametrize(
    "low, high, expected",
    [
        *((0.03, 0.05, "yes"), (0.01, 0.05, "likely"), (0.001, 0.03, "unclear"), (-0.05, -0.03, "yes")),
        *((-0.01, 0.03, "unclear"), (-0.01, 0.06, "likely"), (0.01, 0.03, "likely")),
    ],
)
def test_whether_it_matters(low: float, high: float, expected: str) -> None:
    assert worth(effect(low, high), 0.02) == expected


def test_without_a_margin_nobody_can_say_that_it_matters() -> None:
    assert worth(effect(0.03, 0.05), 0.0) == "unclear"
