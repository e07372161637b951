# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from ktrial.judge.model.question import Observation, Question
from ktrial.judge.observational_layout import Layout, Order, lay_out, read_runs, scale_of


def laid_out(order: str, **known: Mapping[str, Sequence[str | None]]) -> Layout:
    """Arms `a` (the control) and `b` in this order, with the values 1, 2, 3 ... in run order."""
    runs: dict[str, list[Observation]] = {"a": [], "b": []}
    for place, arm in enumerate(order):
        index = len(runs[arm])
        told = {name: of_arm[arm][index] for name, of_arm in known.items()}
        runs[arm].append(
            Observation(
                value=place + 1.0,
                place=place,
                block=told.get("block"),
                boot=told.get("boot"),
                machine=told.get("machine"),
            )
        )
    found = lay_out(read_runs(runs["a"], "difference", "higher"), read_runs(runs["b"], "difference", "higher"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "order, expected, unit",
    [
        ("aaaabbbb", "sequence", "run"),
        ("abab", "interleaved", "run"),
        ("abababab", "interleaved", "run"),
        ("aababbbaab", "interleaved", "run"),
        ("aabba", "sequence", "run"),
        ("aabbaabb", "interleaved", "visit"),
        ("aaaaaabaaaaaabbbbbbbbbabbbbb", "interleaved", "visit"),
        ("ab", "sequence", "run"),
    ],
)
def test_order_and_units(order: str, expected: Order, unit: str) -> None:
    layout = laid_out(order)
    assert (layout.order, layout.unit) == (expected, unit)


def test_runs_of_a_visit_are_one_number() -> None:
    layout = laid_out("aabbaaabbb")
    assert layout.control.tolist() == [1.5, 6.0]
    assert layout.arm.tolist() == [3.5, 9.0]


def test_an_unknown_or_doubtful_order_is_unknown() -> None:
    unknown = [Observation(value=1.0), Observation(value=2.0, place=1)]
    twice = [Observation(value=1.0, place=1), Observation(value=2.0, place=2)]
    for runs in (unknown, twice):
        read = read_runs(runs, "log", "lower")
        layout = lay_out(read, read)
        assert layout is not None
        assert layout.order == "unknown"


def test_places_that_were_counted_in_each_arm_by_itself_tell_no_order() -> None:
    for block in (None, "yes"):
        runs = [Observation(value=1.0, place=i, block=None if block is None else str(i)) for i in range(8)]
        read = read_runs(runs, "log", "lower")
        layout = lay_out(read, read)
        assert layout is not None
        assert layout.order == "unknown"


def test_strict_turns_are_doubted() -> None:
    assert [finding.kind for finding in laid_out("abababab").findings] == ["fixed-order"]
    assert laid_out("abbabaab").findings == ()


def blocks(*names: str) -> Mapping[str, Sequence[str]]:
    return {"a": names, "b": names}


def test_shared_blocks_are_paired_whatever_their_order() -> None:
    layout = laid_out("abbaab", block={"a": ("x", "y", "z"), "b": ("x", "y", "z")})
    assert (layout.blocked, layout.order, layout.findings) == (True, "interleaved", ())
    assert (layout.arm - layout.control).tolist() == [1.0, -1.0, 1.0]
    crossed = laid_out("abab", block={"a": ("x", "y"), "b": ("y", "x")})
    assert (crossed.arm - crossed.control).tolist() == [3.0, -1.0]


def test_blocks_of_one_fixed_order_are_doubted() -> None:
    layout = laid_out("abababab", block=blocks("1", "2", "3", "4"))
    assert layout.order == "interleaved"
    assert [finding.kind for finding in layout.findings] == ["fixed-order"]


def test_hosts_measured_arm_by_arm_are_a_sequence() -> None:
    assert laid_out("aaaabbbb", block=blocks("1", "2", "3", "4")).order == "sequence"


def test_blocks_without_order_are_unknown() -> None:
    runs = [Observation(value=1.0, block=str(number)) for number in range(7)]
    read = read_runs(runs, "log", "lower")
    layout = lay_out(read, read)
    assert layout is not None
    assert (layout.blocked, layout.order) == (True, "unknown")


def test_blocks_of_one_arm_only_are_left_out_and_told() -> None:
    layout = laid_out("abbaa", block={"a": ("x", "y", "w"), "b": ("x", "y")})
    assert len(layout.control) == 2
    assert layout.findings[0].kind == "blocks-left-out"


@pytest.mark.parametrize("what", ["block", "machine"])
def test_arms_that_share_a_single_block_are_compared_by_its_runs(what: str) -> None:
    layout = laid_out("aabbabab", **{what: {"a": ("x", "x", "y", "y"), "b": ("v", "v", "y", "y")}})
    assert (layout.unit, layout.confounded_by, layout.runs) == ("run", None, (2, 2))
    assert (layout.control.tolist(), layout.arm.tolist()) == ([5.0, 7.0], [6.0, 8.0])
    assert layout.findings[0].kind == "blocks-left-out"
    assert f"one {what} of 3, y" in layout.findings[0].sentence


def test_arms_without_a_common_block_are_not_compared() -> None:
    of_a, of_b = (
        read_runs([Observation(value=2.0, block=name) for name in names], "log", "lower") for names in ("xy", "vw")
    )
    assert lay_out(of_a, of_b) is None


@pytest.mark.parametrize("what", ["boot", "machine"])
def test_one_boot_or_machine_for_each_arm_is_confounded(what: str) -> None:
    layout = laid_out("abababab", **{what: {"a": ("1",) * 4, "b": ("2",) * 4}})
    assert layout.confounded_by == what
    assert layout.unit == "run"


def test_several_boots_for_each_arm_are_the_units() -> None:
    boots = {"a": ("1", "1", "3", "3"), "b": ("2", "2", "4", "4")}
    layout = laid_out("aabbaabb", boot=boots)
    assert (layout.unit, layout.order, layout.confounded_by) == ("boot", "interleaved", None)
    assert layout.control.tolist() == [1.5, 5.5]
    sorted_by_arm = laid_out("aaaabbbb", boot={"a": ("1", "1", "3", "3"), "b": ("2", "2", "4", "4")})
    assert (sorted_by_arm.unit, sorted_by_arm.order) == ("boot", "sequence")


def test_boots_within_blocks_stay_paired_but_not_boots_across_blocks() -> None:
    pairs = blocks("x", "y")
    assert laid_out("abab", block=pairs, boot={"a": ("1", "3"), "b": ("2", "4")}).unit == "block"
    across = laid_out("abababab", block=blocks("1", "2", "3", "4"), boot={"a": tuple("1133"), "b": tuple("2244")})
    assert across.unit == "boot"


def test_many_machines_with_both_arms_are_blocks_and_few_are_not() -> None:
    names = tuple("123456")
    assert laid_out("ab" * 6, machine={"a": names, "b": names}).unit == "block"
    assert laid_out("ab" * 6, machine={"a": tuple("112233"), "b": tuple("112233")}).unit == "run"


def test_boots_that_one_arm_has_more_of_are_confounded() -> None:
    layout = laid_out("ab" * 6, boot={"a": tuple("111112"), "b": tuple("122222")})
    assert layout.confounded_by == "boot"


def test_machines_that_one_arm_has_more_of_are_compared_one_by_one() -> None:
    layout = laid_out("ab" * 6, machine={"a": tuple("111112"), "b": tuple("122222")})
    assert (layout.unit, layout.confounded_by, layout.control.size) == ("block", None, 2)


def test_zero_or_less_forbids_ratios_and_direction_gives_the_sign() -> None:
    runs = (Observation(value=2.0), Observation(value=np.e))
    asked = Question(name="t", direction="lower", arms={"a": runs}, control="a", margin=0.02)
    assert scale_of(asked) == "log"
    assert read_runs(runs, "log", "lower").scores.tolist() == pytest.approx([-np.log(2), -1.0])
    assert read_runs(runs, "log", None).scores.tolist() == pytest.approx([np.log(2), 1.0])
    zeros = Question(name="t", direction="lower", arms={"a": (*runs, Observation(value=0.0))}, control="a", margin=0.02)
    assert scale_of(zeros) == "difference"
    assert read_runs((Observation(value=float("nan")),), "log", None).scores.tolist() == []


@pytest.mark.parametrize(
    "order, expected, doubts",
    [
        # Two inputs, measured five times each in turns that no rule foresaw; a is the earlier one in both.
        ("abbaaababbabbaababab", "interleaved", []),
        ("abababababababababab", "interleaved", ["fixed-order"]),
        ("aaaaaaaaaabbbbbbbbbb", "sequence", []),
    ],
)
def test_blocks_that_lie_over_each_other_in_time(order: str, expected: Order, doubts: list[str]) -> None:
    alternating = ["m1", "m2"] * 5
    layout = laid_out(order, block={"a": alternating, "b": alternating})
    assert layout.unit == "block"
    assert (layout.order, [finding.kind for finding in layout.findings]) == (expected, doubts)
