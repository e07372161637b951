# SPDX-License-Identifier: Apache-2.0
"""`ktrial schedulers` on a machine of files whose schedulers are shell scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktrial.cli.shared import schedulers
from tests.support.tree import FakeRoot
from tests.trial.system.test_trial_arms import FAKE_SCX

STATE = "/sys/kernel/sched_ext/state"
#: Stands for a scheduler that looks for a topology and does not find it.
WIDE = "#!/bin/sh\necho 'Error: no second LLC, and this scheduler needs two' >&2\nexit 1\n"
#: Stands for live work that is faster under another scheduler.
WORK = """#!/bin/sh
grep -q enabled {folder}/sys/kernel/sched_ext/state && echo 2.$(date +%N) || echo 9.$(date +%N)
"""
LOAD = ("--suite", "agent-memcpy", "-p", "duration_s=0.3", "-p", "bytes=1048576", "--budget", "7", "--settle", "0s")


@pytest.fixture
def machine(root: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    """A machine with sched_ext and without scx_loader; `bin` is its only folder of programs."""
    monkeypatch.chdir(root.folder.parent)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus")
    monkeypatch.setattr(schedulers, "PROGRAM_FOLDERS", (str(root.folder.parent / "bin"),))
    root.write("/.ktrial-test-machine", "")
    root.write(STATE, "disabled\n")
    return root


def install(machine: FakeRoot, name: str, text: str) -> None:
    """The head looks for a program on this machine, the agent below its root."""
    program = machine.folder.parent / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(text.format(folder=machine.folder) if "{folder}" in text else text)
    program.chmod(0o755)
    machine.write(str(program), program.read_text())
    Path(f"{machine.folder}{program}").chmod(0o755)


@pytest.mark.root
def test_each_is_judged_one_that_cannot_start_is_left_out_and_an_ejection_is_told(machine: FakeRoot) -> None:
    install(machine, "scx_fake", FAKE_SCX)
    install(machine, "scx_wide", WIDE)
    ran = machine.run("schedulers", *LOAD, "--no-profile", "--anyway")
    assert ran.status == 0, ran.err
    assert "skipped wide: " in ran.err
    assert "no second LLC, and this scheduler needs two" in ran.err
    assert ran.err.count("run discarded: the arm was lost") == 1
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["fake", "bandwidth"] in [line[:2] for line in lines]
    assert "fake: 1 failed run" in ran.out
    assert lines[-1][0] in {"stay", "use"}
    assert machine.read(STATE) == "disabled\n"
    again = machine.run("trial", "show")
    assert again.out == ran.out


@pytest.mark.root
def test_live_work_decides_and_an_ejection_fails_its_period(machine: FakeRoot) -> None:
    install(machine, "scx_fake", FAKE_SCX)
    install(machine, "work", WORK)
    work = machine.folder.parent / "bin" / "work"
    watched = ("--live", "--metric", f"took_ms:lower=command:{work}", "--guard", "took_ms=50%")
    times = ("--period", "500ms", "--washout", "100ms", "--poll", "100ms", "--budget", "7")
    ran = machine.run("schedulers", *watched, *times)
    assert ran.status == 0, ran.err
    assert re.search(r"fake: 1 failed run of \d+; the last: the arm was lost: ", " ".join(ran.out.split())), ran.out
    # It is faster, but the period in which it failed has no value.
    assert re.search(r"^fake +took +undecided +-\d+ %", ran.out, re.MULTILINE), ran.out
    assert "stay with control: no scheduler is shown to be better" in ran.out
    assert machine.read(STATE) == "disabled\n"
    assert machine.run("trial", "recheck").status == 0


@pytest.mark.root
def test_a_limit_of_live_work_gives_it_back_to_the_kernels_own_scheduler(machine: FakeRoot) -> None:
    install(machine, "scx_fake", FAKE_SCX)
    install(machine, "work", WORK)
    work = machine.folder.parent / "bin" / "work"
    watched = ("--live", "--metric", f"done:higher=command:{work}", "--limit-metric", "done=5", "--poll", "100ms")
    ran = machine.run("schedulers", *watched, "--period", "500ms", "--washout", "100ms", "--budget", "7")
    assert ran.status == 3, ran.err
    assert machine.read(STATE) == "disabled\n"


@pytest.mark.parametrize(
    "words, told",
    [
        (("--for", "2h"), "--for requires --live"),
        (("--live",), "nothing to watch"),
        (("--live", "--suite", "frames"), "cannot use --suite with --live"),
        (("--live", "--rate", "--", "make"), "cannot use a command after -- with --live"),
    ],
)
def test_options_of_live_work_go_with_live_work(machine: FakeRoot, words: tuple[str, ...], told: str) -> None:
    install(machine, "scx_fake", FAKE_SCX)
    ran = machine.run("schedulers", *words)
    assert (ran.status, told in ran.err) == (2, True), ran.err


def test_what_cannot_be_compared_is_refused(machine: FakeRoot) -> None:
    ran = machine.run("schedulers", *LOAD)
    assert (ran.status, "no sched_ext scheduler is installed here" in ran.err) == (2, True), ran.err
    ran = machine.run("schedulers", "--mode", "gaming", *LOAD)
    assert "cannot use --mode: scx_loader does not answer" in ran.err
    machine.write(STATE, "enabled\n")
    machine.write("/sys/kernel/sched_ext/root/ops", "lavd_1.0\n")
    ran = machine.run("schedulers", *LOAD)
    assert "a sched_ext scheduler is in force already: enabled, lavd_1.0" in ran.err
    assert "scxctl restore" in ran.err


@pytest.mark.root
def test_where_none_starts_nothing_is_measured(machine: FakeRoot) -> None:
    install(machine, "scx_wide", WIDE)
    ran = machine.run("schedulers", *LOAD)
    assert (ran.status, "no scheduler starts on this machine" in ran.err) == (2, True), ran.err
