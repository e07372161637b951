# SPDX-License-Identifier: Apache-2.0
"""Verdicts on other people's data: what a layout allows, what stays the same however it is written, and bad input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.judge import observational
from ktrial.judge.model.comparison import Contrast
from ktrial.judge.model.question import Answer, Observation, Question
from ktrial.judge.observational import judge_foreign
from ktrial.judge.stats.arrays import Array

SWAPPED = {"better": "worse", "worse": "better"}


def times(count: int, middle: float = 1.0, noise: float = 0.01, seed: int = 1) -> Array:
    return middle * np.exp(np.random.default_rng(seed).normal(0, noise, count))


def asked(order: str, values: Mapping[str, Sequence[float] | Array], name: str = "time", **more: Any) -> Question:
    """Arms measured in this order; each letter takes the next value of its arm. `a` is the control."""
    runs: dict[str, list[Observation]] = {arm: [] for arm in values}
    known = {key: more.pop(key) for key in ("block", "boot", "machine", "covariate") if key in more}
    for place, arm in enumerate(order):
        index = len(runs[arm])
        told = {key: of_arm[arm][index] for key, of_arm in known.items()}
        runs[arm].append(Observation(value=float(values[arm][index]), place=place + 1, **told))
    arms = {arm: tuple(held) for arm, held in runs.items()}
    return Question(name=name, **{"direction": "lower", "arms": arms, "control": "a", "margin": 0.02, **more})


def only(question: Question, **options: Any) -> Contrast:
    (answer,) = judge_foreign([question], **options)
    (contrast,) = answer.contrasts
    return contrast


def kinds(found: Contrast | Answer) -> list[str]:
    return [finding.kind for finding in found.findings]


def without_order(question: Question) -> Question:
    arms = {arm: tuple(msgspec.structs.replace(run, place=None) for run in runs) for arm, runs in question.arms.items()}
    return msgspec.structs.replace(question, arms=arms)


FASTER = {"a": times(10, seed=1), "b": times(10, 0.9, seed=2)}


def test_interleaved_runs_may_be_better_or_worse() -> None:
    contrast = only(asked("ab" * 10, FASTER))
    assert (contrast.verdict, contrast.worth) == ("better", "yes")
    assert contrast.effect is not None
    assert contrast.effect.low is not None
    assert contrast.effect.high is not None
    assert contrast.effect.low < -math.log(0.9) < contrast.effect.high
    assert (contrast.n_arm, contrast.n_control, contrast.blocks) == (10, 10, None)
    assert contrast.test is not None
    assert contrast.test.floor == pytest.approx(2 / math.comb(20, 10))
    assert {test.statistic for test in contrast.cross_checks} == {"difference", "t"}
    worse = only(asked("ab" * 10, {"a": FASTER["b"], "b": FASTER["a"]}))
    assert worse.verdict == "worse"


def test_one_arm_after_the_other_is_never_better() -> None:
    contrast = only(asked("a" * 10 + "b" * 10, FASTER))
    assert contrast.verdict == "different"
    assert contrast.why == "cause unknown: time and arm are confounded"
    assert contrast.worth is None
    assert contrast.effect is not None
    assert contrast.effect.excludes_zero
    assert kinds(contrast) == ["time-and-arm-confounded"]
    assert "difference seen, cause not identified (time and arm are confounded)" in contrast.findings[0].sentence


@pytest.mark.parametrize("known", ["boot", "machine"])
def test_one_boot_or_machine_for_each_arm_is_never_better(known: str) -> None:
    told: dict[str, Any] = {known: {"a": ["x"] * 10, "b": ["y"] * 10}}
    contrast = only(asked("ab" * 10, FASTER, **told))
    assert contrast.verdict == "different"
    assert kinds(contrast)[0] == f"{known}-and-arm-confounded"


def test_an_unknown_order_is_never_better() -> None:
    contrast = only(without_order(asked("ab" * 10, FASTER)))
    assert contrast.verdict == "different"
    assert kinds(contrast) == ["order-unknown"]
    alike = only(without_order(asked("ab" * 10, {"a": times(10, seed=1), "b": times(10, seed=2)})))
    assert alike.verdict == "no difference seen"


@pytest.mark.parametrize("runs, verdict", [(3, "inconclusive"), (4, "better")])
def test_the_floor_comes_before_the_data(runs: int, verdict: str) -> None:
    contrast = only(asked("ab" * runs, {"a": times(runs), "b": times(runs, 0.5, seed=2)}))
    assert contrast.verdict == verdict
    assert contrast.test is not None
    assert contrast.test.floor == pytest.approx(2 / math.comb(2 * runs, runs))
    assert runs == 4 or "0.1" in contrast.why


def test_the_floor_holds_after_correction_for_distinct_outcomes_only() -> None:
    values = {"a": times(4), "b": times(4, 0.5, seed=2)}
    one, other = asked("abababab", values), asked("abababab", {"a": times(4, seed=3), "b": times(4, 0.5, seed=4)}, "x")
    both = judge_foreign([one, other])
    assert [answer.contrasts[0].verdict for answer in both] == ["inconclusive"] * 2
    assert "after correction for 2 comparisons" in both[0].contrasts[0].why
    rate = asked("abababab", {arm: 1 / held for arm, held in values.items()}, "rate", direction="higher")
    time_and_rate = judge_foreign([one, rate])
    assert [answer.contrasts[0].verdict for answer in time_and_rate] == ["better"] * 2
    assert "same-as" in kinds(time_and_rate[1])
    assert "same-as" not in kinds(time_and_rate[0])


def test_a_primary_outcome_is_a_family_of_its_own() -> None:
    values = {"a": times(4), "b": times(4, 0.5, seed=2)}
    primary = asked("abababab", values, role="primary")
    other = asked("abababab", {"a": times(4, seed=3), "b": times(4, 0.5, seed=4)}, "x")
    first, second = judge_foreign([primary, other])
    assert first.contrasts[0].verdict == "better"
    assert second.contrasts[0].verdict == "inconclusive"
    assert "exploratory" in second.contrasts[0].why


def test_what_repeats_the_primary_outcome_is_judged_as_it_is() -> None:
    values = {"a": times(4), "b": times(4, 0.5, seed=2)}
    rate = asked("abababab", {arm: 1 / held for arm, held in values.items()}, "rate", direction="higher")
    time = asked("abababab", values, role="primary")
    assert [answer.contrasts[0].verdict for answer in judge_foreign([rate, time])] == ["better", "better"]
    mirrored = msgspec.structs.replace(rate, control="b")
    both = judge_foreign([mirrored, time])
    assert [answer.contrasts[0].arm for answer in both] == ["a", "b"]
    assert "2 comparisons" in both[0].contrasts[0].why


def test_holm_is_over_arms_and_outcomes() -> None:
    names = "abcd"
    order = "".join(names[(i + j) % 4] for i in range(8) for j in range(4))
    random = np.random.default_rng(5)
    questions = [
        asked(order, {arm: np.exp(random.normal(0.02 * i, 0.02, 8)) for i, arm in enumerate(names)}, name)
        for name in ("x", "y")
    ]
    tests = [contrast.test for answer in judge_foreign(questions) for contrast in answer.contrasts]
    p = [test.p for test in tests if test is not None]
    by_hand = {value: max(min(1, x * (6 - i)) for i, x in enumerate(sorted(p)) if x <= value) for value in p}
    assert len(p) == 6
    assert [test.p_adjusted for test in tests if test is not None] == pytest.approx([by_hand[value] for value in p])


def test_blocks_are_compared_within() -> None:
    """Blocks that differ a hundred-fold, arms by 5 %: ten differences of one sign."""
    rounds = np.exp(np.linspace(0, 5, 10))
    values = {"a": rounds * times(10, seed=1), "b": rounds * times(10, 0.95, seed=2)}
    names = {"a": [str(i) for i in range(10)], "b": [str(i) for i in range(10)]}
    order = "abbaabbabaabababbaab"
    contrast = only(asked(order, values, block=names))
    assert (contrast.verdict, contrast.blocks) == ("better", 10)
    assert contrast.test is not None
    assert contrast.test.p == contrast.test.floor == 2 / 1024
    assert only(asked(order, values)).verdict == "inconclusive"
    assert only(asked("a" * 10 + "b" * 10, values, block=names)).verdict == "different"


def test_what_arms_do_not_share_is_not_counted_to_them() -> None:
    """Machines of very unequal speed: pooled, the arm on one slow machine would be several times slower."""
    fast, slow = times(20, 1.0, seed=1), times(20, 4.3, seed=2)
    hosts = {"a": ["fast"] * 20 + ["slow"] * 10, "b": ["slow"] * 10, "c": ["other"] * 10}
    values: dict[str, list[float]] = {
        "a": [*fast, *slow[:10]],
        "b": (slow[10:] * 0.9954).tolist(),
        "c": fast[:10].tolist(),
    }
    order = "a" * 20 + "abc" * 10
    for name in ("block", "machine"):
        told: dict[str, Any] = {name: hosts}
        (answer,) = judge_foreign([asked(order, values, **told)])
        near, apart = answer.contrasts
        assert near.effect is not None
        assert abs(near.effect.estimate - 0.0046) < 0.01
        assert (near.n_control, near.n_arm) == (10, 10)
        assert "blocks-left-out" in kinds(near)
        if name == "block":
            assert (apart.verdict, apart.effect) == ("not comparable", None)
            assert "share no block" in apart.why
            assert (answer.anova, answer.pairwise) == ((), ())
            assert "share no block" in answer.findings[-1].sentence


def test_five_blocks_decide_nothing() -> None:
    names = {"a": list("12345"), "b": list("12345")}
    values = {"a": times(5), "b": times(5, 0.2, seed=2)}
    assert "0.062" in only(asked("abbaabbaab", values, block=names)).why


def test_equivalent_needs_the_interval_inside_the_margin() -> None:
    same = {"a": times(20, noise=0.005, seed=1), "b": times(20, noise=0.005, seed=2)}
    assert only(asked("ab" * 20, same)).verdict == "equivalent"
    assert only(asked("ab" * 20, same, margin=0.002)).verdict == "inconclusive"
    small = {"a": same["a"], "b": same["b"] * 0.99}
    real = only(asked("ab" * 20, small))
    assert real.verdict == "equivalent"
    assert "a real difference, but smaller than the margin" in real.why
    assert only(asked("ab" * 3, {arm: held[:3] for arm, held in same.items()})).verdict == "inconclusive"
    in_sequence = only(asked("a" * 20 + "b" * 20, small))
    assert in_sequence.verdict == "different"
    assert "time and arm are confounded" in in_sequence.why
    coarse = only(asked("ab" * 20, same, resolution=0.05))
    assert coarse.verdict == "inconclusive"


def test_without_a_direction_there_are_differences_only() -> None:
    (answer,) = judge_foreign([asked("ab" * 10, FASTER, direction=None)])
    contrast = answer.contrasts[0]
    assert contrast.verdict == "different"
    assert contrast.why == "it is unknown whether higher or lower is better"
    assert contrast.effect is not None
    assert contrast.effect.estimate < 0
    assert "no-direction" in kinds(answer)


def test_drift_is_held_against_the_effect() -> None:
    """Values rise with time, and nothing else: the second arm looks worse by what ten runs of drift make."""
    place = np.arange(20)
    values = np.exp(0.01 * place) * times(20, noise=0.002)
    contrast = only(asked("a" * 10 + "b" * 10, {"a": values[:10], "b": values[10:]}))
    assert contrast.verdict == "inconclusive"
    assert "drift" in kinds(contrast)
    assert contrast.test is not None
    (check,) = [check for check in contrast.test.checks if check.name == "no drift"]
    assert check.holds is False
    assert check.value == pytest.approx(-0.1, rel=0.1)


def test_the_effect_at_equal_temperature_stands_beside_the_raw_one() -> None:
    random = np.random.default_rng(4)
    heat = {"a": 50 + random.normal(0, 1, 12), "b": 60 + random.normal(0, 1, 12)}
    values = {arm: np.exp(0.01 * hot + random.normal(0, 0.004, 12)) for arm, hot in heat.items()}
    contrast = only(asked("ab" * 12, values, covariate=heat))
    assert contrast.verdict == "worse"
    assert contrast.adjusted is not None
    assert contrast.adjusted.low is not None
    assert contrast.adjusted.high is not None
    assert contrast.adjusted.low < 0 < contrast.adjusted.high
    assert contrast.adjusted_for == "start temperature"
    assert "covariate-explains" in kinds(contrast)


def test_counts_with_zeros_are_compared_as_differences() -> None:
    counts = np.array([3, 9, 4, 5, 7, 6, 8, 2, 5, 6, 1, 9], dtype=np.float64)
    values = {"a": counts, "b": np.zeros(12)}
    names = {arm: [str(i) for i in range(12)] for arm in values}
    (answer,) = judge_foreign([asked("abba" * 6, values, block=names)])
    contrast = answer.contrasts[0]
    assert contrast.verdict == "better"
    assert contrast.effect is not None
    assert contrast.effect.scale == "difference"
    assert contrast.effect.estimate == pytest.approx(values["a"].mean())
    assert contrast.test is not None
    assert contrast.test.p == 2 / 2**12
    assert "difference-scale" in kinds(answer)
    assert only(asked("ab" * 12, values)).verdict == "better"


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("unit", [1.0, 1e-9])
def test_what_rounding_leaves_is_no_difference(unit: float, blocked: bool) -> None:
    """0.1 + 0.2 is not 0.3 to a computer; and sums of what cancels are not zero."""
    rising = [unit * 1.1 * place for place in range(12)]
    dust = [value * (1 + 3e-16) for value in rising]
    more: dict[str, Any] = {"block": {arm: [str(place) for place in range(12)] for arm in "ab"}} if blocked else {}
    for values in ({"a": [0.3 * unit] * 12, "b": [(0.1 + 0.2) * unit] * 12}, {"a": rising, "b": dust}):
        contrast = only(asked("ab" * 12, values, **more))
        assert contrast.verdict == "inconclusive"
        assert contrast.effect is not None
        assert contrast.effect.estimate == 0


def test_values_that_are_mostly_zero_are_not_said_not_to_vary() -> None:
    rare = [0.0] * 9 + [3.0]
    contrast = only(asked("ab" * 10, {"a": rare, "b": rare[::-1]}))
    assert "most values are equal" in contrast.why
    assert contrast.effect is not None
    assert (contrast.effect.estimate, contrast.effect.low, contrast.effect.high) == (0, 0, 0)
    assert "all values are equal" in only(asked("ab" * 10, {"a": [0.0] * 10, "b": [0.0] * 10})).why


def test_counts_are_told_in_all_and_as_runs_without_any() -> None:
    values = {"a": [0.0, 4.0, 0.0, 8.0, 3.0, 0.0], "b": [0.0, 1.0, 0.0, 0.0, 2.0, 0.0]}
    (answer,) = judge_foreign([asked("abbaab" * 2, values)])
    told = next(finding for finding in answer.findings if finding.kind == "counts")
    assert told.sentence == "in all, a: 15 in 6 runs, none in 3; b: 3 in 6 runs, 0.2 times as many per run, none in 4"
    below = {"a": [-1.0, *values["a"][1:]], "b": values["b"]}
    (answer,) = judge_foreign([asked("abbaab" * 2, below)])
    assert "counts" not in kinds(answer)


def test_runs_that_are_alike_because_they_follow_each_other_are_noted() -> None:
    level = np.cumsum(np.random.default_rng(5).normal(0, 0.02, 40))
    order = "abbabaabbaabababbaba" * 2
    places = {arm: [place for place, name in enumerate(order) if name == arm] for arm in "ab"}
    wandering = {arm: np.exp(level[places[arm]]) for arm in "ab"}
    assert "dependent-runs" in kinds(only(asked(order, wandering)))
    rounds = {arm: [str(index) for index in range(20)] for arm in "ab"}
    assert "dependent-runs" not in kinds(only(asked("ab" * 20, wandering, block=rounds)))
    steady = {"a": times(20, seed=1), "b": times(20, seed=2)}
    assert "dependent-runs" not in kinds(only(asked(order, steady)))


def test_samples_of_a_log_are_no_independent_runs() -> None:
    """3,000 samples of one slow wave in each arm: as runs they would differ beyond any doubt."""
    random, wave = np.random.default_rng(11), np.zeros(6_000)
    for place in range(1, 6_000):
        wave[place] = 0.99 * wave[place - 1] + random.normal(0, 0.01)
    arms = {"a": np.exp(wave[:3_000]), "b": np.exp(wave[3_000:])}
    for question in (in_order := asked("a" * 3_000 + "b" * 3_000, arms), without_order(in_order)):
        contrast = only(question)
        assert contrast.verdict == "no difference seen"
        (told,) = [one.sentence for one in contrast.findings if one.kind == "time-blocks"]
        assert "3000+3000 runs count as" in told
    shifted = only(asked("a" * 3_000 + "b" * 3_000, {**arms, "b": arms["b"] * 1.5}))
    assert shifted.verdict == "different"


def test_too_few_stretches_of_time_are_told() -> None:
    rising = np.exp(0.01 * np.arange(20))
    contrast = only(asked("a" * 10 + "b" * 10, {"a": rising[:10], "b": rising[10:]}))
    assert contrast.verdict == "inconclusive"
    assert "alike and form only 1+1 stretches of time" in contrast.why


def test_several_arms_get_their_tables() -> None:
    random = np.random.default_rng(3)
    values = {arm: np.exp(random.normal(0, 0.02, 6)) for arm in "abc"}
    (answer,) = judge_foreign([asked("abc" * 6, values)])
    assert [table.method for table in answer.pairwise] == ["Tukey HSD", "Games-Howell", "Dunnett"]
    assert [row.name for row in answer.anova] == ["one-way analysis of variance"]
    names = {arm: [str(i) for i in range(6)] for arm in values}
    (answer,) = judge_foreign([asked("abc" * 6, values, block=names)])
    assert [table.method for table in answer.pairwise] == ["Tukey HSD"]
    assert [row.source for row in answer.anova[0].rows] == ["arm", "block", "residual"]


def test_what_is_left_out_of_many_comparisons_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observational, "DETAILED_CONTRASTS", 1)
    (answer,) = judge_foreign([asked("abc" * 6, {arm: times(6, seed=i) for i, arm in enumerate("abc")})])
    assert answer.pairwise == ()
    assert "left-out" in kinds(answer)


def test_the_swing_of_an_arm_is_a_finding_that_can_be_set() -> None:
    wide = asked("ab" * 8, {"a": [1.0, 1.3, *times(6)], "b": times(8)})
    (default,), (lax,) = judge_foreign([wide]), judge_foreign([wide], swing=0.5)
    (finding,) = [finding for finding in default.findings if finding.kind == "swing"]
    assert list(finding.values) == ["a"]
    assert "swing" not in kinds(lax)


def test_two_modes_and_steps_are_findings() -> None:
    modes = [1.0, 1.01, 0.99, 1.02, 1.0, 0.98, 5.0, 5.05, 4.95, 5.1, 5.0, 4.9]
    (answer,) = judge_foreign([asked("ab" * 12, {"a": modes, "b": [1.0, 2.0] * 6})])
    found = {finding.kind: finding for finding in answer.findings}
    assert found["two-modes"].values["a"] == pytest.approx(0.5, abs=0.01)
    assert list(found["quantised"].values) == ["b"]


def test_values_a_few_steps_of_the_tool_apart_are_no_two_modes() -> None:
    rounded, apart = [124.0, 125.0] * 10, [124.0] * 10 + [129.0] * 9 + [125.0]
    (answer,) = judge_foreign([asked("ab" * 20, {"a": rounded, "b": rounded[::-1]})])
    assert "two-modes" not in kinds(answer)
    assert "quantised" in kinds(answer)
    (wide,) = judge_foreign([asked("ab" * 20, {"a": rounded, "b": apart})])
    (finding,) = [one for one in wide.findings if one.kind == "two-modes"]
    assert list(finding.values) == ["b"]
    (told,) = judge_foreign([asked("ab" * 20, {"a": rounded, "b": apart}, resolution=2.0)])
    assert "two-modes" not in kinds(told), "five is within three steps of two"


def test_values_that_lie_sorted_are_no_stretches_of_time() -> None:
    values = {"a": np.sort(times(20, seed=1)), "b": np.sort(times(20, 0.9, seed=2))}
    question = without_order(asked("ab" * 20, values))
    contrast = only(question)
    assert (contrast.verdict, contrast.n_control, contrast.n_arm) == ("different", 20, 20)
    assert "sorted" in kinds(contrast)
    mixed = without_order(asked("ab" * 20, {**values, "a": values["a"][::-1]}))
    assert "sorted" not in kinds(only(mixed)), "one rises and one falls: as a machine does that warms up"


@pytest.mark.parametrize("direction, values", [("lower", [4.45, 4.41, 8.92, 4.48]), ("higher", [2.2, 2.3, 1.1, 2.2])])
def test_one_run_of_four_at_half_the_others_may_be_a_second_mode(direction: str, values: list[float]) -> None:
    (answer,) = judge_foreign([asked("abab" * 2, {"a": values, "b": times(4)}, direction=direction)])
    (finding,) = [one for one in answer.findings if one.kind == "two-modes"]
    assert "two modes in a, or a disturbance: 1 of 4 runs lies apart" in finding.sentence
    assert finding.values["a"] == pytest.approx(2.0 if direction == "lower" else 0.5, rel=0.02)


def test_hosts_of_two_kinds_as_blocks_are_no_two_modes() -> None:
    hosts = np.repeat([1.0, 5.0], 10)
    values = {"a": hosts * times(20, 1.0, seed=1), "b": hosts * times(20, 0.9, seed=2)}
    blocks = {arm: [f"host{number}" for number in range(20)] for arm in values}
    assert "two-modes" not in kinds(judge_foreign([asked("ab" * 20, values, block=blocks)])[0])
    assert "two-modes" in kinds(judge_foreign([asked("ab" * 20, values)])[0])


# What stays the same, however the data are written.

LAYOUTS = st.sampled_from(["abab" * 4, "abba" * 4, "a" * 8 + "b" * 8, "aabb" * 4, "aababbba" * 2])


@st.composite
def any_question(draw: st.DrawFn) -> Question:
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    shift = draw(st.sampled_from([0.0, 0.001, 0.05, -0.3]))
    noise = draw(st.sampled_from([0.002, 0.05]))
    values = {"a": np.exp(random.normal(0, noise, 8)), "b": np.exp(random.normal(shift, noise, 8))}
    known: dict[str, Any] = {}
    if draw(st.booleans()):
        known["block"] = {"a": list("12345678"), "b": list("12345678")}
    return asked(draw(LAYOUTS), values, direction=draw(st.sampled_from(["lower", "higher"])), **known)


def mapped(question: Question, value: Any, **changes: Any) -> Question:
    arms = {
        arm: tuple(msgspec.structs.replace(run, value=value(run.value)) for run in runs)
        for arm, runs in question.arms.items()
    }
    return msgspec.structs.replace(question, arms=arms, **changes)


def numbers(contrast: Contrast) -> list[float]:
    assert contrast.effect is not None
    assert contrast.test is not None
    bounds = [contrast.effect.low or 0.0, contrast.effect.high or 0.0]
    return [contrast.effect.estimate, *bounds, contrast.test.p, contrast.test.p_adjusted or 0.0]


@settings(max_examples=25, deadline=None)
@given(any_question(), st.sampled_from([1e-9, 0.3, 1000.0]))
def test_another_unit_changes_nothing(question: Question, factor: float) -> None:
    one, other = only(question), only(mapped(question, lambda value: value * factor))
    assert (other.verdict, other.why) == (one.verdict, one.why)
    assert numbers(other) == pytest.approx(numbers(one), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(any_question())
def test_a_time_and_its_rate_are_judged_alike(question: Question) -> None:
    other = "higher" if question.direction == "lower" else "lower"
    one, inverse = only(question), only(mapped(question, lambda value: 1 / value, direction=other))
    assert inverse.verdict == one.verdict
    assert numbers(inverse) == pytest.approx(numbers(one), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(any_question())
def test_swapped_arms_give_the_mirror(question: Question) -> None:
    one = only(question)
    mirror = only(msgspec.structs.replace(question, control="b"))
    assert mirror.verdict == SWAPPED.get(one.verdict, one.verdict)
    estimate, low, high, p, adjusted = numbers(mirror)
    assert [-estimate, -high, -low, p, adjusted] == pytest.approx(numbers(one), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(any_question(), st.randoms(use_true_random=False))
def test_the_order_in_which_runs_are_listed_changes_nothing(question: Question, random: Any) -> None:
    shuffled = {arm: tuple(random.sample(runs, len(runs))) for arm, runs in question.arms.items()}
    one, other = only(question), only(msgspec.structs.replace(question, arms=shuffled))
    assert other.verdict == one.verdict
    assert numbers(other) == pytest.approx(numbers(one), abs=1e-9)


# How often nothing is called something.


def claims(order: str, make: Any, trials: int = 100) -> float:
    """Share of A/A trials that end better or worse."""
    found = 0
    for trial in range(trials):
        values = make(np.random.default_rng(trial), len(order))
        runs = {arm: [value for letter, value in zip(order, values, strict=True) if letter == arm] for arm in "ab"}
        found += only(asked(order, runs)).verdict in {"better", "worse"}
    return found / trials


def noise_of(random: np.random.Generator, count: int) -> Array:
    return np.exp(random.standard_t(3, count) * 0.05)


def drifting(random: np.random.Generator, count: int) -> Array:
    return np.exp(random.normal(0, 0.01, count) + 0.01 * np.arange(count))


def test_false_claims_stay_below_the_stated_rate() -> None:
    """At most 5 % and two standard deviations of 100 trials."""
    limit = 0.05 + 2 * math.sqrt(0.05 * 0.95 / 100)
    assert claims("abbabaabbaabababbaab", noise_of) <= limit
    assert claims("abbabaabbaabababbaab", drifting) <= limit
    assert claims("a" * 10 + "b" * 10, drifting, 50) == 0


# Bad input: an answer with a finding, never an exception or a false verdict.


@pytest.mark.parametrize(
    "values, expected",
    [
        ({"a": [1.0], "b": [2.0]}, "single-run"),
        ({"a": [2.0] * 8, "b": [2.0] * 8}, "no-spread"),
        ({"a": [0.0] * 8, "b": [0.0] * 8}, "no-spread"),
        ({"a": [math.nan] * 3, "b": [1.0] * 3}, "no-control"),
        ({"a": [1.0] * 3, "b": [math.nan, math.inf, -math.inf]}, "not-finite"),
        ({"a": [1.0, 2.0, 3.0]}, "one-group"),
        ({"b": [1.0, 2.0, 3.0]}, "no-control"),
        ({"a": [1.0, 2.0, 1e300], "b": [1.0, 2.0, 3.0]}, "not-finite"),
        ({"a": []}, "no-control"),
        ({"a": [0.0, 1.0, -2.0, 5.0] * 2, "b": [0.0, 0.0, 0.0, 1e50] * 2}, "difference-scale"),
        ({"a": [1e-50, 1e50] * 4, "b": [1e-50, 1e50] * 4}, "swing"),
    ],
)
def test_bad_input_is_answered_with_a_finding(values: dict[str, list[float]], expected: str) -> None:
    longest = max(map(len, values.values()))
    order = "".join(arm for index in range(longest) for arm, held in values.items() if index < len(held))
    for question in (asked(order, values), without_order(asked(order, values))):
        (answer,) = judge_foreign([question])
        assert expected in kinds(answer)
        assert all(
            contrast.verdict in {"inconclusive", "no difference seen"} and contrast.why for contrast in answer.contrasts
        )
        assert {contrast.arm for contrast in answer.contrasts} <= set(values) - {"a"}


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.lists(st.floats() | st.sampled_from([0.0, 1.0, 2.0]), max_size=9),
        max_size=3,
    ),
    st.sampled_from(["lower", "higher", None]),
    st.sampled_from([None, "block", "boot", "machine", "covariate"]),
)
def test_no_numbers_break_it(values: dict[str, list[float]], direction: Any, known: str | None) -> None:
    def told(index: int) -> dict[str, Any]:
        return {} if known is None else {known: float(index) if known == "covariate" else str(index // 2)}

    arms = {
        arm: tuple(
            Observation(value=value, place=3 * index + "abc".index(arm), **told(index))
            for index, value in enumerate(held)
        )
        for arm, held in values.items()
    }
    usable = {arm: any(abs(value) < 1e60 for value in held) for arm, held in values.items()}
    question = Question(name="t", direction=direction, arms=arms, control="a", margin=0.02)
    (answer,) = judge_foreign([question])
    assert [contrast.arm for contrast in answer.contrasts if contrast.n_arm and contrast.n_control] == [
        arm for arm in arms if arm != "a" and usable[arm] and usable.get("a")
    ]
    assert {contrast.arm for contrast in answer.contrasts} == set(arms) - {"a"}
    msgspec.json.decode(msgspec.json.encode(answer), type=Answer)
    for contrast in answer.contrasts:
        assert direction is not None or contrast.verdict not in {"better", "worse"}
        assert contrast.effect is None or math.isfinite(contrast.effect.estimate)


def test_nothing_asked_is_nothing_answered() -> None:
    assert judge_foreign([]) == ()


def test_thousands_of_arms_are_answered() -> None:
    random = np.random.default_rng(1)
    arms = {
        str(arm): tuple(
            Observation(value=float(value), place=10_000 * index + arm)
            for index, value in enumerate(np.exp(random.normal(0, 0.1, 3)))
        )
        for arm in range(2_000)
    }
    (answer,) = judge_foreign([Question(name="t", direction="lower", arms=arms, control="0", margin=0.02)])
    assert len(answer.contrasts) == 1_999
    assert {contrast.verdict for contrast in answer.contrasts} == {"inconclusive"}
    assert "left-out" in kinds(answer)
