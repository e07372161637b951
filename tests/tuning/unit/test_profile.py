# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.tuning.knobs.profile import Profile, Tier, flatten
from tests.support.knobs import profile


def test_parents_come_first() -> None:
    base = profile("base", ("a.x", 1), ("a.y", 1))
    child = profile("child", ("a.x", 2), extends=("base",))
    settings = flatten("child", {"base": base, "child": child})
    assert [(setting.knob, setting.value) for setting in settings] == [("a.x", 1), ("a.y", 1), ("a.x", 2)]


def test_a_ladder_stacks_the_profiles_of_its_tiers() -> None:
    one, two = profile("one", ("a.x", 1)), profile("two", ("a.y", 2))
    ladder = Profile(
        "ladder", "x", tier=(Tier("t1", "w", profile="one"), Tier("t2", "w", build="b"), Tier("t3", "w", profile="two"))
    )
    assert [s.knob for s in flatten("ladder", {"one": one, "two": two, "ladder": ladder})] == ["a.x", "a.y"]


def test_a_circle_is_named() -> None:
    first = profile("first", extends=("second",))
    second = profile("second", extends=("first",))
    with pytest.raises(BadInput, match="first -> second -> first"):
        flatten("first", {"first": first, "second": second})


def test_unknown_parent() -> None:
    with pytest.raises(UnknownName, match="bse"):
        flatten("child", {"child": profile("child", extends=("bse",)), "base": profile("base")})
