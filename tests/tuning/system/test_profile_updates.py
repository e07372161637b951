# SPDX-License-Identifier: Apache-2.0
"""A kept profile that changes: `drift` shows the difference, `keep --accept` writes just that."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ktrial.tuning.lasting.model import PLACES
from tests.support.tree import FakeRoot

SYSCTL = PLACES["sysctl.d"]


def profile(settings: Mapping[str, object], *, when: Mapping[str, str] | None = None) -> None:
    """Put a profile `own` into the user's catalog, as an update of ktrial would."""
    text = 'name = "own"\nsummary = "Own settings."\n'
    for knob, value in settings.items():
        text += f'[[setting]]\nknob = "{knob}"\nvalue = {value}\nwhy = "for a test"\n'
        if when is not None and knob in when:
            text += f'when = "{when[knob]}"\n'
    file = Path.home() / ".config/ktrial/profiles/own.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


BEFORE = {"vm.swappiness": 10, "vm.page-cluster": 0, "vm.dirty_ratio": 15}


@pytest.fixture
def kept(root: FakeRoot) -> FakeRoot:
    """A machine that keeps the profile, in files of two kinds."""
    root.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    root.write("/etc/udev/udev.conf", "")
    profile({**BEFORE, "thp:enabled": '"always"'})
    done = root.run("keep", "own", "--yes")
    assert done.status == 0, done.err
    return root


def updates(root: FakeRoot) -> Any:
    """What `drift` shows of profiles; it is no drift."""
    told = root.run("drift", "--json")
    assert told.status == 0, told.out
    return told.json["profiles"]


def test_a_changed_profile_is_shown_and_accepted(kept: FakeRoot) -> None:
    assert updates(kept) == []
    again = kept.run("keep", "--accept", "--yes")
    assert (again.status, again.out) == (0, "Nothing to write: all these settings are kept already.\n")
    tmpfiles = kept.read(PLACES["tmpfiles.d"])
    profile({"vm.swappiness": 20, "vm.page-cluster": 0, "vm.stat_interval": 5, "thp:enabled": '"always"'})
    text = " ".join(kept.run("drift").out.split())
    assert (
        "profile own has changed since: vm.swappiness 10 -> 20, vm.dirty_ratio 15 is dropped, vm.stat_interval 5 is"
        " new; `ktrial keep --accept` accepts it"
    ) in text
    assert "4 of 4 kept settings are live" in text
    (one,) = updates(kept)
    assert one["profile"] == "own"
    assert one["settings"] == [
        {"address": "vm.swappiness", "kept": "10", "now": "20"},
        {"address": "vm.dirty_ratio", "kept": "15", "now": None},
        {"address": "vm.stat_interval", "kept": None, "now": "5"},
    ]
    assert kept.read(SYSCTL).count("vm.swappiness = 10\n") == 1  # shown, not written
    planned = kept.run("keep", "--accept", "--dry-run", "--json").json
    assert [file["path"] for file in planned["files"]] == [SYSCTL]
    done = kept.run("keep", "--accept", "own", "--yes")
    assert done.status == 0, done.err
    assert "-vm.swappiness = 10" in done.out
    lines = [line for line in kept.read(SYSCTL).splitlines() if not line.startswith("#")]
    assert lines == ["vm.swappiness = 20", "vm.page-cluster = 0", "vm.stat_interval = 5"]
    values = [kept.read(f"/proc/sys/vm/{name}") for name in ("swappiness", "dirty_ratio", "stat_interval")]
    assert values == ["20\n", "20\n", "5\n"]  # what is dropped has its value from before
    assert kept.read(PLACES["tmpfiles.d"]) == tmpfiles
    assert updates(kept) == []
    assert kept.run("revert").status == 0  # the newest transaction: the difference comes back
    assert len(updates(kept)) == 1
    assert kept.run("keep", "--undo").status == 0
    assert not (kept.folder / SYSCTL[1:]).exists()


def test_what_the_user_decided_since_is_no_update(kept: FakeRoot) -> None:
    assert kept.run("keep", "vm.swappiness=33", "--yes").status == 0
    assert kept.run("keep", "--undo", "vm.page-cluster").status == 0
    profile({"vm.swappiness": 20, "vm.page-cluster": 1, "vm.dirty_ratio": 15, "thp:enabled": '"always"'})
    assert updates(kept) == []
    assert "vm.swappiness = 33" in kept.read(SYSCTL)


def test_a_setting_that_no_longer_fits_this_machine_is_dropped(kept: FakeRoot) -> None:
    settings = {**BEFORE, "thp:enabled": '"always"'}
    profile(settings, when={"vm.swappiness": 'memory.total >= \\"1024GiB\\"'})
    (one,) = updates(kept)
    assert one["settings"] == [{"address": "vm.swappiness", "kept": "10", "now": None}]
    assert kept.run("keep", "--accept", "--yes").status == 0
    assert "swappiness" not in kept.read(SYSCTL)
    assert kept.read("/proc/sys/vm/swappiness") == "60\n"


def test_an_absent_device_and_a_reason_are_no_update(kept: FakeRoot) -> None:
    (kept.folder / "sys/kernel/mm/transparent_hugepage/enabled").unlink()
    file = Path.home() / ".config/ktrial/profiles/own.toml"
    file.write_text(file.read_text().replace("for a test", "for another reason"))
    assert kept.run("drift", "--json").json["profiles"] == []


def test_a_profile_that_is_gone_or_cannot_be_used_is_named(kept: FakeRoot) -> None:
    file = Path.home() / ".config/ktrial/profiles/own.toml"
    file.write_text(
        file.read_text().replace("value = 10", "value = 20")
        + '[[require]]\nthat = "memory.total >= \\"1024GiB\\""\nwhy = "for large machines"\n'
    )
    (one,) = updates(kept)
    assert "cannot be compared: cannot use profile own: " in one["problem"]
    assert kept.run("keep", "--accept", "--yes").status == 4
    file.unlink()
    (one,) = updates(kept)
    assert one["problem"] == "is gone from the catalog; its settings stay kept"
    assert "profile own is gone from the catalog" in kept.run("drift").out
    assert kept.run("keep", "--accept", "--yes").status == 0


def test_only_a_kept_profile_can_be_accepted(kept: FakeRoot) -> None:
    done = kept.run("keep", "--accept", "quiet", "--yes")
    assert done.status == 2
    assert "unknown kept profile: 'quiet'" in done.err
    assert kept.run("keep", "--accept", "--undo").status == 2


def test_a_file_and_older_transactions_have_no_updates(root: FakeRoot, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text('name = "other"\nsummary = "x"\n[[setting]]\nknob = "vm.swappiness"\nvalue = 10\n')
    assert root.run("keep", str(file), "--yes").status == 0
    file.write_text(file.read_text().replace("10", "20"))
    assert updates(root) == []


def test_drift_loads_only_what_it_needs(kept: FakeRoot) -> None:
    """60 settings take 0.18 s, most of it to load modules (`python -m perf.keep`)."""
    heavy = "{'numpy', 'tomllib', 'json', 'difflib', 'typing_extensions', 'ktrial.tuning.lasting.keep_plan'}"
    code = (
        "import sys, io; from ktrial.cli.main import main; before = set(sys.modules)\n"
        f"status = main(['--machine-root', {str(kept.folder)!r}, 'drift'], io.StringIO(), sys.stderr)\n"
        f"print(status, sorted(({heavy} & set(sys.modules)) - before))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "0 []\n", told.stderr


def test_accepting_writes_only_what_differs(kept: FakeRoot, tmp_path: Path) -> None:
    """`strace` sees every file of the machine that the head and its agent open to write, rename or remove."""
    profile({**BEFORE, "vm.swappiness": 20, "thp:enabled": '"always"'})
    trace = tmp_path / "trace"
    calls = "openat,open,creat,rename,renameat,renameat2,unlink,unlinkat,truncate,chmod,fchmodat,link,linkat"
    argv = [sys.executable, "-m", "ktrial", "--machine-root", str(kept.folder), "keep", "--accept", "--yes"]
    strace = ["strace", "-f", "-s", "4096", "-e", f"trace={calls}", "-o", str(trace)]
    done = subprocess.run([*strace, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    part = f"{SYSCTL.replace('ktrial', '.ktrial')}.000002"  # it is renamed to the file
    assert written(trace.read_text(), kept.folder) == {SYSCTL, part, "/proc/sys/vm/swappiness"}


def written(trace: str, root: Path) -> set[str]:
    """The files of the machine that successful calls of a trace write, without ktrial's own state."""
    found: set[str] = set()
    for line in trace.splitlines():
        is_read = "O_RDONLY" in line or "O_PATH" in line
        if not is_read and " = -1 " not in line:
            found |= set(re.findall(rf'"{re.escape(str(root))}(/[^"]*)"', line))
    return {name for name in found if not name.startswith(("/var/lib/ktrial", "/run/ktrial"))}


def test_a_word_that_weakens_the_machine_needs_its_own_confirmation_here_too(kept: FakeRoot) -> None:
    kept.write("/boot/grub/grub.cfg", "# made\n")
    profile({**BEFORE, "thp:enabled": '"always"', "boot:mitigations": '"off"'})
    planned = kept.run("keep", "--accept", "--dry-run", "--json").json
    assert [one["word"] for one in planned["security"]] == ["mitigations=off"]
