# SPDX-License-Identifier: Apache-2.0
"""`ktrial with`: settings are in force while a command runs, and come back however it or ktrial ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from ktrial.tuning.state.lock import MachineLock
from tests.support.terminal import Terminal
from tests.support.tree import FakeRoot

SWAPPINESS = "/proc/sys/vm/swappiness"
IN_FORCE = "setting is in force until the command ends"
LIMIT_S = 20.0


def eventually(holds: Callable[[], bool], what: object = "") -> None:
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Started:
    """A running `ktrial with`."""

    def __init__(self, root: FakeRoot, *words: str, stdin: int | IO[bytes] | None = None) -> None:
        argv = [sys.executable, "-m", "ktrial", "--machine-root", str(root.folder), "with", *words]
        self.process = subprocess.Popen(
            argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def ready(self) -> Started:
        """Wait until the command has written a line."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.process.communicate(timeout=LIMIT_S)
        return self

    def end(self) -> tuple[int, str, str]:
        """The exit status, and what the command and ktrial wrote."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out, err


@pytest.fixture
def start(root: FakeRoot) -> Iterator[Callable[..., Started]]:
    """Start one that ends with the test."""
    running: list[Started] = []

    def starting(*words: str) -> Started:
        running.append(Started(root, *words))
        return running[-1]

    yield starting
    for one in running:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()
        for stream in (one.process.stdout, one.process.stderr):
            assert stream is not None
            stream.close()


def waiting(file: Path) -> tuple[str, ...]:
    """A command that says that it runs, and ends when the file exists or its folder has gone."""
    return ("sh", "-c", f"echo ready; until test -e {file} || ! test -d {file.parent}; do sleep 0.05; done")


def test_a_command_has_the_settings_and_its_own_input_output_and_status(root: FakeRoot, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("typed\n")
    script = f"cat {root.folder}{SWAPPINESS}; cat; echo beside >&2; exit 7"
    with file.open("rb") as stdin:
        status, out, err = Started(root, "vm.swappiness=10", "--", "sh", "-c", script, stdin=stdin).end()
    assert (status, out) == (7, "10\ntyped\n")
    assert err == f"ktrial: 1 {IN_FORCE}\nbeside\nktrial: the command ended; 1 of 1 restored\n"
    assert root.read(SWAPPINESS) == "60\n"


def test_quiet_says_nothing_unless_something_is_wrong(root: FakeRoot) -> None:
    assert Started(root, "vm.swappiness=10", "-q", "--", "true").end() == (0, "", "")
    script = f"echo 33 > {root.folder}{SWAPPINESS}"
    status, _, err = Started(root, "vm.swappiness=10", "-q", "--", "sh", "-c", script).end()
    assert status == 0
    assert "0 of 1 restored" in err
    assert "changed by somebody else since: left alone (now 33)" in err
    assert root.read(SWAPPINESS) == "33\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_ktrial_ends_the_command_and_everything_comes_back(
    root: FakeRoot, start: Callable[..., Started], number: signal.Signals
) -> None:
    running = start("vm.swappiness=10", "--", "sh", "-c", "echo ready; exec sleep 60").ready()
    assert root.read(SWAPPINESS) == "10\n"
    running.process.send_signal(number)
    status, _, err = running.end()
    assert status == 128 + number
    assert "1 of 1 restored" in err
    assert root.read(SWAPPINESS) == "60\n"


def test_ctrl_c_reaches_the_command_alone(root: FakeRoot) -> None:
    """A command that goes on after Ctrl-C keeps its settings."""
    script = f"trap 'echo caught; cat {root.folder}{SWAPPINESS}; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    words = ("--machine-root", str(root.folder), "with", "vm.swappiness=10", "--", "sh", "-c", script)
    terminal = Terminal([sys.executable, "-m", "ktrial", *words])
    terminal.wait_for("ready")
    terminal.type("\x03")
    terminal.wait_for("1 of 1 restored")
    assert terminal.process.wait(LIMIT_S) == 3
    assert "caught\r\n10\r\n" in terminal.said
    terminal.close()
    assert root.read(SWAPPINESS) == "60\n"


def test_if_ktrial_is_killed_its_lease_restores_the_values(
    root: FakeRoot, start: Callable[..., Started], tmp_path: Path
) -> None:
    running = start("vm.swappiness=10", "--", *waiting(tmp_path / "end")).ready()
    running.process.kill()
    eventually(lambda: root.read(SWAPPINESS) == "60\n")
    (tmp_path / "end").touch()


def test_if_agent_and_ktrial_are_killed_the_holder_of_the_lease_restores_the_values(
    root: FakeRoot, start: Callable[..., Started], tmp_path: Path
) -> None:
    running = start("vm.swappiness=10", "--", *waiting(tmp_path / "end")).ready()
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    agents = [int(pid) for pid in children if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    assert len(agents) == 1
    running.process.send_signal(signal.SIGSTOP)
    os.kill(agents[0], signal.SIGKILL)
    running.process.kill()
    eventually(lambda: root.read(SWAPPINESS) == "60\n")
    (tmp_path / "end").touch()


def test_an_agent_that_dies_under_the_command_is_told_and_its_lease_restores_the_values(
    root: FakeRoot, start: Callable[..., Started], tmp_path: Path
) -> None:
    running = start("vm.swappiness=10", "--", *waiting(tmp_path / "end")).ready()
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    for pid in children:
        if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            os.kill(int(pid), signal.SIGKILL)
    eventually(lambda: root.read(SWAPPINESS) == "60\n")
    (tmp_path / "end").touch()
    status, _, err = running.end()
    assert status == 0
    assert "ktrial restores the old values by itself" in err


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_commands_at_once_end_in_any_order(
    root: FakeRoot, start: Callable[..., Started], tmp_path: Path, order: tuple[int, ...]
) -> None:
    """The newest one that is left decides; the second one wants what is set already, and keeps it."""
    ends = [tmp_path / f"end{number}" for number in range(3)]
    values = ["10", "10", "30"]
    running = [
        start(f"vm.swappiness={value}", "--", *waiting(end)).ready() for value, end in zip(values, ends, strict=True)
    ]
    left = [0, 1, 2]
    for number in order:
        ends[number].touch()
        assert running[number].end()[0] == 0
        left.remove(number)
        assert root.read(SWAPPINESS) == (f"{values[max(left)]}\n" if left else "60\n")


def test_a_transaction_above_a_command_stays_until_it_is_reverted(
    root: FakeRoot, start: Callable[..., Started], tmp_path: Path
) -> None:
    running = start("vm.swappiness=10", "--", *waiting(tmp_path / "end")).ready()
    assert root.run("apply", "vm.swappiness=30", "--yes").status == 0
    (tmp_path / "end").touch()
    assert "1 stays until another command or transaction ends" in running.end()[2]
    assert root.read(SWAPPINESS) == "30\n"
    assert root.run("revert").status == 0
    assert root.read(SWAPPINESS) == "60\n"


def test_a_lease_of_another_kind_is_not_stacked_upon(root: FakeRoot) -> None:
    """`apply --for` and the arms of trials keep their knobs for themselves."""
    assert root.run("apply", "vm.swappiness=30", "--for", "10m", "--yes").status == 0
    status, out, err = Started(root, "vm.swappiness=10", "--", "echo", "ran").end()
    assert (status, out) == (1, "")
    assert "transaction 1 has a lease and also changes /proc/sys/vm/swappiness" in err
    status, out, err = Started(root, "vm.swappiness=10", "--anyway", "--", "echo", "ran").end()
    assert (status, out) == (0, "ran\n")
    assert "running the command without the settings" in err
    assert root.run("revert").status == 0


def test_trials_and_commands_exclude_each_other(root: FakeRoot, start: Callable[..., Started], tmp_path: Path) -> None:
    trial = MachineLock(root.folder)
    trial.take()
    status, out, err = Started(root, "vm.swappiness=10", "--anyway", "--", "echo", "ran").end()
    assert (status, out) == (4, "")
    assert f"a trial runs on this machine: process {os.getpid()}" in err
    trial.close()
    running = start("vm.swappiness=10", "--", *waiting(tmp_path / "end")).ready()
    (root.folder / ".ktrial-test-machine").touch()
    tried = root.run("try", "vm.swappiness=20", "--suite", "quick", "--yes-dangerous")
    assert tried.status == 1
    assert f"a command of `ktrial with` runs on this machine: process {running.process.pid}" in tried.err
    (tmp_path / "end").touch()
    running.end()


def test_nothing_is_applied_for_a_command_that_cannot_run(root: FakeRoot) -> None:
    for words, said in [
        (("vm.swappiness=10", "--", "no-such-program"), "no-such-program: no such program"),
        (("vm.swappiness=10",), "no command after --"),
        (("vm.swappiness=10", "--"), "no command after --"),
        (("vm.swappiness=900", "--", "true"), "out of range"),
        (("no-such-profile", "--", "true"), "unknown"),
        (("--", "true"), "no profile or setting given"),
    ]:
        status, _, err = Started(root, *words).end()
        assert status == 2, err
        assert said in err
    status, _, err = Started(root, "net.ipv4.tcp_syncookies=0", "--", "true").end()
    assert (status, "cannot use dangerous settings: net.ipv4.tcp_syncookies" in err) == (4, True)
    assert not (root.folder / "var/lib/ktrial").exists()


def test_settings_that_are_skipped_are_named(root: FakeRoot) -> None:
    status, _, err = Started(root, "vm.swappiness=10", "boot:nohz_full=2-9", "--", "true").end()
    assert status == 0
    assert f"1 {IN_FORCE}; skipped: boot:nohz_full" in err
    status, out, err = Started(root, "boot:nohz_full=2-9", "--", "echo", "ran").end()
    assert (status, out) == (1, "")
    assert "every setting was skipped" in err
