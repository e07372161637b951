# SPDX-License-Identifier: Apache-2.0
"""What is read from the log of a demo."""

from __future__ import annotations

import math

import pytest

from ktrial.judge.judge import judge
from ktrial.judge.model.log import BlockVoided, OutcomeRule, TrialArm, TrialEnd
from ktrial.studies.demo.demo import found_in
from ktrial.studies.demo.model import COPIUM, HELP, HURT, PLACEBO
from tests.support.trials import RATE, log_of, protocol

BLOCKS = 16
FIXED = protocol(
    arms=tuple(TrialArm(name=name, placebo=name == PLACEBO) for name in ("control", PLACEBO, COPIUM, HELP, HURT)),
    outcomes={RATE: OutcomeRule(direction="higher", role="primary", margin=0.05)},
    cap=BLOCKS,
    alpha=0.01,
    until_all_decided=True,
)


def steps(size: float) -> list[float]:
    """As often up as down."""
    return [size if block % 2 else -size for block in range(BLOCKS)]


def test_single_pairs_are_counted_by_the_margin() -> None:
    """Placebo: 16 pairs 10 % apart; copium: 15 pairs 1 % apart and one 30 %: 17 of 32."""
    copium = [*steps(math.log(1.01))[:-1], math.log(1.3)]
    scores = {"control": [0.0] * BLOCKS, PLACEBO: steps(math.log(1.1)), COPIUM: copium}
    scores |= {HELP: [1.0] * BLOCKS, HURT: [-1.0] * BLOCKS}
    log = log_of(FIXED, {RATE: scores})
    found = found_in([*log, TrialEnd(reason="done")], judge(log))
    assert (found.single.pairs, found.single.apart) == (32, 17)
    assert found.single.share == pytest.approx(17 / 32)
    assert found.single.largest == pytest.approx(math.log(1.3))
    assert (found.margin, found.blocks, found.ended) == (0.05, BLOCKS, True)
    assert {one.arm: one.verdict for one in found.arms}[HELP] == "better"
    assert [one.as_expected for one in found.arms] == [True, True, True, True]


def test_a_claim_about_nothing_and_a_help_that_hurts_are_not_as_expected() -> None:
    scores = {"control": [0.0] * BLOCKS, PLACEBO: [0.2] * BLOCKS, COPIUM: steps(0.001)}
    scores |= {HELP: [-1.0] * BLOCKS, HURT: [-1.0] * BLOCKS}
    log = log_of(FIXED, {RATE: scores})
    found = found_in(log, judge(log))
    assert {one.arm: one.as_expected for one in found.arms} == {PLACEBO: False, COPIUM: True, HELP: False, HURT: True}
    assert not found.ended


def test_too_many_void_blocks_refuse_all_of_it() -> None:
    log = log_of(FIXED, {RATE: {arm.name: [0.0] * 8 for arm in FIXED.arms}})
    voids = [BlockVoided(block=block, arm=HELP, cause="knob", reason="it changed") for block in (2, 4, 6)]
    found = found_in([*log, *voids], judge([*log, *voids]))
    assert found.refused is not None
    assert {one.verdict for one in found.arms} == {"not comparable"}
    assert found_in(log, judge(log)).refused is None


def test_before_its_first_block_nothing_is_found() -> None:
    found = found_in([FIXED], judge([FIXED]))
    assert (found.single.pairs, found.single.share, found.blocks) == (0, 0.0, 0)
    assert {one.as_expected for one in found.arms} == {None}
