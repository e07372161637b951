# SPDX-License-Identifier: Apache-2.0
"""`keep` and `keep --undo` are killed: after `recover` the tree is wholly as before or wholly as after."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ktrial.tuning.lasting.model import PLACES
from tests.agent.system.test_crash import STATE, Machine, Tree, content, restore
from tests.support.long import IS_LONG
from tests.support.tree import FakeRoot

# With the other tests of an agent that dies: one worker builds it once.
pytestmark = pytest.mark.xdist_group("faults")

#: The plans, by the number of disks that they set: the more, the more steps to die at.
DISKS = range(40, 80, 4) if IS_LONG else (40,)
KILLS = 2000 if IS_LONG else 60
WORDS = ("vm.swappiness=10", "vm.page-cluster=0", "thp:enabled=always", "queue:scheduler@*=kyber")


def kept_machine(agent: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, disks: int) -> Machine:
    """A fake machine, and the plan that the head makes to keep settings of three kinds."""
    monkeypatch.setenv("HOME", str(folder))
    root = FakeRoot(folder / "root")
    root.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    for number in range(disks):
        root.write(f"/sys/block/sd{number}/queue/scheduler", "[none] mq-deadline kyber\n")
    root.write("/etc/tmpfiles.d/own.conf", "")
    root.write("/etc/udev/udev.conf", "")
    (root.folder / "etc/tmpfiles.d").chmod(0o750)
    planned = root.run("keep", *WORDS, "--dry-run", "--json")
    assert planned.status == 0, planned.err
    plan = folder / "plan.json"
    plan.write_text(json.dumps(planned.json["plan"]))
    shutil.rmtree(root.folder / "var", ignore_errors=True)
    return Machine(agent, root.folder, STATE, plan, folder / "count")


def spread(points: int) -> list[int]:
    """Return the plan's share of the steps to die at, evenly from the first to the last."""
    share = KILLS // len(DISKS)
    assert points >= share
    return sorted({1 + (points - 1) * at // (share - 1) for at in range(share)})


def settled(machine: Machine, start: Tree, after: Tree) -> bool:
    """Recover; whether the tree is as after. It is as before otherwise, and nothing else."""
    machine.succeed("recover")
    is_after = machine.newest_state() == "applied"
    assert content(machine.root) == (after if is_after else start)
    return is_after


@pytest.mark.parametrize("disks", DISKS)
@pytest.mark.parametrize("kind", ["kill", "power"])
def test_keep_killed_anywhere_is_wholly_done_or_not_at_all(
    fault_agent: Path, memory_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, disks: int
) -> None:
    machine = kept_machine(fault_agent, memory_path, monkeypatch, disks)
    start = content(machine.root)
    points = machine.points("apply", str(machine.plan))
    after = content(machine.root)
    assert {PLACES["sysctl.d"][1:], PLACES["tmpfiles.d"][1:], PLACES["udev"][1:]} <= set(after)
    complete = 0
    for at in spread(points):
        restore(machine.root, start)
        machine.forget()
        machine.die("apply", str(machine.plan), at=at, kind=kind)
        complete += settled(machine, start, after)
    assert complete <= 3


@pytest.mark.parametrize("disks", DISKS)
@pytest.mark.parametrize("kind", ["kill", "power"])
def test_keep_undo_killed_anywhere_is_finished(
    fault_agent: Path, memory_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, disks: int
) -> None:
    machine = kept_machine(fault_agent, memory_path, monkeypatch, disks)
    start = content(machine.root)
    machine.succeed("apply", str(machine.plan))
    after = content(machine.root)
    journals, aside = machine.root / STATE.lstrip("/"), memory_path / "journals"
    shutil.copytree(journals, aside)
    points = machine.points("revert", "--only", "1")
    assert content(machine.root) == start
    not_begun = 0
    for at in spread(points):
        restore(machine.root, after)
        machine.forget()
        shutil.copytree(aside, journals)
        machine.die("revert", "--only", "1", at=at, kind=kind)
        not_begun += settled(machine, start, after)
    assert not_begun <= 7
