# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.when import Truth, check_condition, evaluate
from tests.support.knobs import KINDS

FACTS = FactBook(
    {
        "memory.total": Fact(value=16 * 2**30),
        "os.android": Fact(value=False),
        "os.id": Fact(absent="no os-release"),
        "cpu.threads": Fact(unknown="permission denied"),
    }
)


@pytest.mark.parametrize(
    "condition, truth",
    [
        ('memory.total >= "8GiB"', Truth.YES),
        ('memory.total < "8GiB"', Truth.NO),
        ("os.android == true", Truth.NO),
        ("os.android != true", Truth.YES),
        ('os.id == "debian"', Truth.NO),
        ('os.id != "debian"', Truth.YES),
        ("cpu.threads >= 4", Truth.UNKNOWN),
        ({"all": ['memory.total >= "8GiB"', "os.android == false"]}, Truth.YES),
        ({"all": ["cpu.threads >= 4", "os.android == true"]}, Truth.NO),
        ({"all": ["cpu.threads >= 4", "os.android == false"]}, Truth.UNKNOWN),
        ({"any": ["cpu.threads >= 4", "os.android == false"]}, Truth.YES),
        ({"any": ["cpu.threads >= 4", "os.android == true"]}, Truth.UNKNOWN),
        ({"any": [{"all": ["os.android == false"]}]}, Truth.YES),
    ],
)
def test_three_answers(condition: Any, truth: Truth) -> None:
    assert evaluate(condition, FACTS, KINDS)[0] is truth


def test_a_no_says_what_was_found() -> None:
    assert evaluate("os.android == true", FACTS, KINDS)[1] == "os.android is False, not True"


@pytest.mark.parametrize(
    "condition",
    [
        "memory.total",
        'memory.total >= "8 parsecs"',
        "os.android == 1",
        'cpu.threads == "four"',
        "cpu.threads == true",
        'os.id in "debian"',
        "block.devices == 1",
        "os.android == maybe",
        {"none": ["os.android == true"]},
        {"all": []},
        {"all": "os.android == true"},
        {},
    ],
)
def test_conditions_that_cannot_be_right(condition: Any) -> None:
    with pytest.raises(BadInput):
        check_condition(condition, KINDS)


def test_unknown_fact_gets_a_did_you_mean() -> None:
    with pytest.raises(UnknownName) as caught:
        check_condition('memory.totl >= "1GiB"', KINDS)
    assert caught.value.nearest == ("memory.total",)


@given(
    st.recursive(
        st.text(max_size=40),
        lambda inner: st.dictionaries(st.sampled_from(["all", "any", "x"]), st.lists(inner, max_size=3), max_size=2),
        max_leaves=6,
    )
)
def test_any_condition_is_judged_or_refused(condition: Any) -> None:
    try:
        check_condition(condition, KINDS)
    except BadInput:
        return
    assert evaluate(condition, FACTS, KINDS)[0] in Truth
