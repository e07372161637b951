# SPDX-License-Identifier: Apache-2.0
"""Only what a profile sets otherwise is an update; what a machine or a person decides is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.machine.reading import InstanceState, KnobState, Reading
from ktrial.tuning.lasting.drift_text import updates_text
from ktrial.tuning.lasting.model import LastingEntry
from ktrial.tuning.lasting.profile_update import ProfileOutcome, SettingUpdate, setting_updates
from ktrial.tuning.plans.model import Refusal, Why


def setting(knob: str, value: object, when: str | None = None) -> dict[str, Any]:
    return {"knob": knob, "value": value, **({"when": when} if when else {})}


def outcome(values: Mapping[str, str], *, present: Mapping[str, str] | None = None, **more: Any) -> ProfileOutcome:
    """What planning gives: values that last, devices (knob -> label) that are present, and what does not last."""
    states = {
        knob: KnobState(knob, (InstanceState(label, "/p", Reading()),), None) for knob, label in (present or {}).items()
    }
    entries = tuple(LastingEntry(form="sysctl.d", holds={}, values={name: value}) for name, value in values.items())
    left_out, refusals = frozenset(more.get("left_out", ())), more.get("refusals", ())
    return ProfileOutcome(entries=entries, left_out=left_out, refusals=refusals, states=states)


def refusal(address: str, kind: Why) -> Refusal:
    return Refusal(address.partition("@")[0], address, kind, "why", "1", "profile own")


A, B = setting("a", 1), setting("a", 2)
KEPT = {"a": "1"}


@pytest.mark.parametrize(
    "before, after, planned, wanted",
    [
        ([A], [B], outcome({"a": "2"}), [SettingUpdate("a", "1", "2")]),
        ([A], [], outcome({}), [SettingUpdate("a", "1", None)]),
        ([A], [A, setting("b", 3)], outcome({"a": "1", "b": "3"}), [SettingUpdate("b", None, "3")]),
        # The same settings, and another result: more memory, for one.
        ([A], [A], outcome({"a": "5"}), []),
        # The value changed, but it does not last here: a trial found it worse.
        ([A], [B], outcome({}, left_out=["a"], present={"a": ""}), []),
        # Its condition no longer holds, or cannot be judged; it is missing now.
        (
            [A],
            [setting("a", 1, "x")],
            outcome({}, refusals=(refusal("a", Why.CONDITION),)),
            [SettingUpdate("a", "1", None)],
        ),
        ([A], [setting("a", 1, "x")], outcome({}, refusals=(refusal("a", Why.UNTOLD),), present={"a": ""}), []),
        ([A], [B], outcome({}, refusals=(refusal("a", Why.ABSENT),)), []),
        # Kept once, then taken out by the user: its new value is nothing to accept.
        ([A, setting("b", 3)], [A, setting("b", 4)], outcome({"a": "1", "b": "4"}), []),
    ],
)
def test_an_update_is_what_the_profile_sets_otherwise(
    before: list[dict[str, Any]], after: list[dict[str, Any]], planned: ProfileOutcome, wanted: list[SettingUpdate]
) -> None:
    assert list(setting_updates(before, after, planned, KEPT, ())) == wanted


@pytest.mark.parametrize("present, dropped", [({"q": "sda"}, True), ({"q": "sdb"}, False), ({}, False)])
def test_a_device_that_a_selector_no_longer_means_is_dropped_unless_it_is_away(
    present: Mapping[str, str], dropped: bool
) -> None:
    before, after = [setting("q@*", 1)], [setting("q@nvme*", 1)]
    found = setting_updates(before, after, outcome({}, present=present), {"q@sda": "1"}, ())
    assert found == ((SettingUpdate("q@sda", "1", None),) if dropped else ())


def test_what_is_kept_for_another_reason_is_not_new() -> None:
    assert setting_updates([A], [A, setting("b", 3)], outcome({"a": "1", "b": "3"}), KEPT, ["b"]) == ()


VALUES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3), max_size=4)


@given(VALUES, VALUES)
def test_accepting_all_leaves_what_the_profile_sets(before: dict[str, int], after: dict[str, int]) -> None:
    kept = {name: str(value) for name, value in before.items()}
    wanted = {name: str(value) for name, value in after.items()}
    old, new = ([setting(*one) for one in values.items()] for values in (before, after))
    updates = setting_updates(old, new, outcome(wanted), kept, kept)
    for one in updates:
        assert kept.get(one.address) == one.kept != one.now
        kept.pop(one.address, None)
        if one.now is not None:
            kept[one.address] = one.now
    assert kept == wanted


def test_no_update_says_nothing() -> None:
    assert updates_text([], width=80) == ""
