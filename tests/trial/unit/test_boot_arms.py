# SPDX-License-Identifier: Apache-2.0
"""Arms that are boots of this machine: what they may hold, their entries, and the facts that show each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, Contradiction, KtrialError
from ktrial.machine.facts import Fact, FactBook, FactKind
from ktrial.machine.when import Truth
from ktrial.trial.arms.boot_arms import boots_this_machine, check_boot_arms, entry_of, with_boot_signs
from ktrial.trial.arms.manual import is_by_hand, look
from ktrial.trial.guests.recipe import KernelChange
from ktrial.trial.protocol.file import ArmFile, CommandFile, DesignFile, GuestFile, ServiceFile, TrialFile, trial_text
from ktrial.trial.protocol.from_words import arms_of
from ktrial.trial.protocol.read import check_trial_file, parse_trial_file
from ktrial.tuning.boots.command_line import MARK, change_line, parse_changes
from ktrial.tuning.catalog.loader import load_catalog

ARMS = {"control": ArmFile(), "full": ArmFile(boot=("nohz_full=2-9", "-quiet")), "again": ArmFile(placebo=True)}
TRIAL = TrialFile(name="t", suite="wakeups-busy", arms=ARMS)
LINE = "kernel.command_line"
KINDS = {LINE: FactKind(name=LINE, type="text", what=LINE)}
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", fullmatch=True)
WORDS = st.from_regex(r"[a-c]{1,2}(=[0-2]{1,2})?", fullmatch=True)


def of_arms(**arms: ArmFile) -> TrialFile:
    return msgspec.structs.replace(TRIAL, arms={"control": ArmFile(), **arms})


def shows(arm: ArmFile, line: str) -> Truth:
    """Return whether a machine with this command line is seen to be set up as the arm."""
    return look(arm.expect, FactBook({LINE: Fact(value=line)}), KINDS).truth


@pytest.mark.parametrize(
    "trial, boots",
    [
        (TRIAL, True),
        (of_arms(old=ArmFile(kernel="6.1")), True),
        (of_arms(swap=ArmFile(set={"vm.swappiness": 1})), False),
        (of_arms(hand=ArmFile(manual="boot it")), False),
        (msgspec.structs.replace(TRIAL, guest=GuestFile()), False),
    ],
)
def test_arms_with_words_or_kernels_boot_this_machine_unless_there_are_guests(trial: TrialFile, boots: bool) -> None:
    assert boots_this_machine(trial) is boots


def test_a_protocol_with_boots_is_read_as_it_is_written() -> None:
    text = trial_text(of_arms(full=ArmFile(boot=("nohz_full=2-9",), kernel="6.1", set={"vm.swappiness": 1})))
    found = parse_trial_file(text.encode(), "t.toml")
    assert (found.arms["full"].boot, found.arms["full"].kernel) == (("nohz_full=2-9",), "6.1")


@pytest.mark.parametrize(
    "trial, told",
    [
        (of_arms(a=ArmFile(boot=("a b=",))), "'b=' is not a kernel argument"),
        (of_arms(a=ArmFile(boot=("panic=1",))), "cannot set panic"),
        (of_arms(a=ArmFile(kernel=KernelChange(fragments=("hz-1000",)))), "only a trial in guests can build a kernel"),
        (of_arms(a=ArmFile(boot=("x",), commands=(CommandFile(run=("a",), undo=("b",)),))), "cannot have commands"),
        (
            of_arms(a=ArmFile(boot=("x",)), b=ArmFile(service=ServiceFile(name="irqbalance.service", state="stopped"))),
            "arm b: a trial that boots this machine cannot have commands",
        ),
        (of_arms(**{"a.b": ArmFile(boot=("x",)), "a-b": ArmFile(boot=("y",))}), "arms a.b and a-b would have the same"),
        (of_arms(a=ArmFile(boot=("x",)), A=ArmFile(boot=("y",))), "arms a and A would have the same boot entry"),
        (of_arms(rehearsal=ArmFile(boot=("x",))), "arm rehearsal: ktrial itself has a boot entry"),
        (of_arms(trial=ArmFile(boot=("x",))), "arm trial: ktrial itself has a boot entry"),
    ],
)
def test_what_a_boot_of_this_machine_cannot_be_is_refused(trial: TrialFile, told: str) -> None:
    with pytest.raises((BadInput, Contradiction)) as caught:
        check_trial_file(trial)
    assert told in caught.value.message


def test_settings_variables_and_parameters_may_be_together_with_words() -> None:
    arm = ArmFile(
        boot=("x",), set={"vm.swappiness": 1}, profile="ktweak", environment={"A": "1"}, parameters={"duration_s": 1}
    )
    check_trial_file(of_arms(a=arm))


@given(NAMES)
def test_an_entry_has_a_name_that_every_loader_takes(name: str) -> None:
    entry = entry_of(name)
    assert entry.startswith("ktrial-")
    assert set(entry) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")


@given(st.sets(NAMES, min_size=2, max_size=4))
def test_arms_that_pass_have_entries_of_their_own(names: set[str]) -> None:
    trial = of_arms(**{name: ArmFile(boot=("x",)) for name in names})
    try:
        check_boot_arms(trial)
    except BadInput:
        return
    assert len({entry_of(name).lower() for name in trial.arms}) == len(trial.arms)


def test_each_arm_is_shown_by_its_entry_and_each_visit_is_a_boot() -> None:
    trial = with_boot_signs(of_arms(full=ARMS["full"], old=ArmFile(kernel="6.1")), {"old": "6.1.0-12-amd64"})
    assert (trial.design.replicate, is_by_hand(trial)) == ("boot", True)
    expect: Mapping[str, Mapping[str, Any]] = {name: arm.expect for name, arm in trial.arms.items()}
    assert expect["control"] == {LINE: "ktrial.boot=ktrial-control"}
    assert expect["full"] == {LINE: "ktrial.boot=ktrial-full nohz_full=2-9 !quiet !quiet=*"}
    assert expect["old"]["kernel.release"] == "6.1.0-12-amd64"
    assert trial.arms["full"].manual == "boot the entry ktrial-full"
    check_trial_file(trial)


def test_a_part_of_a_question_over_boots_boots_for_settings_alone() -> None:
    plain = of_arms(only=ArmFile(set={"vm.swappiness": 1}))
    trial = with_boot_signs(plain, {})
    assert (boots_this_machine(plain), boots_this_machine(trial)) == (False, True)
    check_trial_file(trial)
    by_hand = of_arms(only=ArmFile(manual="boot it", expect={LINE: "ktrial.boot=ktrial-other"}))
    assert not boots_this_machine(by_hand)


def test_a_ladder_over_boots_may_begin_with_a_baseline() -> None:
    trial = msgspec.structs.replace(of_arms(full=ARMS["full"]), baseline="distro", questions="ladder")
    check_trial_file(with_boot_signs(trial, {}))


def test_a_trial_that_has_run_can_be_run_again() -> None:
    trial = with_boot_signs(msgspec.structs.replace(TRIAL, design=DesignFile(seed=1)), {})
    again = parse_trial_file(trial_text(trial).encode(), "t.toml")
    assert with_boot_signs(again, {}) == trial


@given(st.lists(WORDS, max_size=4), st.lists(st.tuples(st.booleans(), WORDS), min_size=1, max_size=3))
def test_the_changed_line_shows_the_arm_and_others_do_not(base: list[str], asked: list[tuple[bool, str]]) -> None:
    texts = [f"-{word}" if removes else word for removes, word in asked]
    try:
        line = change_line(tuple(base), parse_changes(texts))
    except KtrialError:
        assume(False)
    trial = with_boot_signs(of_arms(a=ArmFile(boot=tuple(texts)), b=ArmFile(boot=("zz",))), {})
    booted = " ".join([*line.base, *(word.text for word in line.words)])
    assert shows(trial.arms["a"], f"{booted} {MARK}=ktrial-a") is Truth.YES
    assert shows(trial.arms["b"], f"{booted} zz {MARK}=ktrial-a") is Truth.NO
    assert shows(trial.arms["a"], " ".join(base)) is Truth.NO


@pytest.mark.parametrize(
    "words, boot, settings",
    [
        (["boot:nohz_full=2-9", "vm.swappiness=1"], ("nohz_full=2-9",), {"vm.swappiness": "1"}),
        (["boot:threadirqs=on"], ("threadirqs",), {}),
        (["boot:psi=off"], ("-psi",), {}),
    ],
)
def test_words_of_try_become_words_of_the_boot(words: list[str], boot: tuple[str, ...], settings: Any) -> None:
    arms = arms_of(words, load_catalog(), {}, placebo=False)
    (tried,) = (arm for name, arm in arms.items() if name != "control")
    assert (tried.boot, tried.set) == (boot, settings)
    assert boots_this_machine(msgspec.structs.replace(TRIAL, arms=arms))


def test_several_values_of_a_word_are_an_arm_each() -> None:
    arms = arms_of(["boot:preempt=none,full", "vm.swappiness=1"], load_catalog(), {}, placebo=True)
    assert [arm.boot for arm in arms.values()] == [(), (), ("preempt=none",), ("preempt=full",)]
    assert [dict(arm.set) for arm in arms.values()][2:] == [{"vm.swappiness": "1"}] * 2
