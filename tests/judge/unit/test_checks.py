# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]

from ktrial.judge import validity_checks
from ktrial.judge.sequential import Array
from ktrial.kit.outcome import ANOTHER


@given(st.integers(0, 12), st.integers(0, 30), st.integers(0, 12), st.integers(0, 30))
def test_fisher_is_that_of_scipy(first: int, first_rest: int, second: int, second_rest: int) -> None:
    table = np.array([[first, first_rest], [second, second_rest]])
    expected = stats.fisher_exact(table).pvalue
    assert validity_checks.fisher_p(first, first + first_rest, second, second + second_rest) == pytest.approx(
        expected, abs=1e-9
    )


def sequence(blocks: int, spill: float, sd: float, seed: int) -> tuple[Array, list[str]]:
    """Runs of two arms in random blocks, a part of whose effect of 5 % falls to the next run."""
    generator = np.random.default_rng(seed)
    states = np.concatenate([generator.permutation(2) for _ in range(blocks)])
    earlier = np.concatenate(([0], states[:-1]))
    scores = math.log(1.05) * ((1 - spill) * states + spill * earlier) + generator.normal(0, sd, 2 * blocks)
    return scores, ["case" if state else "control" for state in states]


def test_carry_over_is_the_second_term_of_least_squares() -> None:
    scores, arms = sequence(20, 0.25, 0.02, 3)
    states = (np.array(arms) == "case").astype(float)
    change = np.diff(states)
    design = np.column_stack((change[1:], change[:-1], np.ones(len(change) - 1)))
    expected = OLS(np.diff(scores)[1:], design).fit().pvalues[1]
    assert validity_checks.carry_over_p(scores, arms, "case", "control") == pytest.approx(expected, abs=1e-9)


def test_carry_over_is_found_and_seldom_invented() -> None:
    def share(spill: float) -> float:
        found = [validity_checks.carry_over(*sequence(40, spill, 0.01, seed), "case", "control") for seed in range(40)]
        return sum(one is not None for one in found) / len(found)

    assert share(0.25) >= 0.8
    assert share(0.5) == 1
    assert share(0.0) <= 0.1


def test_carry_over_is_a_doubt_with_its_p() -> None:
    scores, arms = sequence(40, 0.5, 0.01, 1)
    found = validity_checks.carry_over(scores, arms, "case", "control")
    assert found is not None
    assert (found.kind, found.level) == ("carry-over", "suspect")
    assert found.values == {"p": validity_checks.carry_over_p(scores, arms, "case", "control")}


def test_too_few_runs_tell_no_carry_over() -> None:
    assert validity_checks.carry_over_p(np.array([1.0]), ["case"], "case", "control") is None
    scores, arms = sequence(3, 0.5, 0.01, 1)
    assert validity_checks.carry_over(scores, arms, "case", "control") is None
    assert validity_checks.carry_over(scores[:2], arms[:2], "case", "control") is None
    scores, arms = sequence(5, 0.5, 0.01, 1)
    assert validity_checks.carry_over_p(scores[:8], arms[:8], "case", "control") is None
    assert validity_checks.carry_over_p(scores[:9], arms[:9], "case", "control") is not None


def test_what_other_arms_do_is_no_carry_over() -> None:
    generator = np.random.default_rng(4)
    arms = [("control", "case", "other")[place] for _ in range(20) for place in generator.permutation(3)]
    states = np.array([[arm == "case", arm == "other"] for arm in arms], dtype=float)
    scores = states @ np.array([0.05, 0.4]) + generator.normal(0, 0.02, len(arms))
    change = np.diff(states, axis=0)
    design = np.column_stack((change[1:, 0], change[:-1, 0], change[1:, 1], np.ones(len(change) - 1)))
    expected = OLS(np.diff(scores)[1:], design).fit().pvalues[1]
    assert validity_checks.carry_over_p(scores, arms, "case", "control") == pytest.approx(expected, abs=1e-9)


def test_carry_over_needs_less_than_one_chance_in_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity_checks, "carry_over_p", lambda *_: 0.01)
    assert validity_checks.carry_over(*sequence(5, 0.5, 0.01, 1), "case", "control") is None


def test_the_share_of_the_slow_mode_is_told_for_each_arm() -> None:
    generator = np.random.default_rng(1)
    control = generator.normal(0, 0.02, 20)
    case = np.concatenate((control[:10], control[10:] + 1.0))
    blocks = {"control": range(20), "case": range(20)}
    found = validity_checks.modes({"control": control, "case": case}, blocks)
    assert found is not None
    assert (found.kind, found.level) == ("two-modes", "suspect")
    assert found.values == {"control": 1.0, "case": 0.5}
    assert "2.7" in found.sentence
    assert validity_checks.modes({"control": control, "case": control}, blocks) is None
    shifted = validity_checks.modes({"control": control + 5, "case": case + 5}, blocks)
    assert shifted is not None
    assert (shifted.values, shifted.sentence) == (found.values, found.sentence)


def test_two_kinds_of_blocks_are_no_modes_of_the_runs() -> None:
    generator = np.random.default_rng(1)
    levels = np.repeat([0.0, 1.0], 10)
    control, case = (levels + generator.normal(0, 0.02, 20) for _ in range(2))
    blocks = {"control": range(20), "case": range(20)}
    assert validity_checks.modes({"control": control, "case": case}, blocks) is None
    # Nothing is known of blocks that the arms do not share: then they may be modes.
    assert (
        validity_checks.modes({"control": control, "case": case}, {"control": range(20), "case": range(20, 40)})
        is not None
    )


def test_noise_above_twice_the_profile_is_told() -> None:
    profile = [0.01, -0.01, 0.02, -0.02] * 3
    # Robust sd of the profile: 1.4826 * 0.015.
    quiet = np.array([0.029, -0.029] * 5) + 0.5
    loud = np.array([0.031, -0.031] * 5) + 0.5
    assert validity_checks.noise(quiet, profile) is None
    found = validity_checks.noise(loud, profile)
    assert found is not None
    assert found.values == {"trial": pytest.approx(1.4826 * 0.031), "profile": pytest.approx(1.4826 * 0.015)}
    assert validity_checks.noise(loud, None) is None


def test_voids_above_a_fifth_refuse() -> None:
    visits = {"control": 10, "case": 10}
    assert validity_checks.voids({"case": 1, "control": 1}, visits, 10, None) == []
    found = validity_checks.voids({"case": 2, "control": 1}, visits, 10, None)
    assert [(one.kind, one.level) for one in found] == [("voids", "refuse")]
    # While it may go on, only what can never be mended refuses.
    assert validity_checks.voids({"case": 2, "control": 1}, visits, 10, 20) == []
    assert [one.kind for one in validity_checks.voids({"case": 3, "control": 3}, visits, 10, 20)] == ["voids"]
    assert validity_checks.voids({"case": 3, "control": 2}, visits, 10, 20) == []
    assert validity_checks.voids({}, visits, 0, None) == []


def test_voids_of_one_arm_refuse() -> None:
    visits = {"control": 100, "case": 100}
    # Fisher's exact p of 8 in 100 against 0 in 100 is 0.0068, of 7 against 0 0.0140.
    found = validity_checks.voids({"case": 8}, visits, 100, None)
    assert [(one.kind, one.level) for one in found] == [("voids-by-arm", "refuse")]
    assert validity_checks.voids({"case": 7}, visits, 100, None) == []
    # Of 12 against 1 it is 0.0027, and only the arm that has more is named.
    (found_more,) = validity_checks.voids({"case": 12, "control": 1}, visits, 100, None)
    assert "visits to case voided their block" in found_more.sentence


def test_an_arm_of_few_visits_is_named_by_more_than_one_chance_in_a_hundred() -> None:
    visits = {"case": 1, "control": 99}
    assert validity_checks.voids({"case": 1}, visits, 99, None) == []
    assert validity_checks.voids({}, {"case": 1, "control": 1000}, 1000, None) == []


def test_identity_names_what_differs_unless_it_may() -> None:
    runs = [("control", {"kernel": "6.12", "input": "a"}), ("case", {"kernel": "6.13", "input": "a"})]
    found = validity_checks.identity(runs, ())
    assert [(one.kind, one.level, one.values) for one in found] == [
        ("identity", "refuse", {"case": "6.13", "control": "6.12"})
    ]
    assert validity_checks.identity(runs, ("kernel",)) == []
    assert [one.values for one in validity_checks.identity([*runs, ("case", {"input": "b"})], ("kernel",))] == [
        {"case": "a, b", "control": "a"}
    ]


def test_runs_that_measured_something_else_are_no_part_of_a_comparison() -> None:
    failed = f"tool: {ANOTHER}: asked for threads 4, but the tool reports 2"
    assert validity_checks.another([("control", None), ("case", "tool: ended with status 1")]) is None
    found = validity_checks.another([("control", None), ("case", failed), ("case", failed)])
    assert found is not None
    assert (found.kind, found.level, found.values) == ("identity", "refuse", {"case": 2.0})
    assert found.sentence == ("runs measured something else (2 of case): asked for threads 4, but the tool reports 2")


def test_heat_is_a_doubt_above_five_degrees() -> None:
    def rows(*celsius: float) -> list[dict[str, float | str | None]]:
        return [{"temperature_c": value} for value in celsius]

    found = validity_checks.temperature({"control": rows(40, 41, 42), "case": rows(46.5, 47, 99)})
    assert found is not None
    assert (found.level, found.values) == ("suspect", {"control": 41, "case": 47})
    assert "6.0 °C hotter" in found.sentence
    assert validity_checks.temperature({"control": rows(40), "case": rows(45)}) is None
    assert validity_checks.temperature({"control": rows(40), "case": [{"temperature_c": None}]}) is None


def test_failures_of_one_arm_only_are_told() -> None:
    assert validity_checks.failures("case", "control", {"case": 0, "control": 0}) is None
    assert validity_checks.failures("case", "control", {"case": 9, "control": 1}) is None
    found = validity_checks.failures("case", "control", {"case": 0, "control": 2})
    assert found is not None
    assert found.sentence == "2 runs of control gave no value, none of case"
    assert (found.kind, found.level, found.values) == ("failures", "suspect", {"case": 0.0, "control": 2.0})


def test_a_knob_may_fail_to_hold_once() -> None:
    assert validity_checks.knob_voids(["a is gone"]) is None
    found = validity_checks.knob_voids(["a is gone", "b is gone"])
    assert found is not None
    assert found.sentence == "settings changed in 2 blocks (limit 1), the last: b is gone"
    assert found.level == "refuse"
