# SPDX-License-Identifier: Apache-2.0
"""The hash of a protocol: another one for every change, the same for the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ktrial.machine.gates import GateLimits
from ktrial.trial.protocol.file import ArmFile, DesignFile, TrialFile
from ktrial.trial.record import ArmSettings, changed_arms, protocol_sha256
from tests.support.trials import protocol

FILE = TrialFile(name="x", suite="wakeup", arms={"control": ArmFile(), "case": ArmFile(set={"vm.swappiness": 0})})
ARMS = {"control": ArmSettings(), "case": ArmSettings(changes={"vm.swappiness": "0"})}


def digest(file: TrialFile = FILE, **changes: Any) -> str:
    return protocol_sha256(file, protocol(**changes), ARMS)


@pytest.mark.parametrize(
    "other",
    [
        replace(FILE, name="y"),
        replace(FILE, design=DesignFile(until_all_decided=True)),
        replace(FILE, arms={**FILE.arms, "case": ArmFile(set={"vm.swappiness": 1})}),
        replace(FILE, arms={**FILE.arms, "case": ArmFile(set={"vm.swappiness": False})}),
        replace(FILE, arms={"control": ArmFile(), "other": FILE.arms["case"]}),
        replace(FILE, guards={"wakeup.p99": "5%"}),
    ],
)
def test_every_change_gives_another_hash(other: TrialFile) -> None:
    assert digest(other) != digest()


def test_what_the_judge_goes_by_and_what_arms_came_to_are_in_it() -> None:
    assert digest(seed=8) != digest()
    assert digest(profile={"tool.time": (0.0,)}) != digest()
    assert protocol_sha256(FILE, protocol(), {**ARMS, "case": ArmSettings(changes={"vm.swappiness": "1"})}) != digest()


def test_it_is_the_same_when_it_is_read_again() -> None:
    """A limit of 8 is read as 8.0."""
    fixed = protocol(gates={"start_temperature": GateLimits(suspect=5, refuse=8)})
    again = msgspec.json.decode(msgspec.json.encode(fixed), type=type(fixed))
    assert protocol_sha256(FILE, again, ARMS) == protocol_sha256(FILE, fixed, ARMS)


def test_the_order_of_arms_in_the_file_does_not_count() -> None:
    turned = replace(FILE, arms=dict(reversed(list(FILE.arms.items()))))
    assert digest(turned) == digest()


def test_an_arm_whose_reasons_are_worded_otherwise_is_the_same() -> None:
    """A trial of an older version can be continued."""
    before = {**ARMS, "case": ArmSettings(refused={"vm.a": "no such file"}, inert={"vm.b": "no swap"})}
    reworded = ArmSettings(refused={"vm.a": "this kernel lacks it"}, inert={"vm.b": "this machine has no swap"})
    assert changed_arms(before, {**ARMS, "case": reworded}) == []
    assert changed_arms(before, {**ARMS, "case": replace(reworded, inert={})}) == ["case"]
    assert changed_arms(before, {**ARMS, "case": replace(reworded, refused={"vm.c": "no such file"})}) == ["case"]
    assert changed_arms(before, {"case": reworded}) == ["control"]
