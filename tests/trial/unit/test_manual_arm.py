# SPDX-License-Identifier: Apache-2.0
"""By which facts an arm that a person brings about is recognised."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, Contradiction, UnknownName
from ktrial.machine.facts import Fact, FactBook, FactKind
from ktrial.machine.when import Truth
from ktrial.trial.arms.manual import check_signs, implied, is_by_hand, look, place_of, signs_as_found
from ktrial.trial.protocol.file import ArmFile, DesignFile, TrialFile
from ktrial.trial.protocol.read import check_trial_file

KINDS = {
    name: FactKind(name=name, type=type_, what=name)
    for name, type_ in {
        "kernel.release": "text",
        "kernel.command_line": "text",
        "kernel.scheduler_version": "text",
        "kernel.tick_rate": "int",
        "kernel.modules": "texts",
        "cpu.smt": "bool",
        "memory.total": "bytes",
        "boot.id": "text",
        "cpu.mitigations": "table",
    }.items()
}
FACTS = FactBook(
    {
        "kernel.release": Fact(value="6.18.1-bore"),
        "kernel.command_line": Fact(value="root=/dev/sda preempt=full ostree=/ostree/boot.1/fedora/ab12/0"),
        "kernel.scheduler_version": Fact(absent="the scheduler has none"),
        "kernel.tick_rate": Fact(value=1000),
        "kernel.modules": Fact(value=["ext4", "zram"]),
        "cpu.smt": Fact(value=True),
    }
)


def trial(**arms: ArmFile) -> TrialFile:
    return TrialFile(name="kernels", suite="quick", arms={"control": ArmFile(), **arms})


@pytest.mark.parametrize(
    "signs, truth",
    [
        ({"kernel.release": "6.18.1-bore"}, Truth.YES),
        ({"kernel.release": "6.18.1"}, Truth.NO),  # no part of it
        ({"kernel.release": "*-bore"}, Truth.YES),
        ({"kernel.release": "!*-bore"}, Truth.NO),
        ({"kernel.release": "!6.18.1"}, Truth.YES),
        ({"kernel.command_line": "preempt=full"}, Truth.YES),
        ({"kernel.command_line": "preempt"}, Truth.NO),  # a word, not a part of one
        ({"kernel.command_line": "preempt=full mitigations=off"}, Truth.NO),
        ({"kernel.command_line": "preempt=full !mitigations=off"}, Truth.YES),
        ({"kernel.command_line": "ostree=*/fedora/ab12/0"}, Truth.YES),
        ({"kernel.command_line": "ostree=*/fedora/cd34/0"}, Truth.NO),
        ({"kernel.modules": "zram ext4"}, Truth.YES),
        ({"kernel.modules": "!zram"}, Truth.NO),
        ({"kernel.tick_rate": 1000}, Truth.YES),
        ({"kernel.tick_rate": 250}, Truth.NO),
        ({"cpu.smt": True}, Truth.YES),
        ({"cpu.smt": False}, Truth.NO),
        ({"cpu.smt": "!true"}, Truth.NO),
        ({"kernel.scheduler_version": ""}, Truth.YES),  # there is none, and that is known
        ({"kernel.scheduler_version": "5.9"}, Truth.NO),
        ({"kernel.scheduler_version": "!5.9"}, Truth.YES),
        ({"boot.id": "x"}, Truth.UNKNOWN),  # nobody asked
        ({"boot.id": "x", "cpu.smt": False}, Truth.NO),  # one that contradicts is enough
        ({"kernel.release": "6.18.1-bore", "cpu.smt": False}, Truth.NO),
        ({}, Truth.UNKNOWN),  # only a person can say it
    ],
)
def test_what_the_machine_shows(signs: dict[str, Any], truth: Truth) -> None:
    assert look(signs, FACTS, KINDS).truth is truth


def test_what_is_not_so_is_told_and_a_command_line_is_not_kept() -> None:
    seen = look({"kernel.release": "6.18.1", "kernel.command_line": "preempt=full !root=/dev/sda"}, FACTS, KINDS)
    assert seen.told == ("kernel.release is 6.18.1-bore, not 6.18.1", "kernel.command_line contains root=/dev/sda")
    assert look({"kernel.command_line": "preempt=full"}, FACTS, KINDS).found == {"kernel.command_line": "preempt=full"}


def test_a_fact_that_could_not_be_told_is_no_answer() -> None:
    facts = FactBook({"kernel.release": Fact(unknown="permission denied")})
    seen = look({"kernel.release": "6.18"}, facts, KINDS)
    assert (seen.truth, seen.told) == (Truth.UNKNOWN, ("kernel.release is unknown: permission denied",))


WORDS = st.lists(st.sampled_from(["quiet", "preempt=full", "mitigations=off", "nosmt"]), unique=True)


@given(
    now=WORDS,
    wanted=st.lists(st.sampled_from(["quiet", "!quiet", "preempt=full", "!nosmt", "pre*"]), min_size=1),
    release=st.sampled_from(["6.18", "6.18-bore"]),
    version=st.sampled_from([None, "5.9"]),
)
def test_a_control_is_recognised_where_it_was_found_and_an_arm_is_not_taken_for_it(
    now: list[str], wanted: list[str], release: str, version: str | None
) -> None:
    facts = FactBook(
        {
            "kernel.command_line": Fact(value=" ".join(now)),
            "kernel.release": Fact(value=release),
            "kernel.scheduler_version": Fact(absent="none") if version is None else Fact(value=version),
        }
    )
    expect = {
        "kernel.command_line": " ".join(wanted),
        "kernel.release": "6.18-bore",
        "kernel.scheduler_version": "5.9",
    }
    signs = signs_as_found(trial(bore=ArmFile(manual="boot it", expect=expect)), facts, KINDS)
    assert look(signs, facts, KINDS).truth is Truth.YES
    bore = FactBook(
        {
            "kernel.command_line": Fact(value="preempt=full"),
            "kernel.release": Fact(value="6.18-bore"),
            "kernel.scheduler_version": Fact(value="5.9"),
        }
    )
    same = (release, version) == ("6.18-bore", "5.9")
    if not same:
        assert look(signs, bore, KINDS).truth is Truth.NO


def test_a_control_by_a_fact_that_cannot_be_told_is_refused() -> None:
    facts = FactBook({"kernel.release": Fact(unknown="permission denied")})
    with pytest.raises(BadInput, match=r"cannot read the fact .*: permission denied"):
        signs_as_found(trial(bore=ArmFile(manual="boot it", expect={"kernel.release": "6.18"})), facts, KINDS)


@pytest.mark.parametrize(
    "fact, value",
    [
        ("memory.total", "8GiB"),
        ("boot.id", "x"),
        ("cpu.mitigations", "x"),
        ("kernel.tick_rate", "1000"),
        ("kernel.tick_rate", True),
        ("cpu.smt", 1),
        ("kernel.release", 6),
        ("kernel.command_line", " "),
        ("kernel.command_line", True),
    ],
)
def test_facts_by_which_nothing_is_recognised(fact: str, value: Any) -> None:
    with pytest.raises(BadInput, match=f"arm bore cannot expect {fact}"):
        check_signs(trial(bore=ArmFile(manual="do it", expect={fact: value})), KINDS)


def test_a_fact_that_there_is_not() -> None:
    with pytest.raises(UnknownName, match=r"unknown fact: 'kernel\.relase'") as error:
        check_signs(trial(bore=ArmFile(manual="do it", expect={"kernel.relase": "x"})), KINDS)
    assert error.value.nearest == ("kernel.release",)


@pytest.mark.parametrize(
    "arm, baseline, kind, told",
    [
        (ArmFile(manual=" "), "found", BadInput, "`manual` is empty"),
        (ArmFile(manual="boot", set={"vm.swappiness": 1}), "found", Contradiction, "sets vm.swappiness=1"),
        (ArmFile(manual="boot", profile="ktweak"), "found", Contradiction, "sets ktweak"),
        (ArmFile(manual="boot"), "stock", Contradiction, "baseline = 'stock'"),
        (ArmFile(manual="boot", placebo=True), "found", Contradiction, "a placebo cannot"),
        (ArmFile(set={"vm.swappiness": 1}, expect={"cpu.smt": True}), "found", BadInput, "only a manual arm"),
    ],
)
def test_manual_arms_that_cannot_be(arm: ArmFile, baseline: Any, kind: type[BadInput], told: str) -> None:
    file = TrialFile(name="t", suite="quick", baseline=baseline, arms={"control": ArmFile(), "bore": arm})
    with pytest.raises(kind, match=told):
        check_trial_file(file)


def test_what_needs_a_hand_and_where_arms_live() -> None:
    swap = ArmFile(set={"vm.swappiness": 1})
    assert not is_by_hand(trial(swap=swap))
    assert is_by_hand(TrialFile(name="t", arms={"control": ArmFile()}, design=DesignFile(replicate="boot")))
    both = trial(swap=swap, bore=ArmFile(manual="boot it"))
    assert is_by_hand(both)
    assert [place_of(both, arm) for arm in both.arms] == ["control", "control", "bore"]


def test_another_kernel_declares_all_that_a_kernel_is() -> None:
    told = implied({"kernel.config_hash": "ab", "kernel.command_line": "!mitigations=off nosmt", "cpu.smt": False})
    assert {"kernel.release", "kernel.version", "kernel.config_hash", "kernel.osrelease"} <= set(told)
    assert {"boot:mitigations", "boot:nosmt", "cpu.smt"} <= set(told)
