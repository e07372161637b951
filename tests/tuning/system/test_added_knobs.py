# SPDX-License-Identifier: Apache-2.0
"""Knobs that are not built in: written where root has added them to the machine, refused elsewhere with the way out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.tree import FakeRoot, Ran

OWN = "/proc/sys/vm/own_knob"
KNOB = """[[knob]]
id = "vm.own_knob"
kind = "sysctl"
value = { type = "int", min = 0 }
takes_effect = "now"
risk = "safe"
what = "An own knob."
price = "None."
"""


@pytest.fixture
def root(tmp_path: Path) -> FakeRoot:
    machine = FakeRoot(tmp_path / "root")
    machine.write(OWN, "1\n")
    return machine


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's own knob."""
    file = tmp_path / "my catalog" / "knobs" / "own.toml"
    file.parent.mkdir(parents=True)
    file.write_text(KNOB)
    return file


def run(root: FakeRoot, own: Path, *argv: str) -> Ran:
    return root.run("--catalog", str(own.parent.parent), *argv)


def add(root: FakeRoot, own: Path) -> Path:
    """What the line does that the refusal names."""
    added = root.folder / "etc/ktrial/knobs.d/own.toml"
    added.parent.mkdir(parents=True)
    shutil.copyfile(own, added)
    added.chmod(0o644)
    return added


@pytest.mark.parametrize("verb", [["plan"], ["apply", "--yes"]])
def test_an_own_knob_is_refused_with_the_line_that_adds_it(root: FakeRoot, own: Path, verb: list[str]) -> None:
    found = run(root, own, *verb, "vm.own_knob=3")
    text = " ".join(found.out.split())
    assert f"\n    sudo install -D -m 644 '{own}' /etc/ktrial/knobs.d/own.toml\n" in found.out
    assert "no knob in the catalog has it, and no file in /etc/ktrial/knobs.d adds it" in text
    assert found.status == (1 if verb[0] == "apply" else 0)
    assert root.read(OWN) == "1\n"
    assert not (root.folder / "var/lib/ktrial/transactions").exists()


def test_the_others_of_a_profile_are_planned(root: FakeRoot, own: Path) -> None:
    plan = run(root, own, "plan", "vm.own_knob=3", "vm.swappiness=10", "--json").json
    assert [step["path"] for step in plan["plan"]["steps"]] == ["/proc/sys/vm/swappiness"]
    assert [(one["knob"], one["why"]) for one in plan["refusals"]] == [("vm.own_knob", "not-added")]


def test_an_added_knob_works_and_is_undone_after_its_removal(root: FakeRoot, own: Path) -> None:
    added = add(root, own)
    applied = run(root, own, "apply", "--yes", "vm.own_knob=3")
    assert (applied.status, root.read(OWN)) == (0, "3\n"), applied.out + applied.err
    added.unlink()
    assert run(root, own, "apply", "--yes", "vm.own_knob=4").status == 1
    verified = root.run("verify", "--json").json
    assert [step["outcome"] for one in verified["transactions"] for step in one["steps"]] == ["in-force"]
    assert root.run("revert").status == 0
    assert root.read(OWN) == "1\n"


def test_an_added_file_that_others_could_write_is_named(root: FakeRoot, own: Path) -> None:
    add(root, own).chmod(0o666)
    found = run(root, own, "apply", "--yes", "vm.own_knob=3")
    assert "own.toml is writable by others than root" in " ".join(found.out.split())
    assert (found.status, root.read(OWN)) == (1, "1\n")


def test_what_no_file_can_add_is_refused_without_a_line(root: FakeRoot, own: Path) -> None:
    own.write_text(
        KNOB.replace("vm.own_knob", "kernel.core_pattern").replace('{ type = "int", min = 0 }', '{ type = "text" }')
    )
    root.write("/proc/sys/kernel/core_pattern", "core\n")
    add(root, own)
    found = run(root, own, "apply", "--yes", "kernel.core_pattern=|/tmp/x")
    text = " ".join(found.out.split())
    assert "is a path that ktrial never writes" in text
    assert "sudo install" not in text
    assert (found.status, root.read("/proc/sys/kernel/core_pattern")) == (1, "core\n")
