# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ktrial.judge.audit import audit
from ktrial.judge.judge import judge, refuse_unanswerable
from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Event,
    Looked,
    OutcomeRule,
    Protocol,
    Race,
    RunEnded,
    TrialEnd,
    block_order,
)
from ktrial.judge.outlook import deciding_blocks, expected_stop
from ktrial.kit.errors import BadInput, UnknownName
from tests.support.trials import TIME, protocol, value_of

RIVALS = ("a", "b", "c", "d")
GAINS = {"control": 0.0, "held": 0.02, "a": 0.05, "b": -0.03, "c": 0.01, "d": 0.04}


def race(*, cap: int = 3, keep: float = 0.5, stay: Sequence[str] = ("held",), **changes: object) -> Protocol:
    return protocol(("held", *RIVALS), cap=cap, race=Race(keep=keep, stay=tuple(stay)), **changes)


def carried_out(fixed: Protocol, gains: Mapping[str, float] = GAINS, fails: Sequence[str] = ()) -> list[Event]:
    """A race to its end, with looks, in which each arm has its own score in all blocks."""
    rule = fixed.outcomes[TIME]
    log: list[Event] = [fixed]
    run = 0
    while (step := judge(log).next).action != "stop":
        assert step.block is not None
        order = block_order(fixed.seed, step.block, step.arms)
        log.append(BlockDrawn(block=step.block, order=order))
        for arm in order:
            run += 1
            good = {TIME: value_of(0.3 * step.block + gains[arm], rule)}
            failed = arm in fails
            log.append(
                RunEnded(
                    run=run,
                    block=step.block,
                    arm=arm,
                    measurements={} if failed else good,
                    failure="it crashed" if failed else None,
                )
            )
        found = judge(log)
        log.append(Looked(blocks=found.blocks, verdicts=found.primary_verdicts))
    return [*log, TrialEnd(reason=step.reason)]


def orders(log: Sequence[Event]) -> list[set[str]]:
    return [set(event.order) for event in log if isinstance(event, BlockDrawn)]


def test_the_best_share_stays_after_each_block_beside_the_control_and_those_that_stay() -> None:
    log = carried_out(race())
    assert orders(log) == [{"control", "held", *RIVALS}, {"control", "held", "a", "d"}, {"control", "held", "a"}]
    found = judge(log)
    assert found.next.reason == "the race is over"
    assert found.dropped == ("b", "c", "d")


def test_a_race_gives_estimates_without_intervals_and_never_a_verdict_that_claims_something() -> None:
    for gains in (GAINS, {**GAINS, "a": 3.0}):
        found = judge(carried_out(race(), gains))
        assert {one.verdict for one in found.judged} == {"inconclusive"}
        (best,) = (one for one in found.judged if one.arm == "a")
        assert best.effect is not None
        assert best.effect.estimate == pytest.approx(gains["a"])
        assert (best.effect.low, best.effect.high) == (None, None)


def test_an_arm_without_a_value_is_out_and_a_race_without_challengers_ends() -> None:
    log = carried_out(race(), fails=("a",))
    assert orders(log)[1] == {"control", "held", "d", "c"}
    every = carried_out(race(), fails=RIVALS)
    assert orders(every) == [{"control", "held", *RIVALS}]
    assert judge(every[:-1]).next.reason == "no challenger is left"


def test_a_block_without_the_control_drops_nobody() -> None:
    assert orders(carried_out(race(), fails=("control",))) == [{"control", "held", *RIVALS}] * 3


def test_void_blocks_are_made_again_but_not_for_ever() -> None:
    fixed = race(cap=2)
    log: list[Event] = [fixed]
    for block in range(1, 5):
        step = judge(log).next
        assert (step.action, step.block) == ("go on", block)
        order = block_order(fixed.seed, block, step.arms)
        log += [
            BlockDrawn(block=block, order=order),
            BlockVoided(block=block, arm=order[0], cause="reading", reason="hot"),
        ]
    assert judge(log).next.reason == "4 of 4 blocks are void"


def test_a_begun_block_is_finished_first() -> None:
    fixed = race()
    step = judge([fixed]).next
    order = block_order(fixed.seed, 1, step.arms)
    first = RunEnded(run=1, block=1, arm=order[0], measurements={TIME: 1.0})
    again = judge([fixed, BlockDrawn(block=1, order=order), first]).next
    assert (again.drawn, again.arms) == (True, order[1:])


def test_the_log_of_a_race_can_be_audited() -> None:
    log = carried_out(race())
    assert audit(log) == ()
    place = next(at for at, one in enumerate(log) if isinstance(one, Looked))
    assert audit([*log[:place], Looked(blocks=1, verdicts={"a:control": "better"}), *log[place + 1 :]])


def test_a_counter_may_race_although_a_trial_of_it_needs_twenty_blocks() -> None:
    fixed = race(outcomes={TIME: OutcomeRule(direction="lower", role="primary", scale="count")})
    refuse_unanswerable(fixed)
    log = carried_out(fixed, {name: 100 - 100 * gain for name, gain in GAINS.items()})
    assert orders(log)[-1] == {"control", "held", "a"}


def test_no_block_of_a_race_decides() -> None:
    fixed = race()
    log = carried_out(fixed)
    assert deciding_blocks(fixed, 3) == frozenset()
    assert expected_stop(fixed, judge(log[:8])) in {None, 3}


@pytest.mark.parametrize(
    "changes,error",
    [({"cap": 0}, BadInput), ({"cap": 10}, BadInput), ({"keep": 0.0}, BadInput), ({"stay": ("x",)}, UnknownName)],
)
def test_an_impossible_race_is_refused(changes: dict[str, object], error: type[BadInput]) -> None:
    with pytest.raises(error):
        refuse_unanswerable(race(**changes))  # type: ignore[arg-type]
