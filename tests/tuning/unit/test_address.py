# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.tuning.knobs.address import Address, parse_address, parse_assignment, selects


@pytest.mark.parametrize(
    "text, knob, selector, value",
    [
        ("vm.swappiness=10", "vm.swappiness", None, "10"),
        ("queue:scheduler@nvme0n1=none", "queue:scheduler", "nvme0n1", "none"),
        ("queue:scheduler@[rotational=false]=none", "queue:scheduler", "[rotational=false]", "none"),
        ("boot:isolcpus=domain,managed_irq=2-3", "boot:isolcpus", None, "domain,managed_irq=2-3"),
        ("thp:enabled = madvise ", "thp:enabled", None, "madvise"),
    ],
)
def test_first_equals_outside_brackets_separates(text: str, knob: str, selector: str | None, value: str) -> None:
    assert parse_assignment(text) == (Address(knob, selector), value)


@pytest.mark.parametrize("text", ["vm.swappiness", "=10", "vm.swappiness=", "a@=1", "@x=1", "queue:x@[a=b=1", "a b=1"])
def test_bad_assignments_are_answered_with_an_example(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_assignment(text)
    assert caught.value.hint or "bracket" in caught.value.message


@pytest.mark.parametrize(
    "selector, label, meant",
    [
        ("nvme*", "nvme0n1", True),
        ("nvme*", "sda", False),
        ("eth0", "eth0/rx-1", True),
        ("eth0/rx-0", "eth0/rx-1", False),
        ("[rotational=false]", "sda", True),
        ("[rotational=true]", "sda", False),
        ("[rotational=false,transport=nvme]", "sda", False),
    ],
)
def test_selectors(selector: str, label: str, meant: bool) -> None:
    assert selects(selector, label, {"rotational": False, "transport": "sata"}) is meant


@pytest.mark.parametrize(
    "selector, label, meant",
    [
        ("a.slice", "a.slice", True),
        ("a.slice", "a.slice/b", False),
        ("*", "a.slice/b", False),
        ("a.slice/*", "a.slice/b", True),
        ("a.slice/*", "a.slice/b/c", False),
        ("a.slice/[b]", "a.slice/[b]", True),
        ("a.slice/u@1.service", "a.slice/u@1.service", True),
    ],
)
def test_selectors_of_what_lies_within_one_another(selector: str, label: str, meant: bool) -> None:
    assert selects(selector, label, None, nested=True) is meant


def test_a_group_within_others_keeps_its_whole_name() -> None:
    address, value = parse_assignment("cgroup:cpu.max@u.slice/u@1.service/a\\x2db.scope=50000 100000")
    assert (address.selector, value) == ("u.slice/u@1.service/a\\x2db.scope", "50000 100000")


def test_selector_by_fact_takes_nothing_that_has_no_record() -> None:
    assert not selects("[rotational=false]", "sda", None)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        address, value = parse_assignment(text)
    except BadInput:
        return
    assert parse_address(str(address)) == address
    assert value == value.strip() != ""
