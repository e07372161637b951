# SPDX-License-Identifier: Apache-2.0
"""`ktrial why` of names and paths: of the catalog, of the machine alone, and of neither."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ktrial.agent.clock import SystemClock
from tests.support.tree import FakeRoot


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = FakeRoot(tmp_path / "root")
    found.write("/proc/sys/kernel/sysrq", "176\n")
    found.write("/proc/sys/net/ipv4/conf/eth0.100/log_martians", "1\n")
    found.write("/sys/kernel/mm/ksm/merge_across_nodes_x", "[yes] no\n")
    found.write("/etc/sysctl.d/10-keys.conf", "kernel.sysrq = 1\n# later\nkernel.sysrq = 176\n")
    found.write("/etc/sysctl.d/20-net.conf", "net.ipv4.conf.eth0/100.log_martians = 1\n")
    found.write("/etc/tmpfiles.d/ksm.conf", "w /sys/kernel/mm/ksm/merge_across_nodes_x - - - - yes\n")
    return found


@pytest.mark.parametrize(
    "name, shown, setter",
    [
        ("kernel.sysrq", "kernel.sysrq = 176", "sysctl.d, /etc/sysctl.d/10-keys.conf:3"),
        ("kernel/sysrq", "kernel.sysrq = 176", "sysctl.d, /etc/sysctl.d/10-keys.conf:3"),
        ("/proc/sys/kernel/sysrq", "kernel.sysrq = 176", "sysctl.d, /etc/sysctl.d/10-keys.conf:3"),
        (
            "net.ipv4.conf.eth0/100.log_martians",
            "net.ipv4.conf.eth0/100.log_martians = 1",
            "sysctl.d, /etc/sysctl.d/20-net.conf:1",
        ),
        (
            "/sys/kernel/mm/ksm/merge_across_nodes_x",
            "/sys/kernel/mm/ksm/merge_across_nodes_x = yes",
            "tmpfiles.d, /etc/tmpfiles.d/ksm.conf:1",
        ),
    ],
)
def test_what_the_catalog_lacks_is_answered_from_the_files(
    machine: FakeRoot, name: str, shown: str, setter: str
) -> None:
    ran = machine.run("why", name)
    assert ran.status == 0, ran.err
    assert ran.out.splitlines()[0] == shown
    assert f"  set by        {setter}" in ran.out
    assert "unknown: the catalog lacks it" in ran.out


def test_what_somebody_keeps_writing_is_seen(machine: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter(["1\n", "1\n", "176\n"])

    def sleep(_: SystemClock, seconds: float) -> None:
        time.sleep(seconds)
        machine.write("/proc/sys/kernel/sysrq", next(values, "176\n"))

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    ran = machine.run("why", "kernel.sysrq", "--watch", "1s", "--json")
    told = json.loads(ran.out)
    assert told["watched_s"] == 1.0
    seen = [(one["address"], one["before"], one["now"]) for one in told["changes"]]
    assert seen == [("kernel.sysrq", "176", "1"), ("kernel.sysrq", "1", "176")]
    ran = machine.run("why", "kernel.sysrq", "--watch", "300ms")
    assert ran.out.endswith("\n\nWatched for 0.3 s: nobody changed a value.\n"), ran.out
    assert machine.run("why", "kernel.sysrq", "--watch", "soon").status == 2


def test_a_path_of_the_catalog_is_its_knob(machine: FakeRoot) -> None:
    assert machine.run("why", "/proc/sys/vm/swappiness").out == machine.run("why", "vm.swappiness").out


@pytest.mark.parametrize(
    "name, why",
    [
        ("vm.swapiness", "did you mean vm.swappiness?"),
        ("kernel.nosuch", "unknown knob: 'kernel.nosuch'"),
        ("/proc/sys/kernel/nosuch", "/proc/sys/kernel/nosuch: no such file on this machine"),
        ("/sys/power/state", "/sys/power/state is outside the folders of settings"),
        ("/sys/kernel/../power/state", "unknown knob"),
        ("/etc/passwd", "unknown knob"),
    ],
)
def test_what_neither_has_is_an_error(machine: FakeRoot, name: str, why: str) -> None:
    ran = machine.run("why", name)
    assert ran.status == 2
    assert why in ran.err
    assert "\n  next: " in ran.err
