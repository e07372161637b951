# SPDX-License-Identifier: Apache-2.0
"""`ktrial schedulers` on a machine of files whose schedulers are shell scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.cli.shared import schedulers
from tests.support.tree import FakeRoot
from tests.trial.system.test_trial_arms import FAKE_SCX

STATE = "/sys/kernel/sched_ext/state"
#: Stands for a scheduler that looks for a topology and does not find it.
WIDE = "#!/bin/sh\necho 'Error: no second LLC, and this scheduler needs two' >&2\nexit 1\n"
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
    assert "left out: wide: " in ran.err
    assert "no second LLC, and this scheduler needs two" in ran.err
    assert ran.err.count("run discarded: the arm was lost") == 1
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["fake", "bandwidth"] in [line[:2] for line in lines]
    assert "fake: 1 failed run" in ran.out
    assert lines[-1][0] in {"stay", "use"}
    assert machine.read(STATE) == "disabled\n"
    again = machine.run("trial", "show")
    assert again.out == ran.out


def test_what_cannot_be_compared_is_refused(machine: FakeRoot) -> None:
    ran = machine.run("schedulers", *LOAD)
    assert (ran.status, "no sched_ext scheduler is installed here" in ran.err) == (2, True), ran.err
    ran = machine.run("schedulers", "--mode", "gaming", *LOAD)
    assert "cannot use modes: scx_loader does not answer" in ran.err
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
