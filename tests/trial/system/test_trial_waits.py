# SPDX-License-Identifier: Apache-2.0
"""A trial on a fake machine whose lock another process holds for a while."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from tests.support.tree import FakeRoot

HELD_S = 4.0


def hold(lock: Path, held: threading.Event) -> None:
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{os.getpid()}\n")
        file.flush()
        held.set()
        time.sleep(HELD_S)


def test_a_trial_waits_for_who_changes_the_machine_and_says_who_it_is(root: FakeRoot) -> None:
    root.write("/.ktrial-test-machine", "")
    assert root.run("apply", "vm.page-cluster=2", "--yes").status == 0
    assert root.run("revert").status == 0
    held = threading.Event()
    other = threading.Thread(target=hold, args=(root.folder / "var/lib/ktrial/lock", held))
    other.start()
    assert held.wait(10)
    load = ("--suite", "agent-memcpy", "-p", "duration_s=0.1", "-p", "bytes=1048576")
    ran = root.run("try", "vm.swappiness=10", "--settle", "0s", "--no-profile", "--budget", "9", *load)
    other.join(10)
    assert ran.status == 0, ran.err
    assert ran.err.count(f"process {os.getpid()} holds the lock") == 1
    assert "waiting up to 60 s" in ran.err
    assert root.read("/proc/sys/vm/swappiness") == "60\n"
