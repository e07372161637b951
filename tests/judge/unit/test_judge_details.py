# SPDX-License-Identifier: Apache-2.0
"""What the judge says beside the verdict of the primary outcome, and when it says that a trial is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ktrial.judge.judge import judge
from ktrial.judge.model.judgement import Judgement, OutcomeJudgement
from ktrial.judge.model.log import BlockDrawn, BlockVoided, Event, Extended, OutcomeRule, RunEnded, TrialArm, TrialEnd
from ktrial.kit.errors import BadInput
from ktrial.kit.finding import Finding
from tests.support.trials import TIME, log_of, pair_log, protocol

PRIMARY = OutcomeRule(direction="lower", role="primary")
SECONDARY = OutcomeRule(direction="higher", role="secondary")
GUARD = OutcomeRule(direction="higher", role="guard", margin=0.05)
COUNTED = OutcomeRule(direction="lower", role="primary", scale="count")
#: Of the primary outcome: found at the first look, and open until the cap.
FOUND, OPEN = 0.1, 0.0


def noise(blocks: int, sd: float = 0.01, seed: int = 1, mean: float = 0.0) -> list[float]:
    values: list[float] = np.random.default_rng(seed).normal(mean, sd, blocks).tolist()
    return values


def with_effects(
    rules: Mapping[str, OutcomeRule], effects: Mapping[str, Sequence[float]], **fields: Any
) -> list[Event]:
    """A trial whose arm has these scores in each outcome, against a control of zeros."""
    zeros = [0.0] * len(effects[TIME])
    scores = {name: {"control": zeros, "case": list(values)} for name, values in effects.items()}
    return log_of(protocol(outcomes={TIME: PRIMARY, **rules}, **fields), scores)


def only(log: Sequence[Event], outcome: str = TIME) -> OutcomeJudgement:
    return judge(log).of(outcome, "case", "control")


def of_kind(said: Judgement, kind: str) -> list[Finding]:
    every = chain(said.findings, *(one.findings for one in said.judged))
    return [one for one in every if one.kind == kind]


def failed(log: Sequence[Event], arm: str, blocks: Sequence[int]) -> list[Event]:
    return [
        replace(event, measurements={}, failure="crashed")
        if isinstance(event, RunEnded) and event.arm == arm and event.block in blocks
        else event
        for event in log
    ]


def without(log: Sequence[Event], outcome: str, block: int) -> list[Event]:
    """A log in which a run of the arm gave no value of one outcome."""
    return [
        replace(event, measurements={name: value for name, value in event.measurements.items() if name != outcome})
        if isinstance(event, RunEnded) and (event.arm, event.block) == ("case", block)
        else event
        for event in log
    ]


# Before the first block


def test_guards_count_for_a_cap_that_is_not_planned_yet() -> None:
    guards = {f"g.{number}": GUARD for number in range(4)}
    with pytest.raises(BadInput, match="cannot decide 4 comparisons"):
        judge([protocol(outcomes={TIME: PRIMARY, **guards}, cap=None, budget=7)])


def test_a_planned_cap_is_no_larger_than_its_questions_need() -> None:
    """One question at 0.025 has a look at seven blocks; two would have none."""
    assert judge(pair_log(protocol(cap=None, budget=60, alpha=0.025), noise(7, 0.001))).cap == 7


# Values that have no score


@pytest.mark.parametrize(
    "rule, wrong, sentence",
    [
        (
            PRIMARY,
            0.0,
            "values that are zero, negative or not finite: declare it as a counter, or choose another outcome",
        ),
        (COUNTED, -1.0, "values that are negative or not finite"),
    ],
)
def test_what_is_wrong_with_values_is_said_for_their_scale(rule: OutcomeRule, wrong: float, sentence: str) -> None:
    log = log_of(protocol(outcomes={TIME: rule}), {TIME: {"control": [1.0] * 7, "case": [1.0] * 7}})
    spoiled = [
        replace(event, measurements={TIME: wrong}) if isinstance(event, RunEnded) and event.block == 2 else event
        for event in log
    ]
    found = only(spoiled)
    assert (found.verdict, found.why, found.blocks) == ("not comparable", "check", 7)
    assert found.findings == (Finding(kind="no-scale", level="refuse", sentence=f"{TIME} has {sentence}"),)


# Counters


@pytest.mark.parametrize("events", [[5.0, 50.0] * 10, [5.0] * 20])
def test_a_counter_has_neither_e_values_nor_blocks_that_it_needs(events: list[float]) -> None:
    found = only(log_of(protocol(outcomes={TIME: COUNTED}), {TIME: {"control": events, "case": events[::-1]}}))
    assert found.verdict is not None
    assert (found.e_values, found.needed) == (None, None)


@pytest.mark.parametrize(
    "case, verdict, why",
    [([0.01] * 20, "better", "counter"), ([0.03] * 20, "worse", "counter"), ([0.01, 0.03] * 10, "inconclusive", "cap")],
)
def test_counts_below_one_are_told_apart_as_well(case: list[float], verdict: str, why: str) -> None:
    found = only(log_of(protocol(outcomes={TIME: COUNTED}), {TIME: {"control": [0.02] * 20, "case": case}}))
    assert (found.verdict, found.why) == (verdict, why)


def test_a_counter_is_looked_at_when_all_its_blocks_are_there() -> None:
    log = log_of(protocol(outcomes={TIME: COUNTED}), {TIME: {"control": [9.0] * 3, "case": [8.0] * 3}})
    assert judge(log).next.look == 20


# Looks and repeated blocks


@pytest.mark.parametrize("blocks", [7, 8])
def test_the_next_look_lies_ahead(blocks: int) -> None:
    looked = [judge(pair_log(protocol(), noise(done, 0.2))).next.look for done in (6, blocks)]
    assert looked[0] == 7
    assert looked[1] is not None
    assert looked[1] > blocks


def test_blocks_are_not_repeated_once_as_many_are_valid_as_the_cap() -> None:
    """A block without a value keeps the trial open, but it is not void."""
    log: list[Event] = failed(pair_log(protocol(cap=7), noise(8, 0.05)), "case", [3])
    log.append(BlockVoided(block=1, arm="case", cause="reading", reason="too hot"))
    said = judge(log)
    assert said.judged[0].verdict is None
    assert (said.next.action, said.next.reason) == ("go on", "no verdict yet")


def test_voids_before_a_cap_is_planned_are_held_against_the_budget() -> None:
    log: list[Event] = pair_log(protocol(cap=None, budget=60), noise(3))
    log.append(BlockVoided(block=1, arm="case", cause="reading", reason="too hot"))
    log.append(BlockVoided(block=2, arm="control", cause="reading", reason="too hot"))
    assert of_kind(judge(log), "voids") == []
    assert judge(log).next.action == "go on"


@pytest.mark.parametrize("cap, why", [(16, "futility"), (12, "cap")])
def test_an_extension_opens_again_what_the_tables_gave_up(cap: int, why: str) -> None:
    log: list[Event] = pair_log(protocol(cap=cap, extend=True), noise(12, 0.2, 2))
    given_up = only(log)
    assert (given_up.verdict, given_up.why) == ("inconclusive", why)
    found = only([*log, TrialEnd(reason="the cap"), Extended(blocks=20)])
    assert (found.verdict, found.why) == (None, "open")


# Outcomes beside the primary one


def test_a_secondary_is_open_as_long_as_the_primary_outcome() -> None:
    log = with_effects({"s.a": SECONDARY}, {TIME: noise(5), "s.a": noise(5, 0.3, 2)})
    assert (only(log, "s.a").verdict, only(log, "s.a").why) == (None, "open")


def test_a_secondary_that_lacks_a_value_is_over_with_the_cap() -> None:
    log = with_effects(
        {"s.a": SECONDARY}, {TIME: noise(20, mean=FOUND), "s.a": noise(20, 0.3, 2)}, until_all_decided=True
    )
    log = without(log, "s.a", 4)
    early, late = only(log[: -len(log) // 20], "s.a"), only(log, "s.a")
    assert (early.verdict, early.why) == (None, "open")
    assert (late.verdict, late.why, late.blocks) == ("inconclusive", "ended", 19)
    assert judge(log).next.action == "stop"


def test_without_a_cap_a_secondary_says_nothing_until_the_primary_outcome_is_decided() -> None:
    effects = {TIME: noise(6, mean=FOUND), "s.a": noise(6, 0.3, 2)}
    log = with_effects({"s.a": SECONDARY}, effects, cap=None, budget=60)
    open_one, over = only(log, "s.a"), only(failed(log, "case", range(1, 7)), "s.a")
    assert (open_one.verdict, open_one.why, open_one.blocks, open_one.effect) == (None, "open", 0, None)
    assert (over.verdict, over.why, over.blocks, over.effect) == ("inconclusive", "ended", 0, None)


@pytest.mark.parametrize("scale, allowed", [("log", "5 %"), ("count", "0.05")])
def test_only_a_broken_guard_is_a_finding(scale: str, allowed: str) -> None:
    rule = replace(GUARD, scale=scale)
    control, worse = ([0.0] * 20, [-0.3] * 20) if scale == "log" else ([20.0] * 20, [9.0] * 20)
    log = log_of(
        protocol(outcomes={TIME: PRIMARY, "g.broken": rule, "g.kept": rule}, until_all_decided=True),
        {
            TIME: {"control": [0.0] * 20, "case": noise(20, mean=FOUND)},
            "g.broken": {"control": control, "case": worse},
            "g.kept": {"control": control, "case": control},
        },
    )
    sentence = f"case is worse in g.broken by more than the allowed {allowed}"
    assert only(log, "g.broken").findings == (Finding(kind="guard-broken", level="suspect", sentence=sentence),)
    assert of_kind(judge(log), "guard-broken") == list(only(log, "g.broken").findings)


# What is left to decide


def test_an_arm_whose_primary_outcome_is_open_is_not_dropped() -> None:
    log = pair_log(protocol(until_all_decided=True), noise(7, 0.2))
    assert (only(log).verdict, judge(log).dropped) == (None, ())


def test_a_guard_that_holds_without_a_verdict_keeps_its_arm() -> None:
    """It is surely within its margin downwards; whether it is better is open."""
    log = with_effects(
        {"g.a": GUARD}, {TIME: noise(9, mean=FOUND), "g.a": noise(9, 0.04, 2, 0.03)}, until_all_decided=True
    )
    assert (only(log, "g.a").guard, only(log, "g.a").verdict) == ("holds", None)
    assert (judge(log).dropped, judge(log).next.action) == ((), "go on")


def test_a_guard_that_is_equivalent_and_open_keeps_its_arm_until_the_cap() -> None:
    """Its own verdict is there, but not whether it holds."""
    log = with_effects(
        {"g.a": GUARD}, {TIME: noise(20, mean=FOUND), "g.a": noise(20, 0.03, 2, -0.06)}, until_all_decided=True
    )
    early = log[: 1 + 3 * 19]
    assert (only(early, "g.a").guard, only(early, "g.a").verdict) == ("open", "worse")
    assert (judge(early).dropped, judge(early).next.action) == ((), "go on")
    assert only(log, "g.a").guard == "open"
    assert (judge(log).dropped, judge(log).next.action) == (("case",), "stop")


def test_an_arm_of_which_all_is_decided_is_dropped_before_the_cap() -> None:
    effects = {TIME: noise(12, mean=FOUND), "s.a": noise(12, 0.003, 2, 0.2), "g.a": noise(12, 0.002, 3, 0.01)}
    log = with_effects({"s.a": SECONDARY, "g.a": GUARD}, effects, until_all_decided=True)
    assert [(one.verdict, one.guard) for one in judge(log).judged] == [
        ("better", None),
        ("better", None),
        ("equivalent", "holds"),
    ]
    assert (judge(log).dropped, judge(log).next.action) == (("case",), "stop")


def test_what_is_never_asked_keeps_no_arm() -> None:
    """Without `until_all_decided` the trial ends with its primary outcome, whatever a guard says."""
    log = with_effects({"g.a": GUARD}, {TIME: noise(7, mean=FOUND), "g.a": noise(7, 0.2, 2)})
    assert only(log, "g.a").guard == "open"
    assert (judge(log).dropped, judge(log).next.action) == (("case",), "stop")


# Findings


@pytest.mark.parametrize("mean, verdict", [(0.1, "better"), (-0.1, "worse")])
def test_a_placebo_that_differs_convicts_the_set_up(mean: float, verdict: str) -> None:
    arms = (TrialArm(name="control"), TrialArm(name="case"), TrialArm(name="again", placebo=True))
    effects = {"control": 0.0, "case": 0.2, "again": mean}
    scores = {TIME: {arm: noise(7, 0.005, seed, effects[arm]) for seed, arm in enumerate(effects)}}
    (found,) = of_kind(judge(log_of(protocol(arms=arms), scores)), "placebo")
    assert found.level == "suspect"
    assert found.sentence == f"the placebo again is {verdict} than control in {TIME}, but changes nothing"
    assert of_kind(judge(pair_log(protocol(), noise(7, mean=mean))), "placebo") == []


@pytest.mark.parametrize("direction", ["lower", "higher"])
def test_two_modes_are_told_as_values_whichever_direction_is_better(direction: str) -> None:
    """Each second run of the arm takes e^1 times as long as the others do, or has as much more."""
    rule = replace(PRIMARY, direction=direction)
    log: list[Event] = [protocol(outcomes={TIME: rule}, cap=20)]
    control = noise(20, 0.02)
    for block, value in enumerate(control, 1):
        log.append(BlockDrawn(block=block, order=("control", "case")))
        far = 1.0 if block % 4 == 0 else 0.0
        for arm, logarithm in (("control", value), ("case", value + far)):
            log.append(RunEnded(run=block, block=block, arm=arm, measurements={TIME: float(np.exp(logarithm))}))
    (found,) = of_kind(judge(log), "two-modes")
    assert found.values == {"case": 0.75, "control": 1.0}
    assert "2.7" in found.sentence
