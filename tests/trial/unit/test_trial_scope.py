# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from ktrial.trial.outcome.scope import guest_scope, title_of
from ktrial.trial.protocol.file import GuestFile
from ktrial.trial.record import ArmSettings
from tests.support.told_trials import a_trial


@pytest.mark.parametrize(
    "mode, told",
    [
        ("exact", "in exact guests, whose time counts instructions, across 0 boots that differ in a meaningless word"),
        ("emulated", "in emulated guests, whose time is an emulator's, across 0 boots"),
        ("kvm", "in kvm guests, across 0 boots"),
    ],
)
def test_where_a_verdict_holds_says_what_the_clock_is(mode: str, told: str) -> None:
    assert guest_scope(msgspec.convert({"kernel": "/k", "mode": mode}, GuestFile), ()) == told


@pytest.mark.parametrize(
    "kernels, found, title",
    [
        ({"b": "6.12.1, build ab"}, "6.1.9, build cd", "guests: Linux 6.12.1 against Linux 6.1.9"),
        ({"b": "6.1.9, build ab"}, "6.1.9, build cd", "guests: Linux 6.1.9, build ab against Linux 6.1.9, build cd"),
        ({"b": "6.12.1", "c": "6.6.1"}, "6.1.9", "guests"),
        ({}, "6.1.9", "guests"),
    ],
)
def test_two_kernels_are_named_in_the_title(kernels: Mapping[str, str], found: str, title: str) -> None:
    trial = a_trial().stored
    arms = {name: ArmSettings(changes={"kernel": one}) for name, one in kernels.items()}
    assert title_of(msgspec.structs.replace(trial, arms=arms, found={"kernel": found}), "guests") == title
