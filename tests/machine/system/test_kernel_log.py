# SPDX-License-Identifier: Apache-2.0
"""The kernel's log through the real agent."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from ktrial.cli.app import App
from ktrial.machine.watch_kernel_log import KernelLogWatch
from tests.support.tree import FakeRoot


def test_lines_that_came_between_two_looks(root: FakeRoot) -> None:
    root.write("/dev/kmsg", "6,0,1,-;booted\n4,1,2,-;an old warning\n")
    app = App(may_ask=False, machine_root=root.folder)
    watch = KernelLogWatch(app.user_session)
    watch.begin()
    root.write("/dev/kmsg", "4,1,2,-;an old warning\n4,2,3,-;a new warning\n SUBSYSTEM=cpu\n6,3,4,-;a word\n")
    found = watch.end()
    root.write("/dev/kmsg", "4,9,9,-;much later\n")
    lost = watch.end()
    (root.folder / "dev" / "kmsg").unlink()
    gone = watch.end()
    app.close()
    assert [(line.kind, line.number, line.text) for line in found.lines] == [("warning", 2, "a new warning")]
    assert (found.passed_over, found.could_not_tell) == (1, None)
    assert "overwritten" in (lost.could_not_tell or "")
    assert "cannot read" in (gone.could_not_tell or "")


def test_the_log_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.geteuid() == 0, "/dev/kmsg is for root: run ./check as root"
    monkeypatch.setenv("HOME", str(tmp_path))
    app = App(may_ask=False)
    session = app.root_session("reading the kernel's log")
    seen = session.request("kernel_log")
    assert isinstance(seen["newest"], int)
    assert seen["oldest"] <= seen["newest"]
    watch = KernelLogWatch(session)
    watch.begin()
    told = f"<4>ktrial test {os.getpid()}\n"
    Path("/dev/kmsg").write_text(told)
    found = watch.end()
    app.close()
    assert [line.text for line in found.lines if "ktrial test" in line.text] == [told.strip()[3:]]


def test_a_user_who_may_not_read_it_is_told_so(tmp_path: Path) -> None:
    restricted = Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() == "1"
    agent = Path(__file__).resolve().parents[3] / ".setup" / "bin" / "ktrial-agent"
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all"]
    said = subprocess.run(
        [*command, agent, "serve", "--role", "user"],
        input='{"id": 1, "do": "kernel_log"}\n',
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert bool(re.search(r'"unreadable":"cannot read /dev/kmsg: ', said)) == restricted, said
