# SPDX-License-Identifier: Apache-2.0
"""`ktrial status --check`: the exit status tells a script whether settings are kept or applied, and live."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ktrial.tuning.lasting.model import PLACES
from tests.support.tree import FakeRoot

KEPT = ("vm.swappiness=10", "vm.page-cluster=0")


def answer(root: FakeRoot, *words: str) -> tuple[int, str]:
    """The exit status, which JSON and text agree on, and the answer in words."""
    done = root.run("status", "--check", *words)
    told = root.run("status", "--check", *words, "--json")
    assert told.status == done.status, told.err
    assert done.out.splitlines()[-1].partition(":")[0].replace(" ", "-") == told.json["answer"]
    return done.status, told.json["answer"]


def test_what_is_kept_is_compliant_until_it_differs(root: FakeRoot) -> None:
    assert answer(root) == (6, "not-kept")
    assert root.run("keep", *KEPT, "--yes").status == 0
    assert answer(root) == (0, "compliant")
    root.write("/proc/sys/vm/page-cluster", "3\n")
    assert answer(root) == (3, "differs")
    root.write("/proc/sys/vm/page-cluster", "0\n")
    root.write(PLACES["sysctl.d"], "")
    assert answer(root) == (3, "differs")
    assert root.run("status", "--check", "--json").json["edited"] == [PLACES["sysctl.d"]]


@pytest.mark.parametrize(
    "words, wanted",
    [
        (("vm.swappiness=10",), (0, "compliant")),
        (KEPT, (0, "compliant")),
        (("vm.swappiness=20",), (3, "differs")),  # another value is kept
        (("vm.vfs_cache_pressure=100",), (6, "not-kept")),  # live, and nobody made it so
        (("vm.vfs_cache_pressure=50",), (6, "not-kept")),
        (("vm.stat_interval=5",), (0, "compliant")),  # applied
        (("vm.dirty_ratio=15",), (3, "differs")),  # applied, and changed since
        ((*KEPT, "vm.vfs_cache_pressure=100"), (6, "not-kept")),
        (("vm.swappiness=20", "vm.vfs_cache_pressure=100"), (3, "differs")),
        (("vm.overcommit_ratio=50",), (6, "not-kept")),  # not on this machine
    ],
)
def test_named_settings_must_be_kept_or_applied_and_live(
    root: FakeRoot, words: Sequence[str], wanted: tuple[int, str]
) -> None:
    assert root.run("keep", *KEPT, "--yes").status == 0
    assert root.run("apply", "vm.stat_interval=5", "vm.dirty_ratio=15", "--yes").status == 0
    root.write("/proc/sys/vm/dirty_ratio", "20\n")
    assert answer(root, *words) == wanted


def test_a_profile_counts_without_what_this_machine_lacks(root: FakeRoot, tmp_path: Path) -> None:
    profile = tmp_path / "own.toml"
    profile.write_text(
        'name = "own"\nsummary = "Own settings."\n'
        '[[setting]]\nknob = "vm.swappiness"\nvalue = 10\n[[setting]]\nknob = "vm.overcommit_ratio"\nvalue = 50\n'
    )
    assert answer(root, str(profile)) == (6, "not-kept")
    assert root.run("keep", str(profile), "--yes").status == 0
    assert answer(root, str(profile)) == (0, "compliant")
    states = {
        one["address"]: one["state"] for one in root.run("status", "--check", str(profile), "--json").json["settings"]
    }
    assert states == {"vm.swappiness": "live", "vm.overcommit_ratio": "skipped"}


def test_what_waits_for_the_next_boot_is_compliant(root: FakeRoot) -> None:
    assert root.run("keep", "vm.swappiness=10", "--next-boot", "--yes").status == 0
    assert answer(root) == (0, "compliant")
    assert answer(root, "vm.swappiness=10") == (0, "compliant")
    assert "pending" in root.run("status", "--check").out


def test_what_was_applied_before_a_reboot_is_not(root: FakeRoot) -> None:
    assert root.run("apply", "vm.swappiness=10", "--yes").status == 0
    assert answer(root, "vm.swappiness=10") == (0, "compliant")
    root.write("/proc/sys/kernel/random/boot_id", "another-boot\n")
    assert answer(root, "vm.swappiness=10") == (6, "not-kept")


def test_wrong_words_are_named(root: FakeRoot) -> None:
    done = root.run("status", "vm.swappiness=10")
    assert done.status == 2
    assert "add --check" in done.err
    for word in ("vm.swapiness=10", "vm.swappiness=many", "no-such-profile", "vm.swappiness"):
        assert root.run("status", "--check", word).status == 2
