# SPDX-License-Identifier: Apache-2.0
"""The judge over whole logs: every verdict, every check that refuses, and what it says to do next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ktrial.judge.collect_log import collect
from ktrial.judge.judge import judge
from ktrial.judge.model.comparison import Role
from ktrial.judge.model.judgement import Judgement, OutcomeJudgement
from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Event,
    Extended,
    OutcomeRule,
    Protocol,
    ReadingsTaken,
    RunEnded,
    TrialArm,
    TrialEnd,
    block_order,
    decode,
    encode,
)
from ktrial.judge.planning import blocks_to_detect
from ktrial.judge.sequential import first_exclusion
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import ANOTHER
from tests.support.trials import RATE, TIME, log_of, pair_log, protocol

PRIMARY = OutcomeRule(direction="lower", role="primary")
COUNTS = OutcomeRule(direction="lower", role="primary", scale="count")
#: Noise for which two comparisons find what three do not.
BORDERLINE_SEED = 2
PROFILE = {TIME: tuple(0.01 * (-1) ** place * (1 + place / 10) for place in range(10))}


def noise(blocks: int, sd: float = 0.01, seed: int = 1, mean: float = 0.0) -> list[float]:
    values: list[float] = np.random.default_rng(seed).normal(mean, sd, blocks).tolist()
    return values


def only(log: Sequence[Event]) -> OutcomeJudgement:
    return judge(log).of(TIME, "case", "control")


def kinds(said: Judgement) -> set[str]:
    return {one.kind for one in said.findings} | {one.kind for judged in said.judged for one in judged.findings}


def test_before_the_first_block_it_says_which_arms_to_run() -> None:
    said = judge([protocol()])
    assert (said.cap, said.comparisons, said.blocks) == (20, 1, 0)
    assert said.judged[0].verdict is None
    assert said.judged[0].effect is None
    assert (said.next.action, said.next.block, said.next.arms, said.next.look) == ("go on", 1, ("control", "case"), 7)


@pytest.mark.parametrize(
    "mean,sd,seed,verdict,why",
    [
        (0.10, 0.01, 6, "better", "boundary"),
        (-0.10, 0.01, 6, "worse", "boundary"),
        (0.0, 0.005, 6, "equivalent", "boundary"),
        (0.03, 0.05, 4, "inconclusive", "cap"),
        (0.0, 0.5, 1, "inconclusive", "futility"),
    ],
)
def test_verdicts(mean: float, sd: float, seed: int, verdict: str, why: str) -> None:
    found = only(pair_log(protocol(), noise(20, sd, seed, mean)))
    assert (found.verdict, found.why) == (verdict, why)
    assert found.effect is not None
    assert found.e_values is not None
    assert (found.needed is not None) == (verdict == "inconclusive")


def test_a_decided_trial_stops_and_its_verdict_is_frozen() -> None:
    log = pair_log(protocol(), noise(7, mean=0.1) + [-5.0] * 5)
    said = judge(log)
    assert (said.next.action, said.dropped) == ("stop", ("case",))
    assert said.of(TIME, "case", "control").blocks == 7
    assert said.judged[0].verdict == "better"
    assert said.judged[0].worth == "yes"


def test_an_interval_that_is_real_but_below_the_margin_is_equivalent() -> None:
    found = only(pair_log(protocol(), noise(7, 0.001, mean=0.01)))
    assert found.verdict == "equivalent"
    assert found.effect is not None
    assert found.effect.excludes_zero


def test_the_fast_path_and_pools_that_do_not_take_it() -> None:
    differences = [0.4, 0.3, 0.35, 0.5]
    assert only(pair_log(protocol(profile=PROFILE), differences)).why == "fast path"
    assert only(pair_log(protocol(profile=PROFILE, pooled=True), differences)).verdict is None
    assert only(pair_log(protocol(), differences)).verdict is None


def test_a_resolution_widens_the_fast_path() -> None:
    rule = replace(PRIMARY, resolution=1.0)
    found = only(pair_log(protocol(profile=PROFILE, outcomes={TIME: rule}), [0.9, 0.8, 0.85, 0.9]))
    # Values of the control are near 1 s, so that a step of 1 s is about ln 2.
    assert found.effect is not None
    assert found.effect.low is not None
    assert 0.8 - found.effect.low == pytest.approx(np.log(2), abs=0.02)
    later = pair_log(protocol(profile=PROFILE, outcomes={TIME: rule}), [0.9, 0.8, 0.85, 0.9, *noise(9)])
    assert only(later).effect == found.effect


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.01, -0.01, 0.02, 0.05, -0.03, 0.3]), min_size=20, max_size=20),
    st.floats(1e-3, 1e3),
)
def test_units_inversion_and_mirror_do_not_matter(differences: list[float], factor: float) -> None:
    """Ties are the hard case: few distinct values, so that sums are often exactly zero."""
    fixed = protocol(profile=PROFILE)
    log = pair_log(fixed, differences)
    plain = only(log)

    def measured(change: Any, start: Protocol = fixed) -> OutcomeJudgement:
        events = [
            replace(event, measurements={TIME: change(event.measurements[TIME])})
            if isinstance(event, RunEnded)
            else event
            for event in log[1:]
        ]
        return only([start, *events])

    rates = replace(fixed, outcomes={TIME: replace(PRIMARY, direction="higher")})
    for other in (measured(lambda value: value * factor), measured(lambda value: 1 / value, rates)):
        assert (other.verdict, other.why, other.blocks) == (plain.verdict, plain.why, plain.blocks)
        assert other.effect is not None
        assert plain.effect is not None
        assert other.effect.estimate == pytest.approx(plain.effect.estimate, abs=1e-9)
    swapped = only(pair_log(fixed, [-value for value in differences]))
    mirror = {"better": "worse", "worse": "better"}
    assert swapped.verdict == mirror.get(str(plain.verdict), plain.verdict)
    assert (swapped.why, swapped.blocks) == (plain.why, plain.blocks)


def test_a_verdict_is_recomputed_from_the_written_log() -> None:
    log = pair_log(protocol(profile=PROFILE), noise(20, 0.03, mean=0.03))
    said = judge(log)
    assert judge(decode(encode(log), "log")) == said
    assert msgspec.json.decode(msgspec.json.encode(said), type=Judgement) == said


def test_a_log_judged_event_by_event_never_takes_back_a_verdict() -> None:
    log = pair_log(protocol(), noise(20, 0.03, seed=5, mean=0.04))
    seen: set[str | None] = set()
    for size in range(1, len(log) + 1):
        seen.add(only(log[:size]).verdict)
        if only(log[:size]).verdict is not None:
            assert only(log[:size]).verdict == only(log).verdict
    assert seen == {None, "better"}


def test_a_begun_block_is_finished_first() -> None:
    log = pair_log(protocol(), noise(3))
    order = [event for event in log if isinstance(event, BlockDrawn)][-1].order
    said = judge(log[:-1])
    assert (said.blocks, said.next.block, said.next.arms, said.next.drawn) == (2, 3, order[1:], True)
    assert judge(log[:-2]).next.arms == order


def test_void_blocks_do_not_count_and_are_repeated_at_the_end() -> None:
    log: list[Event] = pair_log(protocol(cap=7), noise(7, 0.05))
    log.insert(4, BlockVoided(block=1, arm="case", cause="reading", reason="too hot"))
    said = judge(log)
    assert (said.blocks, said.voided, said.judged[0].blocks) == (6, 1, 6)
    assert (said.next.action, said.next.block) == ("repeat", 8)
    log += [BlockDrawn(block=8, order=("case", "control"), repeats=1)]
    log += [RunEnded(run=20, block=8, arm=arm, measurements={TIME: 1.0}) for arm in ("case", "control")]
    assert judge(log).judged[0].blocks == 7


def test_many_voids_are_not_comparable() -> None:
    log: list[Event] = pair_log(protocol(cap=7), noise(9, mean=0.1))
    voids: list[Event] = [
        BlockVoided(block=block, arm=("case", "control")[block % 2], cause="reading", reason="hot") for block in (1, 2)
    ]
    said = judge(log + voids)
    assert said.judged[0].verdict == "not comparable"
    assert (said.judged[0].why, said.next.action) == ("check", "stop")
    assert "voids" in kinds(said)
    assert judge(log + voids[:1]).judged[0].verdict == "better"


def test_voids_are_counted_against_what_was_drawn_once_a_verdict_is_there() -> None:
    """Two of nine blocks are too many for a verdict now, though a trial that went on to its cap could mend it."""
    voids: list[Event] = [BlockVoided(block=1, arm="case", cause="reading", reason="hot")]
    voids.append(BlockVoided(block=2, arm="control", cause="reading", reason="hot"))
    assert only([*pair_log(protocol(), noise(9, mean=0.1)), *voids]).verdict == "not comparable"
    assert only([*pair_log(protocol(), noise(9, 0.2)), *voids]).verdict is None


def test_a_knob_that_did_not_hold_twice_is_not_comparable() -> None:
    log = pair_log(protocol(), noise(19))
    voids: list[Event] = [
        BlockVoided(block=block, arm="case", cause="knob", reason="vm.swappiness reads 60") for block in (1, 2)
    ]
    assert only([*log, voids[0]]).verdict != "not comparable"
    assert only([*log, *voids]).verdict == "not comparable"


def test_what_must_be_equal_and_is_not() -> None:
    log = [
        replace(event, identity={"kernel": event.arm}) if isinstance(event, RunEnded) else event
        for event in pair_log(protocol(), noise(7, mean=0.1))
    ]
    assert only(log).verdict == "not comparable"
    assert only([protocol(varies=("kernel",)), *log[1:]]).verdict == "better"


def test_an_arm_that_measures_something_else_is_not_compared_however_often_its_runs_fail() -> None:
    def log(failure: str) -> list[Event]:
        return [
            replace(event, measurements={}, failure=failure)
            if isinstance(event, RunEnded) and event.arm == "case"
            else event
            for event in pair_log(protocol(), noise(9, mean=0.1))
        ]

    assert only(log("tool: ended with status 1")).verdict == "worse"
    different = log(f"tool: {ANOTHER}: asked for threads 4, but the tool reports 2")
    assert only(different).verdict == "not comparable"
    after_one = judge(different[:4])
    assert after_one.next.action == "stop"
    assert ["asked for threads 4, but the tool reports 2" in one.sentence for one in after_one.findings] == [True]


def test_readings_are_gated_but_heat_of_an_arm_is_only_a_doubt() -> None:
    log = pair_log(protocol(), noise(7, mean=0.1))

    def with_readings(control: dict[str, Any], case: dict[str, Any]) -> list[Event]:
        taken: list[Event] = [
            ReadingsTaken(block=block, arm=arm, readings=readings)
            for block in range(1, 8)
            for arm, readings in (("control", control), ("case", case))
        ]
        return log + taken

    power = with_readings({"power_source": "mains"}, {"power_source": "battery"})
    assert only(power).verdict == "not comparable"
    assert "gate-on_ac" in kinds(judge(power))
    heat = with_readings({"temperature_c": 40.0}, {"temperature_c": 60.0})
    assert only(heat).verdict == "better"
    assert "heat" in kinds(judge(heat))


def failing(arm: str, blocks: Sequence[int], differences: Sequence[float]) -> list[Event]:
    return [
        replace(event, measurements={}, failure="crashed")
        if isinstance(event, RunEnded) and event.arm == arm and event.block in blocks
        else event
        for event in pair_log(protocol(), differences)
    ]


def test_an_arm_that_fails_cannot_be_better() -> None:
    better = noise(12, mean=0.1)
    found = only(failing("case", [2], better))
    assert (found.verdict, found.why) == ("inconclusive", "failures")
    assert [one.kind for one in found.findings if one.kind == "failures"] == ["failures"]
    assert only(failing("control", [2], better)).verdict == "better"
    assert only(failing("case", [2], [-value for value in better])).verdict == "worse"
    assert only(failing("control", [2], [-value for value in better])).verdict == "inconclusive"


def test_six_failures_against_none_decide() -> None:
    found = only(failing("case", range(1, 7), noise(6, mean=0.1)))
    assert (found.verdict, found.why, found.effect) == ("worse", "failures", None)
    assert only(failing("control", range(1, 7), noise(6))).verdict == "better"
    assert only(failing("case", range(1, 6), noise(6, mean=0.1))).verdict is None


def test_a_cap_that_is_never_planned_as_every_block_lacks_a_value_ends_the_trial_too() -> None:
    log = [
        replace(event, measurements={}, failure="crashed")
        if isinstance(event, RunEnded) and (event.arm == "case" or event.block == 1)
        else event
        for event in pair_log(protocol(cap=None, budget=9), noise(30))
    ]
    assert judge(log[:20]).next.action != "stop"
    found = only(log)
    assert (found.verdict, found.why) == ("inconclusive", "failures")
    assert judge(log).next.action == "stop"


def test_failures_in_both_arms_end_a_trial_that_never_gets_to_its_cap() -> None:
    log = [
        replace(event, measurements={}, failure="crashed")
        if isinstance(event, RunEnded) and event.block is not None and event.block % 2
        else event
        for event in pair_log(protocol(), noise(30, 0.06, 2, 0.03))
    ]
    assert only(log).why == "failures"
    assert only(log).verdict == "inconclusive"


def test_values_without_a_logarithm_are_not_comparable() -> None:
    log = pair_log(protocol(), noise(7))
    zero = replace(log[2], measurements={TIME: 0.0})
    found = only([*log[:2], zero, *log[3:]])
    assert (found.verdict, found.findings[0].kind) == ("not comparable", "no-scale")
    assert "counter" in found.findings[0].sentence


def test_an_ended_trial_is_inconclusive_where_it_was_open() -> None:
    said = judge([*pair_log(protocol(), noise(5)), TrialEnd(reason="the user stopped it")])
    assert (said.judged[0].verdict, said.judged[0].why) == ("inconclusive", "ended")
    assert (said.next.action, said.next.reason) == ("stop", "the user stopped it")


def test_two_runs_a_visit_are_averaged_and_three_take_the_median() -> None:
    for runs, middle in ((2, np.mean), (3, np.median)):
        values = np.exp(np.random.default_rng(runs).normal(0, 0.1, (7, 2, runs)))
        log: list[Event] = [protocol(cap=7, runs_per_visit=runs)]
        for block in range(7):
            log.append(BlockDrawn(block=block + 1, order=("control", "case")))
            for place, arm in enumerate(("control", "case")):
                log += [
                    RunEnded(run=1, block=block + 1, arm=arm, measurements={TIME: float(value)})
                    for value in values[block, place]
                ]
        scores = middle(-np.log(values), axis=2)
        differences = scores[:, 1] - scores[:, 0]
        walsh = sorted((differences[i] + differences[j]) / 2 for i in range(7) for j in range(i, 7))
        found = only(log)
        assert found.effect is not None
        assert found.effect.estimate == pytest.approx((walsh[13] + walsh[14]) / 2 if len(walsh) % 2 == 0 else walsh[14])
        assert judge(log[:-1]).blocks == 6


# Several arms


def arms_log(fixed: Protocol, means: dict[str, float], blocks: int, sd: float = 0.005) -> list[Event]:
    generator = np.random.default_rng(3)
    return log_of(fixed, {TIME: {arm: generator.normal(mean, sd, blocks).tolist() for arm, mean in means.items()}})


def test_arms_share_the_error_and_a_decided_one_is_dropped() -> None:
    fixed = protocol(("far", "same"))
    log = arms_log(fixed, {"control": 0.0, "far": 0.2, "same": 0.015}, 9, sd=0.03)
    said = judge(log)
    assert said.comparisons == 2
    far, same = said.of(TIME, "far", "control"), said.of(TIME, "same", "control")
    # Row 2 of cap 20 has no look at seven.
    assert (far.verdict, far.blocks, same.verdict) == ("better", 9, None)
    assert far.effect is not None
    assert far.effect.confidence == pytest.approx(0.975)
    assert said.dropped == ("far",)
    assert said.next.arms == ("control", "same")
    log += [BlockDrawn(block=10, order=("same", "control"))]
    log += [RunEnded(run=99, block=10, arm=arm, measurements={TIME: 1.0}) for arm in ("same", "control")]
    assert judge(log).of(TIME, "same", "control").blocks == 10
    assert judge(log).of(TIME, "far", "control") == far


def test_an_arm_of_a_ladder_stays_until_all_its_questions_are_decided() -> None:
    fixed = protocol(("one", "two"), questions="ladder", cap=30)
    log = arms_log(fixed, {"control": 0.0, "one": 0.2, "two": 0.215}, 12, sd=0.02)
    said = judge(log)
    assert said.comparisons == 3
    assert said.of(TIME, "one", "control").verdict == "better"
    assert said.of(TIME, "two", "one").verdict is None
    assert (said.dropped, said.next.arms) == ((), ("control", "one", "two"))


def test_a_placebo_neither_shares_the_error_nor_holds_the_trial_up() -> None:
    again = TrialArm(name="again", placebo=True)
    fixed = protocol(arms=(TrialArm(name="control"), TrialArm(name="case"), again))
    said = judge(arms_log(fixed, {"control": 0.0, "case": 0.2, "again": 0.015}, 7, sd=0.01))
    assert said.comparisons == 1
    assert said.of(TIME, "case", "control").verdict == "better"
    assert said.next.action == "stop"
    odd = judge(arms_log(fixed, {"control": 0.0, "case": 0.2, "again": 0.1}, 7))
    assert odd.of(TIME, "again", "control").verdict == "better"
    assert "placebo" in kinds(odd)


# Several outcomes


def outcomes(**more: OutcomeRule) -> dict[str, OutcomeRule]:
    return {TIME: PRIMARY, **more}


def several(fixed: Protocol, effects: Mapping[str, Sequence[float]]) -> Judgement:
    zeros = [0.0] * len(effects[TIME])
    return judge(log_of(fixed, {name: {"control": zeros, "case": list(values)} for name, values in effects.items()}))


def test_secondaries_are_a_family() -> None:
    rules = {name: OutcomeRule(direction="higher", role="secondary") for name in ("s.a", "s.b", "s.c")}
    fixed = protocol(outcomes=outcomes(**rules), until_all_decided=True)
    said = several(
        fixed,
        {
            TIME: noise(20, 0.01, 1, 0.1),
            "s.a": noise(20, 0.01, 2, 0.1),
            "s.b": noise(20, 0.3, 3),
            "s.c": noise(20, 0.004, 4),
        },
    )
    found = {one.outcome: (one.verdict, one.why) for one in said.judged}
    assert found == {
        TIME: ("better", "boundary"),
        "s.a": ("better", "holm"),
        "s.b": ("inconclusive", "cap"),
        "s.c": ("equivalent", "boundary"),
    }
    effect = said.of("s.a", "case", "control").effect
    assert effect is not None
    assert effect.confidence == pytest.approx(1 - 0.05 / 3)


def test_a_secondary_that_was_found_lets_the_others_be_read_wider() -> None:
    """`s.b` excludes zero at 0.05/2 and not at 0.05/3: it is found once one of the three is, and only then."""
    rules = {name: OutcomeRule(direction="higher", role="secondary") for name in ("s.a", "s.b", "s.c")}
    fixed = protocol(outcomes=outcomes(**rules), until_all_decided=True)
    borderline = noise(20, 0.05, BORDERLINE_SEED, 0.03)
    assert [first_exclusion(np.array(borderline), 20, row) for row in (2, 3)] == ["better", None]
    rest = {TIME: noise(20, 0.01, 1, 0.1), "s.b": borderline, "s.c": noise(20, 0.3, 3)}
    alone = several(fixed, {**rest, "s.a": noise(20, 0.3, 2)})
    assert alone.of("s.b", "case", "control").verdict == "inconclusive"
    # One that cannot be judged is not forgotten: it still counts among the three.
    spoiled = several(fixed, {**rest, "s.a": [float("-inf"), *noise(19, 0.01)]})
    assert spoiled.of("s.a", "case", "control").verdict == "not comparable"
    assert spoiled.of("s.b", "case", "control").verdict == "inconclusive"
    helped = several(fixed, {**rest, "s.a": noise(20, 0.01, 2, 0.1)})
    assert helped.of("s.b", "case", "control").verdict == "better"


def test_secondaries_end_with_the_primary_unless_all_are_to_be_decided() -> None:
    rules = {"s.a": OutcomeRule(direction="higher", role="secondary")}
    effects = {TIME: noise(7, 0.01, 1, 0.1), "s.a": noise(7, 0.3, 2)}
    early = several(protocol(outcomes=outcomes(**rules)), effects)
    assert (early.of("s.a", "case", "control").verdict, early.next.action) == ("inconclusive", "stop")
    on = several(protocol(outcomes=outcomes(**rules), until_all_decided=True), effects)
    assert (on.of("s.a", "case", "control").verdict, on.next.action) == (None, "go on")
    assert on.next.arms == ("control", "case")


def test_guards_hold_break_or_stay_open() -> None:
    rules = {
        name: OutcomeRule(direction="higher", role="guard", margin=0.05) for name in ("g.holds", "g.broken", "g.open")
    }
    said = several(
        protocol(outcomes=outcomes(**rules)),
        {
            TIME: noise(9, 0.01, 1, 0.1),
            "g.holds": noise(9, 0.01, 2),
            "g.broken": noise(9, 0.01, 3, -0.2),
            "g.open": noise(9, 0.2, 4),
        },
    )
    assert {one.outcome: one.guard for one in said.judged} == {
        TIME: None,
        "g.holds": "holds",
        "g.broken": "broken",
        "g.open": "open",
    }
    assert "guard-broken" in kinds(said)


def test_a_guard_just_at_its_margin_stays_open() -> None:
    """Not holding: its interval reaches beyond what is allowed, though not beyond twice that."""
    rules = {"g.a": OutcomeRule(direction="higher", role="guard", margin=0.05)}
    at_margin = noise(9, 0.01, 2, -float(np.log(1.05)))
    said = several(protocol(outcomes=outcomes(**rules)), {TIME: noise(9, 0.01, 1, 0.1), "g.a": at_margin})
    assert said.of("g.a", "case", "control").guard == "open"


def test_what_refuses_a_trial_leaves_no_verdict_of_any_family() -> None:
    rules = {
        "s.a": OutcomeRule(direction="higher", role="secondary"),
        "g.a": OutcomeRule(direction="higher", role="guard"),
        "e.a": OutcomeRule(direction="higher", role="exploratory"),
    }
    effects = {name: noise(7, 0.01, seed, 0.1) for seed, name in enumerate((TIME, *rules))}
    zeros = [0.0] * 7
    scores = {name: {"control": zeros, "case": values} for name, values in effects.items()}
    log = log_of(protocol(outcomes=outcomes(**rules)), scores)
    assert {one.verdict for one in judge(log).judged} == {"better", None}
    other = [replace(one, identity={"kernel": one.arm}) if isinstance(one, RunEnded) else one for one in log]
    assert {one.outcome: one.verdict for one in judge(other).judged} == {
        TIME: "not comparable",
        "s.a": "not comparable",
        "g.a": "not comparable",
        "e.a": None,
    }


def test_a_guard_that_is_worse_but_within_its_margin_holds() -> None:
    rules = {"g.a": OutcomeRule(direction="higher", role="guard", margin=0.05)}
    said = several(protocol(outcomes=outcomes(**rules)), {TIME: noise(7, mean=0.1), "g.a": noise(7, 0.001, 2, -0.02)})
    guard = said.of("g.a", "case", "control")
    assert (guard.guard, guard.verdict) == ("holds", "equivalent")


def test_exploratory_outcomes_have_p_and_never_a_verdict() -> None:
    rules = {name: OutcomeRule(direction="higher", role="exploratory") for name in ("e.a", "e.b")}
    said = several(
        protocol(outcomes=outcomes(**rules)),
        {TIME: noise(7, mean=0.1), "e.a": noise(7, 0.01, 2, 0.2), "e.b": [0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 0.0]},
    )
    first, second = said.of("e.a", "case", "control"), said.of("e.b", "case", "control")
    assert (first.verdict, second.verdict) == (None, None)
    # Seven of one sign: 2/2^7; of two, Benjamini and Hochberg double the smaller one.
    assert (first.p, first.p_adjusted) == pytest.approx((2 / 128, 4 / 128))
    assert (second.p, second.p_adjusted) == (1, 1)
    assert b'"p_adjusted":0.03125' in msgspec.json.encode(said)


def test_p_of_an_exploratory_counter_is_by_flips_of_its_sizes() -> None:
    """Of six ones and a five, no flip gives a smaller sum; by their ranks they would differ more than that."""
    rules = {"e.a": OutcomeRule(direction="higher", role="exploratory", scale="count")}
    scores = {
        TIME: {"control": [0.0] * 7, "case": noise(7, mean=0.1)},
        "e.a": {"control": [0.0] * 6 + [5.0], "case": [1.0] * 6 + [0.0]},
    }
    assert judge(log_of(protocol(outcomes=outcomes(**rules)), scores)).of("e.a", "case", "control").p == 1


def test_questions_that_can_never_be_answered_are_refused_before_the_first_run() -> None:
    rules = {f"s.{number}": OutcomeRule(direction="higher", role="secondary") for number in range(4)}
    counted = r"cannot decide {} comparisons at once \({}: {} outcomes? x {} comparisons?, alpha = 0\.05\)"
    with pytest.raises(BadInput, match=counted.format(4, "secondary", 4, 1)):
        judge([protocol(outcomes=outcomes(**rules), cap=7)])
    with pytest.raises(BadInput, match=counted.format(8, "secondary", 4, 2)):
        judge([protocol(("a", "b"), outcomes=outcomes(**rules), cap=7)])
    guards = {name: replace(rule, role="guard") for name, rule in rules.items()}
    with pytest.raises(BadInput, match=counted.format(4, "guard", 4, 1)):
        judge([protocol(outcomes=outcomes(**guards), cap=7)])
    with pytest.raises(BadInput, match=counted.format(4, "primary", 1, 4)):
        judge([protocol(("a", "b", "c", "d"), cap=7)])
    with pytest.raises(BadInput, match=r"cap: expected one of .*, got 13"):
        judge([protocol(cap=13)])
    with pytest.raises(BadInput, match="cannot decide 4"):
        judge([protocol(outcomes=outcomes(**rules), cap=None, budget=7)])


def test_a_protocol_that_says_nothing_to_judge_is_refused() -> None:
    with pytest.raises(BadInput, match="margin of"):
        judge([protocol(outcomes={TIME: replace(PRIMARY, margin=-1.0)})])


@pytest.mark.parametrize("blocks, needed", [(1, False), (2, True)])
def test_blocks_that_would_have_been_needed_come_from_the_noise_that_was_found(blocks: int, needed: bool) -> None:
    over = TrialEnd(reason="stopped")
    differences = [0.02, 0.1, 0.03, 0.05, 0.01]
    found = only([*pair_log(protocol(), differences[:blocks]), over])
    assert (found.needed is not None) == needed
    all_of_them = only([*pair_log(protocol(), differences), over])
    # The median is 0.03, the sizes around it 0.01, 0.07, 0, 0.02, 0.02: their median is 0.02.
    assert all_of_them.needed == blocks_to_detect(1.4826 * 0.02, protocol().detect)
    # Where most are alike, the robust spread is none: the root of (0.04^2 * 3/4) with the divisor 3 is 0.04.
    assert only([*pair_log(protocol(), [0.0, 0.0, 0.0, 0.08]), over]).needed == blocks_to_detect(
        0.04, protocol().detect
    )


# Planned caps, extension, counters


def test_a_cap_is_planned_from_the_first_seven_blocks() -> None:
    fixed = protocol(cap=None, budget=60)
    assert judge(pair_log(fixed, noise(6, 0.04))).cap is None
    assert judge(pair_log(fixed, noise(6, 0.04))).next.look == 7
    calm, wild = judge(pair_log(fixed, noise(7, 0.001))), judge(pair_log(fixed, noise(7, 0.2)))
    assert (calm.cap, calm.judged[0].verdict) == (7, "equivalent")
    assert (wild.cap, wild.judged[0].verdict) == (60, None)
    assert judge(pair_log(fixed, noise(7, 0.2) + [0.0] * 9)).cap == 60


def test_a_declared_extension_goes_on_by_e_value() -> None:
    fixed = protocol(cap=12, extend=True, profile={TIME: tuple(noise(12, 0.05, 9))})
    differences = noise(12, 0.05, 11, 0.005) + noise(60, 0.05, 8, 0.05)
    ended = only(pair_log(fixed, differences[:12]))
    assert ended.verdict == "inconclusive"
    found = only(pair_log(fixed, differences))
    assert (found.verdict, found.why) == ("better", "e-value")
    assert 12 < found.blocks < 72
    assert found.e_values is not None
    assert found.e_values.no_difference >= 40
    assert found.effect is not None
    assert found.effect.low is not None
    assert found.effect.low > 0
    assert only(pair_log(replace(fixed, extend=False), differences)).verdict == "inconclusive"
    same = only(pair_log(fixed, differences[:12] + noise(300, 0.03, 5)))
    assert (same.verdict, same.why) == ("equivalent", "e-value")


@pytest.mark.parametrize("extend, over", [(False, True), (True, False)])
def test_an_extension_that_was_not_declared_or_came_too_early_is_refused(extend: bool, over: bool) -> None:
    log = pair_log(protocol(cap=12, extend=extend), noise(12, 0.05))
    log += [TrialEnd(reason="the cap")] if over else []
    with pytest.raises(BadInput, match="protocol forbids it" if over else "has not ended"):
        judge([*log, Extended(blocks=20)])


def test_an_extension_goes_on_after_the_end() -> None:
    log = pair_log(protocol(cap=12, extend=True), noise(12, 0.05))
    over = [*log, TrialEnd(reason="the cap")]
    assert judge(over).next.action == "stop"
    said = judge([*over, Extended(blocks=20)])
    assert (said.next.action, said.next.block, said.judged[0].verdict) == ("go on", 13, None)


def counted(control: Any, case: Any, direction: str = "lower", **changes: Any) -> OutcomeJudgement:
    rule = OutcomeRule(direction=direction, role="primary", scale="count", margin=0.1)  # type: ignore[arg-type]
    fixed = protocol(outcomes={TIME: rule}, **changes)
    return only(log_of(fixed, {TIME: {"control": list(control), "case": list(case)}}))


def test_counters_are_looked_at_once() -> None:
    events = np.random.default_rng(1).poisson(30, 20).astype(float)
    assert counted(events[:19], events[:19] / 10).verdict is None
    found = counted(events, np.round(events / 10))
    assert (found.verdict, found.why, found.blocks) == ("better", "counter", 20)
    assert found.counter is not None
    assert found.counter.ratio == pytest.approx(np.round(events / 10).sum() / events.sum())
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(-np.log(found.counter.ratio or 0))
    assert counted(events, events * 10).verdict == "worse"
    assert counted(events, events * 10, "higher").verdict == "better"
    assert counted(events, events).verdict == "equivalent"
    wild = np.where(np.arange(20) % 2, 90.0, 0.0)
    assert counted(wild, wild[::-1]).verdict == "inconclusive"


#: Blocks with a difference, those of them in which the arm has more events, and the p of that by all flips.
FOUND_AT = {(7, 0): 2 / 2**7, (8, 0): 2 / 2**8, (9, 1): 20 / 2**9, (8, 1): 18 / 2**8}


def events_with(differing: int, worse: int) -> dict[str, list[float]]:
    """Events of both arms in twenty blocks."""
    control = [10.0] * worse + [20.0] * (differing - worse) + [15.0] * (20 - differing)
    return {"control": control, "case": [30 - events for events in control]}


@pytest.mark.parametrize(
    "blocks, alpha, comparisons, verdict",
    [
        ((9, 1), 0.05, 1, "better"),
        ((8, 1), 0.05, 1, "inconclusive"),
        ((8, 0), 0.05, 2, "better"),
        ((9, 1), 0.05, 2, "inconclusive"),
        ((8, 0), 0.01, 1, "better"),
        ((7, 0), 0.01, 1, "inconclusive"),
    ],
)
@pytest.mark.parametrize("role", ["primary", "secondary"])
def test_a_counter_is_judged_at_its_share_of_alpha(
    role: Role, blocks: tuple[int, int], alpha: float, comparisons: int, verdict: str
) -> None:
    """Twice its share would find what it does not find; its interval says the same as its verdict."""
    names = ("case", "same")[:comparisons]
    rules = {RATE: replace(COUNTS, role=role, margin=0.05)}
    events = events_with(*blocks)
    scores = {RATE: {arm: events.get(arm, events["control"]) for arm in ("control", *names)}}
    if role == "secondary":
        rules = outcomes(**rules)
        scores[TIME] = {arm: [0.01 * block for block in range(20)] for arm in scores[RATE]}
    fixed = protocol(names, outcomes=rules, alpha=alpha)
    found = judge(log_of(fixed, scores)).of(RATE, "case", "control")
    share = alpha / comparisons
    assert found.counter is not None
    assert found.counter.p == pytest.approx(FOUND_AT[blocks], rel=0.1)
    assert (verdict == "better") == (found.counter.p <= share)
    assert found.counter.p < 2 * share
    assert found.verdict == verdict
    assert found.effect is not None
    assert found.effect.confidence == pytest.approx(1 - share)
    assert found.effect.excludes_zero == (verdict == "better")


def test_a_counter_without_any_event_is_equivalent_with_a_bound() -> None:
    found = counted([0.0] * 20, [0.0] * 20)
    assert found.verdict == "equivalent"
    assert found.counter is not None
    assert found.counter.bound == pytest.approx(3 / 20)


def test_an_arm_that_ends_all_events_is_better_with_a_difference_for_effect() -> None:
    found = counted([5.0, 7.0] * 10, [0.0] * 20)
    assert found.verdict == "better"
    assert found.effect is not None
    assert (found.effect.scale, found.effect.estimate) == ("difference", 6)
    assert found.effect.low is not None
    assert found.effect.low > 0


def test_a_counter_as_secondary_waits_for_all_blocks() -> None:
    rules = {RATE: OutcomeRule(direction="lower", role="secondary", scale="count")}
    early = judge(
        log_of(
            protocol(outcomes=outcomes(**rules)),
            {TIME: {"control": [0.0] * 7, "case": noise(7, mean=0.1)}, RATE: {"control": [9.0] * 7, "case": [0.0] * 7}},
        )
    )
    waiting = early.of(RATE, "case", "control")
    assert (waiting.verdict, waiting.why) == ("inconclusive", "ended")
    whole = judge(
        log_of(
            protocol(outcomes=outcomes(**rules), until_all_decided=True),
            {
                TIME: {"control": [0.0] * 20, "case": noise(20, mean=0.1)},
                RATE: {"control": [9.0] * 20, "case": [0.0] * 20},
            },
        )
    )
    assert whole.of(RATE, "case", "control").verdict == "better"


def with_events(quantile: float | None, counts: Callable[[int], int]) -> list[Event]:
    """A trial that surely finds a difference; `counts` gives the events of each run by its number."""
    rule = replace(PRIMARY, quantile=quantile)
    log = pair_log(protocol(outcomes={TIME: rule}), noise(7, mean=0.1))
    return [replace(event, events={TIME: counts(event.run)}) if isinstance(event, RunEnded) else event for event in log]


def test_a_percentile_on_few_events_decides_nothing() -> None:
    """p99: at least 1,000 events a run (section 6)."""
    for quantile, events, verdict in (
        (0.99, 999, None),
        (0.99, 1000, "better"),
        (0.999, 9999, None),
        (None, 1, "better"),
    ):
        found = judge(with_events(quantile, lambda run, events=events: events))  # type: ignore[misc]
        (primary,) = found.judged
        assert (primary.verdict, primary.why == "few-events") == (verdict or "inconclusive", verdict is None)
        assert ("few-events" in kinds(found)) == (verdict is None)
        assert found.next.action == "stop"
        assert verdict is not None or primary.needed is None, "more blocks would not help"
    (told,) = [one for one in judge(with_events(0.99, lambda run: 500)).findings if one.kind == "few-events"]
    told_why = "500 events in a run, 1,000 are needed"
    assert told.sentence == f"{TIME}: too few events for this percentile ({told_why}); make runs 2 times as long"
    assert told.values == {"events": 500.0, "needed": 1000.0}


def test_one_run_of_few_events_is_a_doubt_only() -> None:
    found = judge(with_events(0.99, lambda run: 990 if run == 3 else 2000))
    assert [one.verdict for one in found.judged] == ["better"]
    assert [one.level for one in found.findings if one.kind == "few-events"] == ["suspect"]


def test_each_block_in_which_an_arm_was_drawn_is_a_visit() -> None:
    assert collect(pair_log(protocol(), [0.01, 0.02, 0.03])).visits == {"control": 3, "case": 3}


def test_the_arm_with_fewest_events_tells_whether_a_percentile_decides() -> None:
    log = with_events(0.99, lambda run: 2000)
    slower = [
        replace(event, events={TIME: 900}) if isinstance(event, RunEnded) and event.arm == "case" else event
        for event in log
    ]
    assert [one.verdict for one in judge(log).judged] == ["better"]
    assert [one.why for one in judge(slower).judged] == ["few-events"]


def test_few_events_of_a_third_arm_do_not_keep_two_others_from_a_decision() -> None:
    rule = replace(PRIMARY, quantile=0.99)
    log = [
        replace(event, events={TIME: 900 if event.arm == "slow" else 2000}) if isinstance(event, RunEnded) else event
        for event in arms_log(
            protocol(("case", "slow"), outcomes={TIME: rule}), {"control": 0.0, "case": 0.2, "slow": 0.2}, 9
        )
    ]
    said = judge(log)
    assert (said.of(TIME, "case", "control").verdict, said.of(TIME, "case", "control").why) == ("better", "boundary")
    assert said.of(TIME, "slow", "control").why == "few-events"


def test_carry_over_and_noise_are_told_with_the_verdict() -> None:
    generator = np.random.default_rng(5)
    fixed = protocol(cap=60, profile={TIME: tuple(generator.normal(0, 0.0005, 12).tolist())}, pooled=True)
    log: list[Event] = [fixed]
    before = 0.0
    for block in range(1, 61):
        order = block_order(7, block, ("control", "case"))
        log.append(BlockDrawn(block=block, order=order))
        for arm in order:
            state = 0.15 * (arm == "case")
            score = 0.5 * state + 0.5 * before + generator.normal(0, 0.005)
            before = state
            log.append(RunEnded(run=block, block=block, arm=arm, measurements={TIME: float(np.exp(-score))}))
    assert {"carry-over", "noise"} <= kinds(judge(log))
    assert judge(log).judged[0].verdict == "better"
    log[0] = replace(fixed, replicate="boot")
    assert {"carry-over", "noise"} & kinds(judge(log)) == {"noise"}, "nothing of an arm lasts over a boot"


@pytest.mark.parametrize(
    "event",
    [
        RunEnded(run=1, block=5, arm="case"),
        RunEnded(run=1, block=1, arm="nobody"),
        BlockDrawn(block=1, order=("case", "control")),
        BlockDrawn(block=9, order=("case", "nobody")),
        BlockVoided(block=9, arm="case", cause="reading", reason=""),
        ReadingsTaken(block=9, arm="case", readings={}),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(event: Event) -> None:
    with pytest.raises(BadInput):
        judge([*pair_log(protocol(), noise(2)), event])
    with pytest.raises(BadInput, match="has no protocol"):
        judge([])


def test_warm_ups_do_not_count() -> None:
    log = pair_log(protocol(), noise(7, mean=0.1))
    warm = RunEnded(run=0, block=None, arm="control", measurements={TIME: 99.0})
    assert only([log[0], warm, *log[1:]]) == only(log)
