# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Event,
    Looked,
    OutcomeRule,
    ReadingsTaken,
    RunEnded,
    TrialArm,
    TrialEnd,
    block_order,
    check_protocol,
    decode,
    encode,
)
from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.machine.gates import GateLimits
from tests.support.trials import TIME, protocol

COUNT = OutcomeRule(direction="lower", role="primary", scale="count")
EVENTS: tuple[Event, ...] = (
    protocol(profile={TIME: (0.01, -0.02)}, gates={"steal": GateLimits(suspect=2)}, varies=("kernel",)),
    RunEnded(run=1, block=None, arm="control", measurements={TIME: 1.5}),
    BlockDrawn(block=1, order=("case", "control")),
    ReadingsTaken(block=1, arm="case", readings={"temperature_c": 40.5, "governor": "performance", "steal": None}),
    RunEnded(run=2, block=1, arm="case", failure="timed out", identity={"kernel": "6.12"}, events={TIME: 7}),
    BlockVoided(block=1, arm="control", cause="suspend", reason="slept for 3 s"),
    BlockDrawn(block=2, order=("control", "case"), repeats=1),
    Looked(blocks=7, verdicts={"case:control": None}),
    TrialEnd(reason="stopped"),
)


def test_a_log_is_read_as_it_was_written() -> None:
    data = encode(EVENTS)
    assert data.count(b"\n") == len(EVENTS)
    assert data.startswith(b'{"event":"protocol","schema":"ktrial.trial-log/1",')
    assert decode(data, "log") == EVENTS


def test_a_log_that_grows_keeps_its_bytes() -> None:
    assert encode(EVENTS).startswith(encode(EVENTS[:5]))


@given(st.integers(0, len(encode(EVENTS))))
def test_a_log_that_was_cut_off_holds_what_was_whole(size: int) -> None:
    data = encode(EVENTS)[:size]
    whole = data.count(b"\n")
    if whole:
        assert decode(data, "log") == EVENTS[:whole]
    else:
        with pytest.raises(BadInput, match="is empty"):
            decode(data, "log")


@pytest.mark.parametrize(
    "line,told",
    [
        (b"{}", "log:3: cannot read an event of a trial"),
        (b'{"event": "dance"}', "log:3: cannot read an event of a trial"),
        (
            b'{"event": "run", "run": "x", "block": 1, "arm": "case"}',
            r"log:3: cannot read an event of a trial: .*\$\.run",
        ),
        (b"\xff", "log:3: cannot read an event of a trial"),
        (encode(EVENTS[:1]).strip(), "log:3: expected one protocol, as the first event"),
    ],
)
def test_a_bad_line_is_named(line: bytes, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        decode(encode(EVENTS[:2]) + line + b"\n", "log")


def test_a_log_begins_with_its_protocol() -> None:
    with pytest.raises(BadInput, match="log:1: expected one protocol, as the first"):
        decode(encode(EVENTS[1:]), "log")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_log_or_a_clear_error(data: bytes) -> None:
    with pytest.raises(KtrialError):
        decode(data, "log")


def test_orders_are_reproduced_from_seed_and_number() -> None:
    arms = ("control", "a", "b")
    first = [block_order(7, block, arms) for block in range(1, 21)]
    assert [block_order(7, block, arms) for block in range(1, 21)] == first
    assert [block_order(8, block, arms) for block in range(1, 21)] != first
    # Pinned: logs of old trials must be drawn the same by every later version.
    assert first[:4] == [tuple(order.split()) for order in PINNED]


PINNED: tuple[str, ...] = ("control b a", "b a control", "control a b", "b a control")


def test_every_order_is_as_likely_and_blocks_are_independent() -> None:
    arms = ("control", "a", "b")
    orders = [block_order(3, block, arms) for block in range(6000)]
    counts = Counter(orders)
    # Six orders of about 1,000 each: 4.5 sd is 130.
    assert set(counts) == set(permutations(arms))
    assert all(abs(count - 1000) < 130 for count in counts.values())
    same = sum(one == other for one, other in pairwise(orders))
    assert abs(same - 1000) < 130
    assert abs(sum(block_order(seed, 1, arms) == arms for seed in range(3000)) - 500) < 95


def test_comparisons_do_not_count_placebos() -> None:
    again = TrialArm(name="again", placebo=True)
    fixed = protocol(arms=(TrialArm(name="control"), TrialArm(name="a"), again, TrialArm(name="b")))
    assert fixed.comparisons == 2
    assert fixed.contrasts == (("a", "control"), ("b", "control"), ("again", "control"))
    alone = protocol(arms=(TrialArm(name="control"), again))
    assert (alone.comparisons, alone.contrasts) == (1, (("again", "control"),))


def test_a_ladder_asks_each_tier_twice() -> None:
    fixed = protocol(("one", "two", "three"), questions="ladder")
    assert fixed.contrasts == (
        ("one", "control"),
        ("two", "control"),
        ("three", "control"),
        ("two", "one"),
        ("three", "two"),
    )
    assert fixed.comparisons == 5


@pytest.mark.parametrize(
    "changes,told",
    [
        ({"control": "contrl"}, "unknown arm: 'contrl'"),
        ({"arms": (TrialArm(name="control"),)}, "two arms"),
        ({"arms": (TrialArm(name="control"), TrialArm(name="control"))}, "two arms have the same name, control"),
        ({"outcomes": {}}, "expected one primary outcome"),
        ({"outcomes": {TIME: COUNT, "b": COUNT}, "cap": 20}, "expected one primary outcome"),
        ({"outcomes": {TIME: OutcomeRule(direction="lower", role="primary", margin=-0.1)}}, "margin of tool.time"),
        ({"outcomes": {TIME: OutcomeRule(direction="lower", role="primary", margin=float("nan"))}}, "margin"),
        ({"detect": 0.0}, "detect: expected a value above 0, got 0"),
        ({"outcomes": {TIME: COUNT}, "cap": 12}, "needs at least 20 blocks"),
        ({"outcomes": {TIME: COUNT}, "cap": None}, "needs at least 20 blocks"),
        ({"outcomes": {TIME: COUNT}, "extend": True}, "counters are judged once"),
    ],
)
def test_a_protocol_that_says_nothing_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        check_protocol(protocol(**changes))


def test_a_mistyped_control_is_told_the_nearest() -> None:
    with pytest.raises(UnknownName) as raised:
        check_protocol(protocol(control="contrl"))
    assert raised.value.hint == "did you mean control?"
