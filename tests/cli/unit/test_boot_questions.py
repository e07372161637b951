# SPDX-License-Identifier: Apache-2.0
"""`ktrial blame --boot` on a folder that stands for a machine and boots: from the first entry to the answer.

Beside it `ladder` and `kernel trial`, whose single trial boots the machine in the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.cli.shared import boot_questions
from ktrial.judge.model.log import RunEnded, TrialEnd
from ktrial.results.store.database import Database
from ktrial.studies.blame.blame import follow
from ktrial.studies.blame.model import BlamePart, BlameQuestion
from ktrial.trial.arms.boot_arms import entry_of
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.store import StoredTrials
from tests.support.boot_machine import ENTRIES, ENVIRONMENT, GRUB_ENVIRONMENT, NEXT_UNIT, BootedMachine
from tests.support.tree import FakeRoot

#: Five suspects, of which one makes the work a fifth larger.
CULPRIT = "nohz_full=2-9"
WORDS = ("skew_tick=1", CULPRIT, "threadirqs", "preempt=full")
SETTING = "vm.swappiness=10"
#: Work that also depends a little on the boot.
LOAD = """#!/bin/sh
noise=$(( $(cut -c1-8 {root}/proc/sys/kernel/random/boot_id | sed 's/^0*//') * 7919 % 23 ))
if grep -qw {culprit} {root}/proc/cmdline; then echo work $((1200 + noise)); else echo work $((1000 + noise)); fi
"""


@pytest.fixture
def machine(root: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BootedMachine:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("KTRIAL_STORE", raising=False)
    monkeypatch.chdir(tmp_path / "home")
    machine = BootedMachine(root, tmp_path / "home", monkeypatch)
    machine.add_program(str(tmp_path / "home" / "work"), LOAD.format(root=root.folder, culprit=CULPRIT))
    # The head looks for it too.
    (tmp_path / "home" / "work").touch(0o755)
    return machine


def blame(*more: str, words: Sequence[str] = WORDS) -> list[str]:
    boots = [part for word in words for part in ("--boot", word)]
    measured = ["--metric", "work:lower=work ([0-9]+)", "--primary", "work", "--known", "worse", "--seed", "7"]
    return ["blame", SETTING, *boots, *measured, "--settle", "0s", *more, "--", str(Path.cwd() / "work")]


def trials() -> StoredTrials:
    database = Database.open(str(Path.home() / ".local/state/ktrial/results.db"))
    return StoredTrials(lambda: database)


def questions() -> list[Path]:
    return sorted((Path.home() / ".local/state/ktrial/boot-questions").glob("*"))


def test_without_yes_it_shows_the_boots_and_writes_nothing(machine: BootedMachine) -> None:
    before = machine.files()
    shown = machine.run(*blame())
    assert shown.status == 0, shown.err
    said = " ".join(shown.out.split())
    assert "control as booted now halves 30 more entries, each with a random part of vm.swappiness" in said
    assert "boots at most 144, about 7 h 12 min plus the runs, at 3 min 0 s a boot, without repeated blocks" in said
    assert "overall 67 to 271, about" in said
    assert "nothing was started; add --yes to let this machine reboot for the trials" in shown.err
    assert (machine.files(), machine.boots, questions()) == (before, [], [])
    assert machine.run("trial", "list", "--json").json["trials"] == []


@pytest.mark.timeout(1800)
def test_one_of_five_suspects_is_named_over_all_boots_and_nothing_is_left(machine: BootedMachine) -> None:
    before = machine.files()
    started = machine.run(*blame("--yes"))
    assert started.status == 0, started.err
    assert machine.go_on(4) == 4
    machine.boot()  # the power fails before the visit: nothing is armed, so the default entry boots
    machine.go_on()
    assert [one.err for one in machine.said if one.status] == []
    assert machine.boots[-1] == ""
    assert machine.files() == before
    # After each trial the machine boots the default entry, and once more after the power cut.
    kinds = [one.file.name.partition(".")[2] for one in reversed(trials().all())]
    assert kinds == ["screen-1", "confirm-1", "alone-1"]
    assert machine.boots.count("") == len(kinds) + 1
    visits = {name for name in machine.boots if name}
    assert {"ktrial-control", "ktrial-all", "ktrial-without", "ktrial-only-1"} <= visits
    shown = machine.run("trial", "show")
    headline = f"responsible out of 5 settings: boot:{CULPRIT}"
    assert headline in " ".join(shown.out.split()), shown.out
    again = machine.run(*blame("--yes", "--json"))
    assert (again.status, "was answered before; --fresh asks again" in again.err) == (0, True), again.err
    found = json.loads(again.out)["blame"]
    assert [(one["factors"], one["kind"]) for one in found["culprits"]] == [([f"boot:{CULPRIT}"], "alone")]
    for one in trials().all():
        assert machine.run("trial", "recheck", one.trial).status == 0
    fresh = machine.run(*blame("--fresh"))
    assert "nothing was started; add --yes" in fresh.err


def test_a_question_that_was_stopped_goes_on_with_the_same_command(machine: BootedMachine) -> None:
    before = machine.files()
    assert machine.run(*blame("--yes")).status == 0
    assert machine.go_on(3) == 3
    (question,) = questions()
    other = machine.run(*blame("--yes"))
    assert (other.status, "another boot is prepared" in other.err) == (4, True), other.err
    stopped = machine.run("trial", "stop", question.stem)
    assert (stopped.status, f"stopped {question.stem} in its trial" in stopped.err) == (0, True), stopped.err
    assert "run the same `ktrial blame` command again to continue" in stopped.err
    assert machine.files() == before
    machine.boot()
    assert machine.go_on() == 0
    assert "no answer yet; 1 trial so far" in machine.run("trial", "show").out
    (first,) = trials().all()
    runs = len(machine.run("show", first.session, "--json").json["runs"])
    assert runs >= 3
    assert machine.run(*blame("--yes")).status == 0
    assert machine.go_on(2) == 2
    assert questions() == [question]
    (same,) = trials().all()
    assert same.trial == first.trial
    assert len(machine.run("show", first.session, "--json").json["runs"]) > runs
    assert machine.run("trial", "stop").status == 0
    assert machine.files() == before


def test_many_suspects_have_an_entry_for_each_half(machine: BootedMachine) -> None:
    before = machine.files()
    more = ("noautogroup", "delayacct", "schedstats=enable", "printk.devkmsg=on", "transparent_hugepage=never")
    started = machine.run(*blame("--yes", words=(*WORDS, *more)))
    assert started.status == 0, started.err
    (trial,) = trials().all()
    wanted = {entry_of(name) for name, arm in trial.file.arms.items() if not arm.placebo}
    assert set(re.findall(r"--id '(\S+)'", machine.root.read(ENTRIES))) == wanted
    assert len(wanted) > 100
    assert machine.boots[0].startswith("ktrial-on-")
    assert machine.run("trial", "stop").status == 0
    assert machine.files() == before


def second_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first trial, whatever it found, let the question try its setting alone."""

    def asked(question: BlameQuestion, parts: Sequence[BlamePart]) -> Any:
        first = follow(question, [])
        if not parts:
            return first
        assert isinstance(first, TrialFile)
        arms = {"control": ArmFile(), "only-1": question.arm(("vm.swappiness",))}
        design = msgspec.structs.replace(first.design, cap=9, seed=question.seed + 1)
        name = f"{question.name}.alone-1"
        return msgspec.structs.replace(first, name=name, arms=arms, design=design, screen=None)

    monkeypatch.setattr(boot_questions, "follow", asked)


def end_first_trial() -> None:
    kept = trials()
    (only,) = kept.all()
    kept.append(only.trial, [TrialEnd(reason="for a test")])


def test_the_next_trial_begins_in_the_default_boot_with_its_own_entries(
    machine: BootedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_trial(monkeypatch)
    before = machine.files()
    assert machine.run(*blame("--yes")).status == 0
    end_first_trial()
    assert machine.go_on(1) == 1
    assert machine.boots[1:] == [""]
    assert "begins in the default boot" in machine.said[-1].err
    assert machine.go_on(1) == 1
    assert machine.said[-1].status == 0, machine.said[-1].err
    entries = machine.root.read(ENTRIES)
    assert [name for name in ("control", "only-1", "on-1") if f"--id 'ktrial-{name}'" in entries] == [
        "control",
        "only-1",
    ]
    assert ".alone-1-" in machine.root.read(f"/{NEXT_UNIT}")
    assert machine.boots[2] in {"ktrial-control", "ktrial-only-1"}
    # An arm that is a setting alone has a boot for each visit too.
    assert machine.go_on(2) == 2
    assert set(machine.boots[2:4]) == {"ktrial-control", "ktrial-only-1"}
    assert machine.run("trial", "stop").status == 0
    assert machine.files() == before


class PowerCut(BaseException):
    """Nothing that the head does from now on happens."""


def test_a_power_cut_between_two_trials_costs_nothing(machine: BootedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    second_trial(monkeypatch)
    assert machine.run(*blame("--yes")).status == 0
    end_first_trial()
    assert machine.go_on(1) == 1

    def cut(*_: object) -> None:
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(boot_questions, "remove_boots", cut)
        with pytest.raises(PowerCut):
            machine.go_on(1)
    machine.boot()
    assert machine.boots[1:] == ["", ""]
    assert machine.go_on(1) == 1
    assert machine.boots[3] in {"ktrial-control", "ktrial-only-1"}
    assert len(trials().all()) == 2


@pytest.mark.parametrize(
    "damage, told",
    [
        ({"security": []}, "you have not confirmed nokaslr, which weakens this machine"),
        ({"schema": "ktrial.boot-question/9"}, "this version of ktrial cannot read the file"),
    ],
)
def test_what_cannot_go_on_leaves_nothing(
    machine: BootedMachine, monkeypatch: pytest.MonkeyPatch, damage: dict[str, Any], told: str
) -> None:
    second_trial(monkeypatch)
    before = machine.files()
    words = ("nokaslr", "threadirqs")
    refused = machine.run(*blame("--yes", words=words))
    assert (refused.status, "cannot use nokaslr, which weakens" in refused.err) == (4, True), refused.err
    assert (machine.files(), questions()) == (before, [])
    started = machine.run(*blame("--yes", "--yes-security", "nokaslr", words=words))
    assert started.status == 0, started.err
    (file,) = questions()
    assert json.loads(file.read_text())["security"] == ["nokaslr"]
    end_first_trial()
    file.write_text(json.dumps({**json.loads(file.read_text()), **damage}))
    monkeypatch.setattr(boot_questions, "follow", lambda question, parts: _with_words(question))
    machine.go_on(5)
    assert machine.said[-1].status != 0
    assert told in machine.said[-1].err
    assert machine.boots[-1] == ""
    assert machine.files() == before


def _with_words(question: BlameQuestion) -> TrialFile:
    first = follow(question, [])
    assert isinstance(first, TrialFile)
    arms = {"control": ArmFile(), "only-1": question.arm(("boot:nokaslr",))}
    design = msgspec.structs.replace(first.design, cap=9, seed=question.seed + 1)
    return msgspec.structs.replace(first, name=f"{question.name}.a", arms=arms, design=design, screen=None)


LADDER = """
name = "mine"
summary = "Two steps."
[[tier]]
name = "T1"
boot = ["preempt=full"]
why = "Words."
[[tier]]
name = "T2"
boot = ["threadirqs"]
why = "More words."
[[tier]]
name = "T3"
build = "Another kernel."
why = "A kernel."
"""


def test_tiers_with_words_and_kernels_boot_this_machine(machine: BootedMachine) -> None:
    Path("mine.toml").write_text(LADDER)
    words = ("ladder", "./mine.toml", "--suite", "wakeups-busy", "--budget", "9")
    before = machine.files()
    shown = machine.run(*words, "--boots")
    assert shown.status == 0, shown.err
    said = " ".join(shown.out.split())
    assert "control as booted now T1 preempt=full T2 preempt=full threadirqs boots at most 27" in said
    assert "T3 not run: needs a build" in " ".join(shown.err.split())
    assert "nothing was started; add --yes" in shown.err
    assert machine.files() == before
    missing = machine.run(*words, "--kernel", "T3=6.99")
    assert (missing.status, "unknown kernel: '6.99'" in missing.err) == (2, True), missing.err
    assert "`ktrial kernel package`" in " ".join(missing.err.split())
    both = machine.run(*words, "--boots", "--guest")
    assert (both.status, "cannot combine --boots with guests" in both.err) == (2, True), both.err


def test_a_ladder_that_begins_with_the_values_of_the_distribution_boots_its_tiers(machine: BootedMachine) -> None:
    machine.root.write("/etc/sysctl.d/50-distribution.conf", "vm.swappiness = 30\n")
    lowest = '[[tier]]\nname = "T0"\nprofile = "distro"\nwhy = "The control."\n'
    Path("mine.toml").write_text(LADDER.replace("[[tier]]", f"{lowest}[[tier]]", 1))
    measured = ("--metric", "work:lower=work ([0-9]+)", "--settle", "0s", "--budget", "9", "--no-profile")
    before = machine.files()
    words = ("ladder", "./mine.toml", *measured, "--boots", "--yes", "--", str(Path.cwd() / "work"))
    started = machine.run(*words)
    assert started.status == 0, started.err
    assert machine.go_on(4) == 4
    assert [one.err for one in machine.said if one.status] == []
    assert set(machine.boots[:3]) == {"ktrial-T0", "ktrial-T1", "ktrial-T2"}
    (trial,) = trials().all()
    runs = [event for event in trials().log(trial.trial) if isinstance(event, RunEnded) and event.block is not None]
    assert {event.arm for event in runs} == {"T0", "T1", "T2"}
    assert all(event.failure is None for event in runs)
    assert machine.run("trial", "stop").status == 0
    assert machine.files() == before


ALIKE = """
name = "alike"
command = ["{command}"]
metrics = ["work:lower=work ([0-9]+)"]
primary = "work"
[design]
budget = 9
cap = 9
runs_per_visit = 1
settle = "0s"
[arms.control]
boot = ["threadirqs"]
[arms.placebo]
placebo = true
"""


def test_an_entry_that_control_and_placebo_share_is_booted_for_every_visit(
    machine: BootedMachine, tmp_path: Path
) -> None:
    before = machine.files()
    (tmp_path / "alike.toml").write_text(ALIKE.format(command=Path.cwd() / "work"))
    started = machine.run("trial", "run", str(tmp_path / "alike.toml"), "--yes")
    assert started.status == 0, started.err
    machine.go_on()
    assert [one.err for one in machine.said if one.status] == []
    *visits, last = machine.boots
    assert (set(visits), last) == ({"ktrial-control"}, "")
    assert len(visits) >= 14, machine.said[-1].err
    assert all(" ends: " not in one.err for one in machine.said)
    assert machine.files() == before


def test_a_trial_whose_entry_fails_again_and_again_ends_with_the_reason(machine: BootedMachine, tmp_path: Path) -> None:
    before = machine.files()
    (tmp_path / "alike.toml").write_text(ALIKE.format(command=Path.cwd() / "work"))
    assert machine.run("trial", "run", str(tmp_path / "alike.toml"), "--yes").status == 0
    assert machine.go_on(2) == 2
    assert machine.boots == ["ktrial-control"] * 3
    machine.is_healthy = False
    machine.go_on()
    assert machine.boots[3:] == ["ktrial-control", ""] * 8
    (only,) = trials().all()
    said = f"{only.trial} ends: the last 8 boots of control failed; `ktrial boot status` says why"
    assert said in machine.said[-1].err
    shown = machine.run("boot", "status").out
    assert "last attempt failed its health check" in shown
    assert f"entry       ktrial-control of the trial {only.trial}" in shown
    assert machine.files() == before


def test_a_trial_whose_rehearsal_fails_boots_no_arm(machine: BootedMachine, tmp_path: Path) -> None:
    (machine.root.folder / "var/lib/ktrial/boots.jsonl").write_text("")
    before = machine.files()
    (tmp_path / "alike.toml").write_text(ALIKE.format(command=Path.cwd() / "work"))
    started = machine.root.run("trial", "run", str(tmp_path / "alike.toml"), "--yes")
    assert started.status == 0, started.err
    assert "next_entry=ktrial-rehearsal" in machine.root.read(GRUB_ENVIRONMENT)
    machine.root.write(GRUB_ENVIRONMENT, ENVIRONMENT)  # somebody chooses the default entry in the menu
    machine.boot()
    machine.go_on()
    assert machine.boots == [""]
    assert "ends: its rehearsal failed; `ktrial boot status` says why" in machine.said[-1].err
    assert "last attempt the rehearsal failed" in machine.run("boot", "status").out
    assert machine.files() == before


def test_kernels_on_trial_are_installed_ones_unless_there_are_guests(machine: BootedMachine) -> None:
    words = ("kernel", "trial", "running", "--boot", "preempt=full", "--placebo", "--suite", "wakeups-busy")
    before = machine.files()
    shown = machine.run(*words, "--budget", "7")
    assert shown.status == 0, shown.err
    assert "control as booted now preempt-full preempt=full boots at most 21" in " ".join(shown.out.split())
    assert machine.files() == before
    missing = machine.run(*words, "6.99")
    assert (missing.status, "unknown kernel: '6.99'" in missing.err) == (2, True), missing.err
    assert "`ktrial kernel package`" in " ".join(missing.err.split())
    started = machine.run(*words, "--budget", "7", "--yes")
    assert started.status == 0, started.err
    assert machine.boots[0] in {"ktrial-control", "ktrial-preempt-full"}
    assert machine.run("trial", "stop").status == 0
    assert machine.files() == before
