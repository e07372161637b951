# SPDX-License-Identifier: Apache-2.0
"""Transactions as a user meets them, through the real agent on a fake machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.cli.app import App
from tests.support.tree import FakeRoot, use_compiled_catalog

SWAPPINESS = "/proc/sys/vm/swappiness"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setenv("HOME", str(tmp_path))
    use_compiled_catalog(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "root"
    folder.mkdir()
    return FakeRoot(folder)


def test_what_a_revert_left_alone_can_be_put_back_later(machine: FakeRoot) -> None:
    machine.run("apply", "vm.swappiness=10", "vm.page-cluster=0", "--yes")
    machine.write(SWAPPINESS, "77\n")
    reverted = machine.run("revert")
    assert reverted.status == 1
    left = reverted.out
    assert "changed by somebody else since: left alone (now 77)" in " ".join(left.split())
    assert machine.read(SWAPPINESS) == "77\n"
    (command,) = [line.split("`")[1].split()[1:] for line in left.splitlines() if line.startswith("next:")]
    assert command == ["revert", "--only", "1", "--force"]
    assert machine.run(*command).status == 0
    assert machine.read(SWAPPINESS) == "60\n"


@pytest.mark.parametrize("resolve", [("revert", "--force"), ("revert", "--all", "--force"), ()])
def test_what_was_left_alone_is_shown_until_it_is_as_before(machine: FakeRoot, resolve: tuple[str, ...]) -> None:
    machine.run("apply", "vm.swappiness=10", "vm.page-cluster=0", "--yes")
    machine.write(SWAPPINESS, "77\n")
    assert machine.run("revert").status == 1
    told = f"transaction 1 was reverted except {SWAPPINESS}, which somebody else has changed"
    assert told in " ".join(machine.run("status").out.split())
    assert told in " ".join(machine.run("doctor").out.split())
    again = machine.run("revert")
    assert (again.status, again.out, told in " ".join(again.err.split())) == (1, "Nothing to do.\n", True)
    if resolve:
        assert machine.run(*resolve).status == 0
    else:
        machine.write(SWAPPINESS, "60\n")
    assert machine.read(SWAPPINESS) == "60\n"
    assert "somebody else has changed" not in machine.run("status").out
    assert (machine.run("revert").status, machine.run("revert", "--force").status) == (0, 0)


def test_the_agent_by_hand_says_so_too(machine: FakeRoot) -> None:
    machine.run("apply", "vm.swappiness=10", "--yes")
    machine.write(SWAPPINESS, "77\n")
    by_hand = [str(find_agent()), "revert", "--root", str(machine.folder)]
    assert subprocess.run(by_hand, capture_output=True, timeout=20, check=False).returncode == 1


def test_one_transaction_alone(machine: FakeRoot) -> None:
    for word in ("vm.swappiness=10", "vm.page-cluster=0", "vm.swappiness=20"):
        machine.run("apply", word, "--yes")
    assert machine.run("revert", "--only", "2").status == 0
    assert machine.read("/proc/sys/vm/page-cluster") == "3\n"
    covered = machine.run("revert", "--only", "1")
    assert (covered.status, "stays until a newer transaction ends (now 20)" in covered.out) == (0, True)
    assert machine.read(SWAPPINESS) == "20\n"
    assert machine.run("revert").status == 0
    assert machine.read(SWAPPINESS) == "60\n"
    assert machine.run("revert", "--only", "1", "--all").status == 2


@pytest.mark.parametrize(
    "command", [["revert", "--to", "9"], ["revert", "--only", "9"], ["confirm", "9"], ["verify", "9"]]
)
def test_a_number_that_no_transaction_has(machine: FakeRoot, command: list[str]) -> None:
    ran = machine.run(*command)
    assert ran.status == 2
    assert "no such transaction: 9\n  next: run `ktrial status` to list" in ran.err


def test_bad_input_is_told_before_root_is_asked_for(machine: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "root_session", lambda app, purpose: pytest.fail(f"asked for root: {purpose}"))
    for word, said in (
        ("vm.swappiness=900", "out of range"),
        ("vm.swapiness=9", "did you mean"),
        ("nonsense", "unknown profile"),
    ):
        ran = machine.run("apply", word)
        assert (ran.status, said in ran.err) == (2, True), ran.err


def test_a_file_of_this_folder_needs_no_path(
    machine: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tweaks.txt").write_text("vm.swappiness=10\necho never > /sys/kernel/mm/ksm/run\n")
    ran = machine.run("plan", "tweaks.txt")
    assert (ran.status, "`ktrial profile import tweaks.txt -o " in ran.err) == (2, True), ran.err


def test_a_resolved_plan_is_applied_by_hand(machine: FakeRoot, tmp_path: Path) -> None:
    resolved = machine.run("plan", "vm.swappiness=10", "kernel.sched_child_runs_first=1", "--json").json
    assert resolved["refusals"]
    (tmp_path / "plan.json").write_text(json.dumps(resolved))
    by_hand = [str(find_agent()), "apply", str(tmp_path / "plan.json"), "--root", str(machine.folder)]
    ran = subprocess.run(by_hand, capture_output=True, text=True, timeout=20, check=False)
    assert (ran.returncode, machine.read(SWAPPINESS)) == (0, "10\n"), ran.stderr


def test_one_wrong_word_does_not_end_a_plan(machine: FakeRoot) -> None:
    words = ("vm.swappiness=10", "vm.nope=1", "vm.dirty_ratio=500", "/sys/nope=3", "vm.page-cluster=0")
    ran = machine.run("plan", *words, "--json")
    assert ran.status == 2
    assert [step["knob"] for step in ran.json["plan"]["steps"]] == ["vm.swappiness", "vm.page-cluster"]
    assert [one["word"] for one in ran.json["wrong"]] == ["vm.nope=1", "vm.dirty_ratio=500", "/sys/nope=3"]
    shown = machine.run("plan", *words).out
    assert "2 to change, 0 already set, 0 skipped, 3 wrong; nothing was written." in shown
    assert shown.count("vm.dirty_ratio=500") == 1
    assert machine.run("plan", "vm.nope=1", "vm.dirty_ratio=500").out == ""
    assert "exclude each other" in machine.run("plan", "vm.dirty_ratio=5", "vm.dirty_bytes=1MiB").err
    assert machine.run("apply", *words, "--yes").status == 2
    assert machine.read(SWAPPINESS) == "60\n"
