# SPDX-License-Identifier: Apache-2.0
"""Two trials at once on one machine: kept in different places, started by different users."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ktrial.kit.errors import Busy
from ktrial.tuning.state.lock import MachineLock
from tests.support.tree import FakeRoot
from tests.support.trial_process import TrialProcess

#: An ordinary user that every system has; nothing needs its name.
SOMEBODY = 65_534
TRY = ("try", "vm.swappiness=10", "--settle", "0s", "--no-profile", "--budget", "9", "--suite", "agent-memcpy")
SHORT = (*TRY, "-p", "bytes=1048576", "-p", "duration_s=0.1")
LONG = (*TRY, "-p", "bytes=1048576", "-p", "duration_s=3")
LIMIT_S = 60.0


@pytest.fixture
def first(root: FakeRoot, tmp_path: Path) -> Iterator[TrialProcess]:
    """A trial that goes on for long, in a store of its own."""
    root.write("/.ktrial-test-machine", "")
    process = TrialProcess(
        ["--machine-root", str(root.folder), "--store", str(tmp_path / "first.db")], LONG, tmp_path / "said"
    )
    try:
        wait_until(lambda: "at most" in process.said)
        yield process
    finally:
        process.end()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_trial_of_another_store_is_refused_and_told_who_holds_the_machine(
    root: FakeRoot, first: TrialProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    ran = root.run(*SHORT)
    assert ran.status == 1
    said = " ".join(ran.err.split())
    assert f"another trial runs on this machine: process {first.process.pid} of " in said
    assert "`ktrial --machine-root" in said
    assert ", since 20" in said
    assert f"into {tmp_path}/first.db" in said
    assert "even with separate stores" in said
    assert not (tmp_path / "elsewhere").exists(), "nothing was written"


def test_a_kill_lets_the_next_one_in(
    root: FakeRoot, first: TrialProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first.process.send_signal(signal.SIGKILL)
    first.process.wait(LIMIT_S)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    ran = root.run(*SHORT)
    assert ran.status == 0, ran.err
    assert root.read("/proc/sys/vm/swappiness") == "60\n"


def test_another_machine_is_not_waited_for(first: TrialProcess, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = FakeRoot(tmp_path / "other")
    other.write("/.ktrial-test-machine", "")
    ran = other.run("--store", str(tmp_path / "other.db"), "trial", "list")
    assert ran.status == 0, ran.err
    lock = MachineLock(other.folder)
    lock.take()
    lock.close()
    assert first.process.poll() is None


def as_somebody(what: Callable[[], str]) -> str:
    """What a function comes to in a process of an ordinary user's."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(SOMEBODY, SOMEBODY, SOMEBODY)
            os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
            os.write(writing, what().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as told:
        text = told.read()
    os.waitpid(child, 0)
    return text


def attempt() -> str:
    lock = MachineLock()
    try:
        lock.take()
    except Busy as error:
        return error.message
    finally:
        lock.close()
    return "taken"


@pytest.mark.root
def test_users_keep_each_other_away_from_the_real_machine(real_machine: None) -> None:
    assert as_somebody(attempt) == "taken"
    mine = MachineLock()
    mine.take()
    try:
        assert f"process {os.getpid()} of root, since 20" in as_somebody(attempt)
    finally:
        mine.close()
    assert as_somebody(attempt) == "taken"
