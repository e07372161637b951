# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from msgspec.structs import replace

from ktrial.judge.audit import audit
from ktrial.judge.model.log import BlockDrawn, Event, Looked, RunEnded, block_order
from tests.support.trials import TIME, pair_log, protocol

DIFFERENCES = [0.10, 0.12, 0.09, 0.11, 0.13, 0.08, 0.10]


def whole() -> list[Event]:
    log = pair_log(protocol(), DIFFERENCES)
    return [
        *log[:4],
        Looked(blocks=1, verdicts={"case:control": None}),
        *log[4:],
        Looked(blocks=7, verdicts={"case:control": "better"}),
    ]


def test_an_honest_log_holds() -> None:
    assert audit(whole()) == ()


def test_a_changed_order_is_named() -> None:
    log = [
        replace(event, order=event.order[::-1]) if isinstance(event, BlockDrawn) and event.block == 3 else event
        for event in whole()
    ]
    assert [(one.kind, one.level) for one in audit(log)] == [("order-not-drawn", "refuse")]
    assert audit(log)[0].sentence.startswith("block 3 ran ")


def test_a_changed_seed_convicts_the_orders() -> None:
    log = whole()
    log[0] = protocol(seed=8)
    assert {one.kind for one in audit(log)} == {"order-not-drawn"}


def test_a_changed_verdict_or_run_is_named() -> None:
    log = whole()
    log[-1] = Looked(blocks=7, verdicts={"case:control": "equivalent"})
    assert [one.sentence for one in audit(log)] == [
        "recorded after 7 blocks case:control equivalent; the runs before it give after 7 blocks case:control better"
    ]
    slower = [
        replace(event, measurements={TIME: 9.0})
        if isinstance(event, RunEnded) and (event.block, event.arm) == (5, "case")
        else event
        for event in whole()
    ]
    assert [one.kind for one in audit(slower)] == ["look-differs"]


def test_an_arm_that_was_dropped_is_not_part_of_later_draws() -> None:
    fixed = protocol(("a", "b"))
    log: list[Event] = [fixed]
    log.append(BlockDrawn(block=1, order=block_order(7, 1, ("control", "a", "b"))))
    log.append(BlockDrawn(block=2, order=block_order(7, 2, ("control", "b"))))
    assert audit(log) == ()
