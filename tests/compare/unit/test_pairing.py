# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.compare.arms import Arm, ComparedRun
from ktrial.compare.pairing import FEWEST_BLOCKS, pair_sessions
from ktrial.kit.moment import WALL
from tests.support.arms import a_run, measured


def in_turns(order: Sequence[str], runs: int = 1) -> list[Arm]:
    """One session for each letter, with so many runs; the values are of no concern."""
    made: dict[str, list[ComparedRun]] = {}
    for at, name in enumerate(order):
        session = f"s{at:03}"
        for number in range(runs):
            clock = {WALL: float(10 * at + number)}
            run = a_run(f"{session}/{number}", measured(1.0), session=session, clocks=clock, boot="x")
            made.setdefault(name, []).append(run)
    return [Arm(name=name, sources=(), runs=tuple(some)) for name, some in sorted(made.items())]


def blocks(arms: Sequence[Arm]) -> dict[str, str | None]:
    return {run.name: run.block for arm in arms for run in arm.runs}


def test_sessions_in_turns_are_blocks_by_their_order_in_time() -> None:
    arms, finding = pair_sessions(in_turns("abbaababbaab", runs=2))
    told = blocks(arms)
    assert told["s000/0"] == told["s000/1"] == told["s001/1"] == "turn 1"
    assert [told[f"s{at:03}/0"] for at in range(12)] == [f"turn {at // 2 + 1}" for at in range(12)]
    assert finding is not None
    assert (finding.kind, finding.values) == ("sessions-paired", {"b": 6.0})


def test_three_arms_and_a_turn_that_is_not_complete() -> None:
    arms, finding = pair_sessions(in_turns("abc" * 6 + "c"))
    assert finding is not None
    assert finding.values == {"b": 6.0, "c": 6.0}
    assert blocks(arms)["s018/0"] == "turn 7", "it is alone in its block, which the layout leaves out"


def test_arms_that_took_turns_with_the_control_one_after_the_other() -> None:
    arms, finding = pair_sessions(in_turns("ab" * 6 + "ac" * 7))
    assert finding is not None
    assert finding.values == {"b": 6.0, "c": 7.0}
    told = blocks(arms)
    assert (told["s011/0"], told["s012/0"], told["s013/0"]) == ("turn 6", "turn 7", "turn 7")


@pytest.mark.parametrize(
    "order, why",
    [
        ("aaaaaaabbbbbbb", "did not take turns"),
        ("abab", "2 turns of a with b are too few (minimum 6)"),
        ("aab" * 7, "did not take turns"),
        ("bc" * 7 + "a", "did not take turns"),
        ("ab" * 6 + "ac" * 5, "5 turns of a with c are too few"),
    ],
)
def test_why_not_is_said(order: str, why: str) -> None:
    arms, finding = pair_sessions(in_turns(order))
    assert set(blocks(arms).values()) == {None}
    assert finding is not None
    assert finding.kind == "sessions-not-paired"
    assert why in finding.sentence


def test_sessions_within_each_other_are_no_blocks() -> None:
    one = [a_run(f"a/{at}", session=f"a{at // 2}", clocks={WALL: 10.0 * at}) for at in range(14)]
    other = [a_run(f"b/{at}", session=f"b{at // 2}", clocks={WALL: 10.0 * at + 5}) for at in range(14)]
    _, finding = pair_sessions([Arm(name="a", sources=(), runs=(*one,)), Arm(name="b", sources=(), runs=(*other,))])
    assert finding is not None
    assert "overlap" in finding.sentence


def test_nothing_is_said_where_no_session_was_repeated_or_blocks_are_known() -> None:
    assert pair_sessions(in_turns("ab", runs=9))[1] is None
    told = Arm(name="a", sources=(), runs=tuple(a_run(f"a/{at}", block="1", session=f"s{at}") for at in range(9)))
    assert pair_sessions([told, *in_turns("b")]) == ((told, *in_turns("b")), None)
    files = Arm(name="f", sources=(), runs=(a_run("f#1"),))
    assert pair_sessions([files, *in_turns("bbb")])[1] is None


@given(st.lists(st.permutations("abc"), min_size=FEWEST_BLOCKS, max_size=12))
def test_every_block_holds_each_arm_once(turns: list[list[str]]) -> None:
    arms, _ = pair_sessions(in_turns([name for turn in turns for name in turn]))
    for arm in arms:
        assert len({run.block for run in arm.runs}) == len(arm.runs) == len(turns)
