# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.studies.search.model import crash_regions
from ktrial.studies.search.space import (
    Dimension,
    Point,
    Scalar,
    Space,
    fill,
    parse_space,
    placeholders_in,
    plain,
    resolve_space,
)
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.value import kernel_text
from tests.support.search import choice, number, space_of

FILE = """
name = "memory"
constraints = ["vm.dirty_background_ratio < vm.dirty_ratio"]

[[dimension]]
knob = "vm.dirty_ratio"
low = 1
high = 100

[[dimension]]
knob = "vm.dirty_background_ratio"
low = 1
high = 50
when = "mode == fast"

[[dimension]]
placeholder = "mode"
values = ["slow", "fast"]
default = "slow"

[[dimension]]
placeholder = "share"
low = 0.01
high = 1.0
log = true
default = 0.5
"""
FOUND = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}


def space() -> Space:
    return resolve_space(parse_space(FILE.encode(), "space.toml"), FOUND, {})


def test_a_file_becomes_a_space_with_the_values_of_the_machine_as_control() -> None:
    found = space()
    assert found.control == {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10, "mode": "slow", "share": 0.5}
    assert found.size is None
    assert [one.is_whole for one in found.dimensions] == [True, True, False, False]


def test_a_dimension_keeps_its_default_while_its_condition_does_not_hold() -> None:
    found = space()
    slow = found.settled({"vm.dirty_ratio": 40, "vm.dirty_background_ratio": 5, "mode": "slow"})
    assert slow["vm.dirty_background_ratio"] == 10
    assert found.changes({**slow, "mode": "fast", "vm.dirty_background_ratio": 5}) == {
        "vm.dirty_ratio": 40,
        "vm.dirty_background_ratio": 5,
        "mode": "fast",
    }


@pytest.mark.parametrize(
    "changes,reason",
    [
        ({"vm.dirty_ratio": 5}, "vm.dirty_background_ratio < vm.dirty_ratio does not hold"),
        ({"vm.dirty_ratio": 101}, "vm.dirty_ratio = 101 is not among its values"),
        ({"vm.dirty_ratio": 30.5}, "vm.dirty_ratio = 30.5 is not among its values"),
        ({"mode": "odd"}, "mode = odd is not among its values"),
        ({"vm.swappiness": 1}, "vm.swappiness is not a dimension"),
        ({}, "it is the control"),
        ({"vm.dirty_ratio": 30}, None),
    ],
)
def test_a_point_that_cannot_be_tried_says_why(changes: dict[str, int | float | str], reason: str | None) -> None:
    found = space()
    assert found.problem({**found.control, **changes}) == reason


def test_drawn_points_satisfy_every_rule_and_a_logarithmic_range_is_drawn_evenly_in_its_logarithm() -> None:
    found, rng = space(), np.random.default_rng(1)
    points = [found.draw(rng) for _ in range(300)]
    assert all(point is not None and found.problem(point) is None for point in points)
    shares = [float(point["share"]) for point in points if point is not None]
    assert 0.3 < sum(share < 0.1 for share in shares) / len(shares) < 0.7


def test_values_that_the_kernel_took_instead_lie_apart_from_all_others() -> None:
    one = Dimension(name="a", kind="knob", default=128, values=(33, 256))
    places = [one.place(value) for value in (33, 256, 128, 32, 252)]
    assert len(set(places)) == 5
    assert places[:3] == [0, 1, 2]
    assert one.place(32) == one.place(32)


def test_steps_are_kept() -> None:
    one = number("a", 0, 100, 50, step=25)
    rng = np.random.default_rng(1)
    assert {one.draw(rng) for _ in range(200)} == {0, 25, 50, 75, 100}
    assert not one.takes(30)
    assert one.count == 5


@pytest.mark.parametrize(
    "old,new,words",
    [
        ('name = "memory"', 'name = "a b"', "is not a name"),
        ("low = 1\nhigh = 100", "low = 100\nhigh = 100", "low below high"),
        ("low = 0.01", "low = 0.0", "logarithmic scale"),
        ('values = ["slow", "fast"]', "", "either low and high, or values"),
        ('["slow", "fast"]', '["slow", "slow"]', "mode has slow twice in `values`"),
        ('default = "slow"', "", "mode has no default"),
        ('placeholder = "mode"', 'placeholder = "mode"\nknob = "vm.x"', "knob and placeholder"),
        ('placeholder = "share"', 'placeholder = "mode"', "two dimensions"),
        ("vm.dirty_background_ratio <", "vm.other <", "begin the rule"),
        ("vm.dirty_background_ratio < vm.dirty_ratio", "mode < fast", "use == or !="),
        ("vm.dirty_background_ratio < vm.dirty_ratio", "nonsense", "cannot read the rule"),
        ("high = 50", "high = 50\nhihg = 3", "hihg"),
    ],
)
def test_a_wrong_file_is_refused_with_a_reason(old: str, new: str, words: str) -> None:
    assert old in FILE
    with pytest.raises(BadInput) as caught:
        parse_space(FILE.replace(old, new, 1).encode(), "space.toml")
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_a_space_of_one_point_is_refused() -> None:
    with pytest.raises(BadInput, match="only one point"):
        space_of(choice("a", "x"))
    with pytest.raises(BadInput, match="only one point"):
        space_of(choice("a", "y", default="x"))


def test_contradictory_constraints_are_refused() -> None:
    text = FILE.replace("constraints = [", 'constraints = ["vm.dirty_ratio < 10", "vm.dirty_ratio > 20", ')
    with pytest.raises(Contradiction, match="no point of memory satisfies its constraints: vm"):
        resolve_space(parse_space(text.encode(), "space.toml"), FOUND, {})


def test_a_dimension_that_is_left_out_takes_its_rules_with_it() -> None:
    found = resolve_space(parse_space(FILE.encode(), "f"), FOUND, {"vm.dirty_background_ratio": "absent"})
    assert (found.constraints, list(found.control)) == ((), ["vm.dirty_ratio", "mode", "share"])
    every = dict.fromkeys(("vm.dirty_ratio", "vm.dirty_background_ratio", "mode", "share"), "absent")
    with pytest.raises(BadInput, match="none of its dimensions can vary"):
        resolve_space(parse_space(FILE.encode(), "f"), FOUND, every)


def test_placeholders_are_filled_and_other_braces_stay() -> None:
    assert placeholders_in("--w {workers} awk '{print $1}' {mode}") == ("workers", "mode")
    assert fill("{workers} {print} {on} {share}", {"workers": 4, "on": True, "share": 0.25}) == "4 {print} 1 0.25"


def test_a_part_of_the_space_in_which_all_fail_is_a_region_but_not_one_with_a_success() -> None:
    found = space_of(number("a", 0, 100, 10), choice("c", "x", "y", "z"))
    failed = [{"a": at, "c": "z"} for at in (70, 80, 90)]
    fine = [{"a": at, "c": "y"} for at in (10, 40, 60)]
    (first,) = crash_regions(found, failed, fine)
    assert (first.text, first.holds(75), first.holds(65)) == ("a from 70", True, False)
    # More failures of the same kind say which of the two it was.
    (second,) = crash_regions(found, [*failed, {"a": 5, "c": "z"}, {"a": 30, "c": "z"}], fine)
    assert (second.text, second.failures, second.holds("z"), second.holds("x")) == ("c = z", 5, True, False)
    assert crash_regions(found, failed, [*fine, {"a": 95, "c": "z"}]) == ()
    assert crash_regions(found, failed[:2], fine) == ()
    assert crash_regions(found, failed, fine[:2]) == ()


def test_failures_that_one_region_explains_make_no_other_one() -> None:
    found = space_of(number("a", 0, 100, 50), number("b", 0, 100, 50), choice("c", "w", "x", "y", "z"))
    fine: list[Point] = [{"a": 50, "b": at, "c": "w"} for at in range(50, 80, 2)]
    by_a: list[Point] = [{"a": at, "b": 10 + at % 7, "c": "w"} for at in (88, 91, 95, 99)]
    by_c: list[Point] = [{"a": 50, "b": 75, "c": value} for value in ("y", "z") for _ in range(4)]
    regions = {one.text: one.failures for one in crash_regions(found, [*by_a, *by_c], fine)}
    assert regions == {"a from 88": 4, "c = y, z": 8}


def test_the_example_names_knobs_of_the_catalog_with_values_that_they_take() -> None:
    catalog = load_catalog()
    file = parse_space(Path("examples/spaces/damon.toml").read_bytes(), "damon.toml")
    for one in file.dimension:
        knob = catalog.knobs[str(one.knob)]
        for value in one.values or (one.low, one.high):
            assert kernel_text(knob, value), one.name
    parameters = {str(one.knob) for one in file.dimension if one.when}
    switches = {name for one in file.dimension if not one.when for name in catalog.knobs[str(one.knob)].after}
    # A plan writes them before the switch, which makes the kernel read them.
    assert parameters <= switches


@pytest.mark.parametrize(
    "value, written",
    [(True, "1"), (False, "0"), (16, "16"), ("none", "none"), (0.25, "0.25"), (2.5e7, "25000000"), (1e-7, "0.0000001")],
)
def test_a_value_is_written_without_an_exponent(value: Scalar, written: str) -> None:
    assert plain(value) == written
