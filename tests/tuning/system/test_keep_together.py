# SPDX-License-Identifier: Apache-2.0
"""Two `keep`s at once, a look at what is kept meanwhile, and other things that go wrong around `keep`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.shared import kept_state
from ktrial.tuning.lasting.kept_files import kept_files
from ktrial.tuning.lasting.model import PLACES
from tests.support.tree import FakeRoot, add_knobs

SYSCTL = PLACES["sysctl.d"]


def start(root: FakeRoot, *words: str) -> subprocess.Popen[str]:
    """Begin a command in a process of its own."""
    argv = [sys.executable, "-m", "ktrial", "--machine-root", str(root.folder), *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("other", ["vm.page-cluster=0", "vm.swappiness=20"])
def test_of_two_at_once_each_is_kept_or_refused_with_one_message(root: FakeRoot, other: str) -> None:
    for _ in range(2):
        both = [start(root, "keep", word, "--yes") for word in ("vm.swappiness=10", other)]
        looks = [start(root, "drift") for _ in range(2)]
        for process in both:
            _, err = process.communicate(timeout=60)
            assert process.returncode in {0, 1}, err
            if process.returncode:
                assert err.startswith("ktrial: cannot keep settings: ")
                assert "perhaps another `ktrial keep` was faster" in err
                assert len(err.splitlines()) == 2
        for process in looks:
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, out + err  # never half of a transaction
        assert root.run("drift").status == 0
        assert root.run("keep", "--undo").status == 0
        assert root.read("/proc/sys/vm/swappiness") == "60\n"


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something between the first look at the journal and the first one at the files."""
    real, acts = kept_files, [act]

    def look(*given: Any, **more: Any) -> Mapping[Any, Any]:
        if acts:
            acts.pop()()
        return real(*given, **more)

    monkeypatch.setattr(kept_state, "kept_files", look)


@pytest.mark.parametrize("before", [(), ("vm.page-cluster=0",)])
@pytest.mark.parametrize("look", [("drift",), ("status", "--check"), ("keep", "vm.stat_interval=5", "--yes")])
def test_what_another_keep_wrote_between_two_looks_is_no_edit(
    root: FakeRoot, monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...], look: tuple[str, ...]
) -> None:
    if before:
        assert root.run("keep", *before, "--yes").status == 0
    between(monkeypatch, lambda: root.run("keep", "vm.swappiness=10", "--yes"))
    done = root.run(*look)
    assert done.status == 0, done.out + done.err
    assert "vm.swappiness = 10\n" in root.read(SYSCTL)


def test_an_edit_is_still_an_edit(root: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    between(monkeypatch, lambda: root.write(SYSCTL, "vm.swappiness = 5\n"))
    done = root.run("keep", "vm.swappiness=10", "--yes")
    assert done.status == 4
    assert "ktrial did not write this file" in done.err


def test_two_values_of_one_setting_are_refused_and_the_same_twice_is_one(root: FakeRoot) -> None:
    done = root.run("keep", "vm.swappiness=10", "vm.swappiness=20", "--yes")
    assert done.status == 2
    assert "vm.swappiness is set twice: 10 by setting vm.swappiness=10, 20 by setting vm.swappiness=20" in done.err
    assert not (root.folder / SYSCTL[1:]).exists()
    assert root.run("keep", "vm.swappiness=10", "vm.swappiness=10", "--yes").status == 0
    assert root.read(SYSCTL).count("vm.swappiness = 10") == 1


OWN = """
[[knob]]
id = "vm.own_knob"
kind = "sysctl"
value = { type = "int", min = 0, max = 100 }
takes_effect = "now"
risk = "safe"
what = "Own knob of a test."
price = "none"
proof = "own"
"""


def test_a_knob_that_is_gone_after_an_update_is_named_and_can_be_taken_out(root: FakeRoot) -> None:
    knobs = Path.home() / ".config/ktrial/knobs/own.toml"
    knobs.parent.mkdir(parents=True)
    knobs.write_text(OWN)
    root.write("/proc/sys/vm/own_knob", "5\n")
    add_knobs(root.folder, "/proc/sys/vm/own_knob")
    assert root.run("keep", "vm.own_knob=7", "vm.swappiness=10", "--yes").status == 0
    knobs.unlink()
    drift = root.run("drift")
    assert drift.status == 3
    assert "the catalog no longer has this" in drift.out
    assert root.run("status", "--check").status == 3
    assert root.run("keep", "vm.page-cluster=0", "--yes").status == 0
    assert "vm.own_knob = 7" in root.read(SYSCTL)
    done = root.run("keep", "--undo", "vm.own_knob")
    assert done.status == 0, done.err
    assert "vm.own_knob keeps its value until the next boot" in done.err
    assert "vm.own_knob" not in root.read(SYSCTL)
    assert root.run("drift").status == 0
