# SPDX-License-Identifier: Apache-2.0
"""What is read from the numbers of one outcome alone: before a cap is planned, at a look, and of guards that count."""

from __future__ import annotations

import math

import pytest

from ktrial.judge.collect_log import Pairs
from ktrial.judge.model.log import OutcomeRule
from ktrial.judge.other_roles import Member, holm_over_tables, read_family
from ktrial.judge.primary_verdict import (
    abs_score,
    e_values,
    family_effect,
    log_margin,
    read_counter,
    read_primary,
    sequential_rule,
)
from ktrial.judge.sequential import as_array
from ktrial.judge.stats import evalue
from tests.support.trials import TIME, protocol

FAR = (0.3, 0.25, 0.4, 0.35)
PROFILE = tuple(0.01 * (-1) ** place * (1 + place / 10) for place in range(10))
SEVEN = (0.03, 0.05, 0.04, 0.06, 0.035, 0.045, 0.055)


def pairs(*differences: float) -> Pairs:
    return Pairs(as_array(differences), as_array([0.0] * len(differences)))


def test_before_a_cap_is_planned_there_is_an_estimate_from_the_first_block_on() -> None:
    fixed = protocol(cap=None)
    assert read_primary(fixed, pairs(), None) == (None, "open", 0, None, None)
    found = read_primary(fixed, pairs(0.25), None)
    assert (found.verdict, found.why, found.blocks) == (None, "open", 1)
    assert found.effect is not None
    assert (found.effect.estimate, found.effect.low, found.effect.high) == (0.25, None, None)


@pytest.mark.parametrize(
    "differences, why, method",
    [
        (FAR, "fast path", "Hodges-Lehmann of four blocks, interval from the noise profile"),
        (SEVEN, "boundary", "Hodges-Lehmann, group-sequential Walsh interval"),
    ],
)
def test_an_effect_names_the_method_that_found_it(differences: tuple[float, ...], why: str, method: str) -> None:
    found = read_primary(protocol(profile={TIME: PROFILE}), pairs(*differences), 20)
    assert (found.verdict, found.why) == ("better", why)
    assert found.effect is not None
    assert (found.effect.method, found.effect.confidence) == (method, 0.95)


def test_evidence_is_kept_against_either_margin_once_there_is_a_block() -> None:
    fixed = protocol(profile={TIME: PROFILE})
    assert e_values(fixed, as_array([])) is None
    assert family_effect(as_array([]), 20, 1) is None
    differences = as_array(SEVEN)
    found = e_values(fixed, differences)
    assert found is not None
    scale = evalue.scales(differences, PROFILE)
    margin = log_margin(fixed.outcomes[TIME])
    assert found.no_difference == evalue.e_value(differences, scale).both
    assert found.above_minus_margin == evalue.e_value(differences, scale, -margin).above
    assert found.below_margin == evalue.e_value(differences, scale, margin).below


@pytest.mark.parametrize("sign, verdict", [(1, "better"), (-1, "worse")])
def test_a_trial_that_goes_on_is_decided_by_the_first_block_whose_evidence_is_enough(sign: int, verdict: str) -> None:
    """Each of seven blocks far from zero doubles the evidence, and 80 is needed: beside the tables, that have half."""
    fixed = protocol(cap=7, extend=True, profile={TIME: (0.001, -0.001)})
    seen = as_array([-1e-9, *[0.5] * 8]) * sign
    at_the_cap = read_primary(fixed, pairs(*seen[:7]), 7)
    assert (at_the_cap.verdict, at_the_cap.why, at_the_cap.blocks) == ("inconclusive", "cap", 7)
    for blocks in (8, 9):
        found = read_primary(fixed, pairs(*seen[:blocks]), 7)
        assert (found.verdict, found.why, found.blocks) == (verdict, "e-value", 8)
        assert found.effect is not None
        ends = evalue.e_interval(seen[:8], evalue.scales(seen[:8], (0.001, -0.001)), 80)
        assert (found.effect.low, found.effect.high) == ends


def test_evidence_up_to_the_cap_is_that_of_the_tables() -> None:
    fixed = protocol(cap=9, extend=True, profile={TIME: (0.001, -0.001)})
    seen = as_array([-1e-9, -1e-9, *[0.5] * 7])
    assert evalue.e_value(seen, evalue.scales(seen, (0.001, -0.001))).above > 80
    found = read_primary(fixed, pairs(*seen), 9)
    assert (found.verdict, found.why, found.blocks) == ("inconclusive", "cap", 9)


def counted(role: str, control: list[float], case: list[float]) -> tuple[object, object]:
    """Verdict and guard of one counter beside the primary outcome; fewer are better."""
    rule = OutcomeRule(direction="lower", role=role, scale="count", margin=0.2)  # type: ignore[arg-type]
    fixed = protocol(outcomes={TIME: OutcomeRule(direction="lower", role="primary"), "events": rule})
    values = Pairs(-as_array(case), -as_array(control))
    member = Member("events", "case", "control", rule, values, over=True)
    (found,) = read_family(fixed, rule.role, [member], 20)
    return found.reading.verdict, found.guard


def test_a_counter_that_begins_in_the_arm_alone_is_worse_and_breaks_its_guard() -> None:
    assert counted("secondary", [0.0] * 20, [5.0] * 20) == ("worse", None)
    assert counted("secondary", [5.0] * 20, [0.0] * 20) == ("better", None)
    assert counted("guard", [0.0] * 20, [5.0] * 20) == ("worse", "broken")


def test_a_counter_of_few_events_leaves_its_guard_open() -> None:
    assert counted("guard", [0.0, 0.0, 4.0] + [0.0] * 17, [1.0, 0.0, 0.0, 2.0] + [0.0] * 16) == (
        "inconclusive",
        "open",
    )
    # By about as much as is allowed.
    assert counted("guard", [99.0, 101.0] * 10, [105.0, 135.0] * 10) == ("worse", "open")


def test_the_step_of_the_tool_is_relative_to_the_typical_value_of_the_control() -> None:
    def step(resolution: float | None, *values: float) -> float:
        rule = OutcomeRule(direction="lower", role="primary", resolution=resolution)
        scores = as_array([-math.log(value) for value in values])
        return sequential_rule(protocol(outcomes={TIME: rule}), Pairs(scores, scores), 20).resolution

    assert step(0.1, 2.0, 2.0, 8.0) == pytest.approx(math.log(1.05))
    assert (step(0.1), step(None, 2.0)) == (0.0, 0.0)


def test_exploratory_outcomes_are_read_at_the_whole_error_and_never_decided() -> None:
    log = OutcomeRule(direction="higher", role="exploratory")
    count = OutcomeRule(direction="lower", role="exploratory", scale="count")
    fixed = protocol(outcomes={TIME: OutcomeRule(direction="lower", role="primary"), "wall": log, "events": count})
    of_log = pairs(*SEVEN)
    of_count = Pairs(-as_array([9.0, 11.0] * 4), -as_array([21.0, 19.0] * 4))
    members = [
        Member("wall", "case", "control", log, of_log, over=True),
        Member("events", "case", "control", count, of_count, over=True),
    ]
    wall, events = read_family(fixed, "exploratory", members, 7)
    effect = wall.reading.effect
    assert wall.reading == (None, "open", 7, family_effect(of_log.differences, 7, 1), None)
    assert effect is not None
    assert effect.confidence == 0.95
    alone = read_counter(count, of_count, 0.05, done=True)
    assert events.reading == alone._replace(verdict=None, why="open")
    assert events.reading.effect is not None
    assert events.reading.effect.method == "ratio of total rates, interval by sign flips"
    assert (wall.guard, events.guard) == (None, None)


def test_the_logarithm_of_a_value_is_its_score_where_higher_is_better() -> None:
    assert abs_score(0.5, OutcomeRule(direction="higher", role="primary")) == 0.5
    assert abs_score(0.5, OutcomeRule(direction="lower", role="primary")) == -0.5


def test_a_counter_within_its_margin_holds() -> None:
    """It rises by 5 %, where 20 % are allowed."""
    assert counted("guard", [99.0, 101.0] * 10, [104.0, 106.0] * 10) == ("equivalent", "holds")
    assert counted("guard", [99.0, 101.0] * 10, [124.0, 126.0] * 10) == ("worse", "broken")


def test_the_rows_of_holm_are_as_many_as_are_left() -> None:
    """The first is found at row 3; the others would be at row 1, which two that are left never reach."""
    at = (3, 1, 1)
    assert holm_over_tables(3, lambda member, row: "found" if row <= at[member] else None) == ("found", None, None)
