# SPDX-License-Identifier: Apache-2.0
"""Every profile applied to this machine as root and taken back: what `cat` reads before and after is the same."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.cli.main import main
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.knob import place_pattern

#: Values that the kernel itself moves.
MOVING = (
    "kernel.random.",
    "fs.dentry-state",
    "fs.inode-",
    "fs.file-nr",
    "fs.aio-nr",
    "fs.quota.",
    "kernel.ns_last_pid",
    "kernel.pty.nr",
)
#: Settings seen changed in between: the least that a profile must reach here.
LEAST = {"ktweak": 15, "micro-stutter": 5, "micro-stutter-watermarks": 5}
PROFILES = sorted(load_catalog().profiles)
# All tests that change this machine's own knobs run one after the other, on one worker.
pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]


def cat(path: Path) -> str | None:
    """What a reader of the file sees; None where reading it is refused."""
    ran = subprocess.run(["/bin/cat", str(path)], capture_output=True, check=False)
    return ran.stdout.decode(errors="replace") if ran.returncode == 0 else None


def snapshot() -> dict[str, str | None]:
    """`sysctl -a` and every file of every catalog knob."""
    listed = subprocess.run(["/sbin/sysctl", "-a"], capture_output=True, text=True, check=True).stdout.splitlines()
    seen: dict[str, str | None] = {line.partition(" = ")[0]: line for line in listed if not line.startswith(MOVING)}
    for knob in load_catalog().knobs.values():
        for place in knob.files:
            for path in Path("/").glob(place_pattern(place).lstrip("/")):
                seen[str(path)] = cat(path)
    return seen


def ktrial(state: Path, *argv: str) -> tuple[int, str]:
    """One command; its journal lies in `state`."""
    out, err = io.StringIO(), io.StringIO()
    status = main(["--machine-state", str(state), *argv], out, err)
    return status, out.getvalue() + err.getvalue()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A journal of its own; whatever happens in the test, all is reverted at its end."""
    folder = tmp_path / "state"
    yield folder
    ktrial(folder, "recover")
    ktrial(folder, "revert", "--all", "--force")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_comes_and_goes_without_a_trace(profile: str, state: Path) -> None:
    before = snapshot()
    status, said = ktrial(state, "apply", profile, "--yes", "--yes-dangerous", "--keep-going")
    assert status in {0, 4} or "nothing was applied" in said, said
    between = snapshot()
    changed = [name for name in before if between.get(name) != before[name]]
    assert len(changed) >= LEAST.get(profile, 0), said
    if changed:
        assert ktrial(state, "verify")[0] in {0, 3}
        status, said = ktrial(state, "revert")
        assert status == 0, said
    after = snapshot()
    assert {
        name: (before.get(name), after.get(name)) for name in before | after if before.get(name) != after.get(name)
    } == {}


def test_dirty_bytes_and_dirty_ratio_come_back_together(state: Path) -> None:
    before = (cat(Path("/proc/sys/vm/dirty_ratio")), cat(Path("/proc/sys/vm/dirty_bytes")))
    assert ktrial(state, "apply", "vm.dirty_bytes=256MiB", "--yes")[0] == 0
    assert (cat(Path("/proc/sys/vm/dirty_ratio")), cat(Path("/proc/sys/vm/dirty_bytes"))) == ("0\n", f"{2**28}\n")
    assert ktrial(state, "revert")[0] == 0
    assert (cat(Path("/proc/sys/vm/dirty_ratio")), cat(Path("/proc/sys/vm/dirty_bytes"))) == before


def test_halves_of_a_pair_of_two_transactions_come_apart_in_either_order(state: Path) -> None:
    """The kernel clears one half when the other is written."""
    paths = [Path("/proc/sys/vm/dirty_ratio"), Path("/proc/sys/vm/dirty_bytes")]
    before = [cat(path) for path in paths]
    for number, lower_first in enumerate((True, False)):
        lower, upper = 2 * number + 1, 2 * number + 2
        assert ktrial(state, "apply", "vm.dirty_ratio=15", "--yes")[0] == 0
        assert ktrial(state, "apply", "vm.dirty_bytes=256MiB", "--yes")[0] == 0
        assert ktrial(state, "revert", "--only", str(lower if lower_first else upper))[0] == 0
        assert [cat(path) for path in paths] == (["0\n", f"{2**28}\n"] if lower_first else ["15\n", "0\n"])
        assert ktrial(state, "revert")[0] == 0
        assert [cat(path) for path in paths] == before


def test_a_value_that_the_kernel_resets_with_another_one_stays_that_of_the_newer_transaction(state: Path) -> None:
    """A queue's scheduler resets `nr_requests`, also when the scheduler of the older transaction goes."""
    queue = next(
        path for path in sorted(Path("/sys/block").glob("loop*/queue")) if "mq-deadline" in str(cat(path / "scheduler"))
    )
    device, files = queue.parent.name, [queue / "scheduler", queue / "nr_requests"]
    before = [cat(path) for path in files]
    assert ktrial(state, "apply", f"queue:scheduler@{device}=mq-deadline", "--yes")[0] == 0
    assert ktrial(state, "apply", f"queue:nr_requests@{device}=64", "--yes")[0] == 0
    status, said = ktrial(state, "revert", "--only", "1")
    assert (status, "1 of 1 restored" in said) == (0, True)
    assert [cat(path) for path in files] == [before[0], "64\n"]
    assert ktrial(state, "revert")[0] == 0
    assert [cat(path) for path in files] == before


def test_a_clamped_value_is_named_and_put_back(state: Path) -> None:
    """A queue takes no read-ahead that is not a whole number of pages."""
    disk = next(path for path in sorted(Path("/sys/block").glob("*/queue/read_ahead_kb")) if "loop" in str(path))
    before = cat(disk)
    status, said = ktrial(state, "apply", f"queue:read_ahead_kb@{disk.parts[3]}=33", "--yes")
    assert status == 0, said
    assert "the kernel chose 32" in " ".join(said.split())
    assert cat(disk) == "32\n"
    assert ktrial(state, "revert")[0] == 0
    assert cat(disk) == before


def test_an_invalid_value_is_named_and_nothing_is_changed(state: Path) -> None:
    before = snapshot()
    status, said = ktrial(state, "apply", "vm.swappiness=61", "net.ipv4.tcp_congestion_control=nosuch", "--yes")
    assert status in {1, 2}
    assert "nosuch" in said or "does not take" in " ".join(said.split())
    after = snapshot()
    assert {name for name in before if before[name] != after.get(name)} == set()
