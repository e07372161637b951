# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]

from ktrial.judge.audit import audit
from ktrial.judge.judge import judge
from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Event,
    OutcomeRule,
    Protocol,
    RunEnded,
    Screen,
    TrialArm,
    TrialEnd,
    block_order,
)
from ktrial.judge.screening import FIRST_LOOK, arm_of, configuration, on_in
from ktrial.judge.screening_judge import screened_arms
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import ANOTHER
from tests.support.trials import RATE, TIME, value_of

SETTINGS = ("a", "b", "c", "d", "e", "f")


def protocol(**changes: object) -> Protocol:
    names = screened_arms(len(SETTINGS), 7, 72)
    fields: dict[str, object] = {
        "name": "test",
        "arms": tuple(TrialArm(name=name) for name in ("control", *names)),
        "control": "control",
        "outcomes": {
            TIME: OutcomeRule(direction="lower", role="primary"),
            RATE: OutcomeRule(direction="higher", role="secondary"),
        },
        "cap": 72,
        "seed": 7,
        "screen": Screen(settings=SETTINGS, known="worse"),
    }
    return msgspec.convert({**fields, **changes}, Protocol)


def carried_out(
    fixed: Protocol,
    *,
    fails: str | None = None,
    crashed: Sequence[int] = (),
    sd: float = 0.02,
    blocks: int = 200,
    culprit: str = "c",
    noise: int = 3,
) -> list[Event]:
    rng = np.random.default_rng(noise)
    log: list[Event] = [fixed]
    run = 0
    while (step := judge(log).next).action != "stop" and step.block is not None and step.block <= blocks:
        order = block_order(fixed.seed, step.block, step.arms)
        log.append(BlockDrawn(block=step.block, order=order))
        for arm in order:
            run += 1
            on = {SETTINGS[place] for place in on_in(arm, len(SETTINGS))}
            score = -0.1 * (culprit in on) + rng.normal(0, sd)
            measured = {name: value_of(score, rule) for name, rule in fixed.outcomes.items()}
            failure = "it crashed" if fails in on or (step.block in crashed and arm == order[0]) else None
            log.append(
                RunEnded(run=run, block=step.block, arm=arm, measurements={} if failure else measured, failure=failure)
            )
    return log


def test_the_culprit_is_suspected_at_the_first_look_and_the_trial_ends() -> None:
    log = carried_out(protocol())
    found = judge(log)
    assert (found.blocks, found.next.action) == (12, "stop")
    primary, secondary = sorted(found.screened, key=lambda one: one.role)
    assert [one.setting for one in primary.named] == ["c"]
    assert primary.named[0].effect == pytest.approx(-0.1, abs=0.03)
    assert primary.named[0].high < 0
    assert [one.setting for one in secondary.named] == ["c"]
    assert audit(log) == ()


def least_squares(log: list[Event]) -> Any:
    """The scores of all blocks on the culprit and the fifth setting, by statsmodels."""
    runs: dict[int, dict[str, float]] = {}
    for event in log:
        if isinstance(event, RunEnded) and event.block is not None:
            runs.setdefault(event.block, {})[event.arm] = -np.log(event.measurements[TIME])
    signs = np.array([configuration(6, 7, block) for block in runs]).astype(float)
    score = [
        visits[arm_of(row.astype(np.int8))] - visits[arm_of(-row.astype(np.int8))]
        for row, visits in zip(signs, runs.values(), strict=True)
    ]
    return OLS(score, signs[:, [2, 4]]).fit()


def test_coefficients_and_intervals_are_those_of_least_squares() -> None:
    log = carried_out(protocol())
    found = judge(log).screened[0].coefficients
    fitted = least_squares(log)
    low, high = fitted.conf_int(alpha=2 * 0.02 / 6)[1]
    assert (found[4].effect, found[4].low, found[4].high) == pytest.approx((fitted.params[1], low, high))


@pytest.mark.parametrize("count", [1, 2])
def test_outcomes_beside_the_primary_one_share_the_error_among_them(count: int) -> None:
    beside = {f"tool.beside{place}": OutcomeRule(direction="higher", role="secondary") for place in range(count)}
    log = carried_out(protocol(outcomes={TIME: OutcomeRule(direction="lower", role="primary"), **beside}))
    low, high = least_squares(log).conf_int(alpha=0.02 / 6 / count)[1]
    for one in judge(log).screened[1:]:
        assert (one.coefficients[4].low, one.coefficients[4].high) == pytest.approx((low, high))


def test_a_setting_that_makes_runs_fail_is_told() -> None:
    found = judge(carried_out(protocol(), fails="e"))
    assert found.next.action == "stop"
    assert "6 of 6 blocks have a failed run" in found.next.reason
    (finding,) = found.findings
    assert (finding.kind, finding.level) == ("fails-with", "suspect")
    assert "all of them, and no other runs, have e on" in finding.sentence


def test_settings_that_do_not_hold_and_tools_that_measure_something_else_are_told() -> None:
    log = carried_out(protocol(), blocks=4)
    voids = [
        BlockVoided(
            block=one.block,
            arm=one.order[0],
            cause="reading" if one.block == 2 else "knob",
            reason=f"{one.block} went wrong",
        )
        for one in log
        if isinstance(one, BlockDrawn) and one.block < 4
    ]
    (finding,) = judge([*log, *voids]).findings
    assert finding.sentence == "settings changed in 2 blocks (limit 1), the last: 3 went wrong"
    assert judge([*log, *voids[:2]]).findings == ()
    wrong = msgspec.structs.replace(log[-1], measurements={}, failure=f"tool: {ANOTHER}: asked for 4 threads")
    refused = judge([*log[:-1], wrong])
    (finding,) = refused.findings
    assert (finding.kind, finding.level) == ("identity", "refuse")
    assert finding.sentence.endswith(": asked for 4 threads")
    assert (refused.next.action, refused.next.reason) == ("stop", finding.sentence)


def test_a_block_with_a_run_that_failed_is_made_up_for() -> None:
    found = judge(carried_out(protocol(), crashed=[3]))
    assert (found.blocks, found.screened[0].blocks, found.next.reason) == (13, 12, "suspects are found")
    capped = judge(carried_out(protocol(cap=16), culprit="nobody", noise=5, crashed=[3]))
    assert (capped.blocks, capped.next.reason) == (17, "the cap was reached")


def test_six_blocks_with_a_run_that_failed_end_it_where_they_are_half_of_all() -> None:
    half = judge(carried_out(protocol(), culprit="nobody", noise=5, crashed=range(7, 13)))
    assert half.next.reason == "6 of 12 blocks have a failed run"
    fewer = judge(carried_out(protocol(), culprit="nobody", noise=5, crashed=range(9, 15), blocks=14))
    assert fewer.next.action == "go on"


def test_void_blocks_are_made_up_for_up_to_half_of_the_cap() -> None:
    log: list[Event] = [protocol(cap=16)]
    for block in range(1, 25):
        step = judge(log).next
        assert (step.action, step.block) == ("go on", block)
        log.append(BlockDrawn(block=block, order=block_order(7, block, step.arms)))
        log.append(BlockVoided(block=block, arm=step.arms[0], cause="reading", reason="hot"))
    assert judge(log).next.reason == "the cap was reached"


def test_void_blocks_are_left_out_and_others_take_their_place() -> None:
    log = carried_out(protocol(), blocks=2)
    log.append(BlockVoided(block=2, arm=log[-1].arm, cause="reading", reason="hot"))  # type: ignore[union-attr]
    found = judge(log)
    assert (found.blocks, found.voided, found.next.block) == (1, 1, 3)


def test_a_block_that_has_begun_is_gone_on_with() -> None:
    log = carried_out(protocol(), blocks=3)[:-1]
    found = judge(log).next
    assert (found.block, found.drawn, len(found.arms)) == (3, True, 1)


def test_it_ends_at_the_cap_and_where_somebody_ended_it() -> None:
    log = carried_out(protocol(cap=16), culprit="nobody", noise=5)
    assert judge(log).next.reason == "the cap was reached"
    assert (judge(log).blocks, judge(log).comparisons) == (16, 0)
    assert judge([*log[:10], TrialEnd(reason="no time")]).next.reason == "no time"


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"cap": None}, "for a search for suspects, got None"),
        ({"cap": 73}, "for a search for suspects, got 73"),
        ({"screen": Screen(settings=("a",))}, "blame` needs at least two settings"),
        ({"seed": 8}, "the search for suspects lacks the arm"),
        ({"outcomes": {TIME: OutcomeRule(direction="lower", role="primary", scale="count")}}, "counter"),
    ],
)
def test_what_could_not_go_on_is_refused_before_the_start(changes: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        judge([protocol(**changes)])


def test_two_settings_and_the_smallest_cap_are_enough() -> None:
    settings = SETTINGS[:2]
    arms = tuple(TrialArm(name=name) for name in ("control", *screened_arms(len(settings), 7, FIRST_LOOK)))
    log = [protocol(arms=arms, cap=FIRST_LOOK, screen=Screen(settings=settings))]
    assert judge(log).next.action == "go on"
    with pytest.raises(BadInput, match=rf"cap: expected .* blocks for a search for suspects, got {FIRST_LOOK - 1}"):
        judge([protocol(cap=FIRST_LOOK - 1)])


def test_names_of_arms_tell_what_is_on() -> None:
    signs = configuration(6, 7, 1)
    assert on_in(arm_of(signs), 6) == tuple(np.flatnonzero(signs > 0))
    assert set(on_in(arm_of(-signs), 6)) == set(range(6)) - set(on_in(arm_of(signs), 6))
