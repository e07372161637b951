# SPDX-License-Identifier: Apache-2.0
"""`ktrial keep` and `ktrial drift` on a fake machine; systemd, udev, kmod and procps judge what the files do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktrial.tuning.lasting.model import PLACES
from tests.support.tree import FakeRoot

SYSCTL = PLACES["sysctl.d"]
FAST_OPEN = "/proc/sys/net/ipv4/tcp_fastopen"


@pytest.fixture
def machine(root: FakeRoot) -> FakeRoot:
    """A fake machine on which systemd runs, with settings of three kinds."""
    root.write("/proc/sys/kernel/osrelease", "6.12.0-own\n")
    root.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    root.write("/sys/block/sda/queue/scheduler", "[none] mq-deadline kyber\n")
    root.write("/etc/sysctl.d/99-z.conf", "vm.swappiness = 33\n")
    root.write("/etc/udev/udev.conf", "")
    return root


WORDS = ("vm.swappiness=10", "thp:enabled=always", "queue:scheduler@sda=kyber")
KEPT = (SYSCTL, PLACES["tmpfiles.d"], PLACES["udev"])


def tree(root: FakeRoot) -> dict[str, tuple[int, bytes]]:
    """Everything but ktrial's own state."""
    found = {}
    for path in root.folder.rglob("*"):
        name = str(path.relative_to(root.folder))
        if not name.startswith("var"):
            found[name] = path.stat().st_mode, path.read_bytes() if path.is_file() else b""
    return found


def exists(root: FakeRoot, path: str) -> bool:
    return (root.folder / path.lstrip("/")).exists()


def reboot(root: FakeRoot, values: Mapping[str, str]) -> None:
    """Begin another boot with these values."""
    root.write("/proc/sys/kernel/random/boot_id", "another-boot\n")
    for path, value in values.items():
        root.write(path, value)


@pytest.mark.parametrize("undo", [("keep", "--undo"), ("revert",)])
def test_what_is_kept_is_written_and_undone_byte_for_byte(machine: FakeRoot, undo: tuple[str, ...]) -> None:
    before = tree(machine)
    planned = machine.run("keep", *WORDS, "--dry-run", "--json").json
    assert planned["state"] == "planned"
    assert tree(machine) == before
    done = machine.run("keep", *WORDS, "--yes")
    assert done.status == 0, done.err
    for file in planned["files"]:  # what was shown is what the agent wrote
        assert machine.read(file["path"]) == file["after"]
        assert file["after"] in done.out.replace("\n  ", "\n") + "\n"
    assert [file["path"] for file in planned["files"]] == [*KEPT]
    assert machine.read("/proc/sys/vm/swappiness") == "10\n"
    status = machine.run("status", "--json").json
    assert status["kept"] == [1]
    assert "kept" in machine.run("status").out
    undone = machine.run(*undo)
    assert undone.status == 0, undone.err
    assert tree(machine) == before
    assert machine.run("drift").out == "Nothing is kept.\n"


def test_next_boot_leaves_the_live_values_alone(machine: FakeRoot) -> None:
    assert machine.run("keep", "vm.swappiness=10", "--next-boot", "--yes").status == 0
    assert machine.read("/proc/sys/vm/swappiness") == "60\n"
    assert exists(machine, SYSCTL)
    drift = machine.run("drift", "--json")
    assert drift.status == 0
    assert [one["state"] for one in drift.json["settings"]] == ["pending"]
    reboot(machine, {"/proc/sys/vm/swappiness": "10\n"})
    assert [one["state"] for one in machine.run("drift", "--json").json["settings"]] == ["live"]


@pytest.mark.parametrize("value, status", [("10", 0), ("33", 3)])
def test_verify_reads_kept_values_after_a_reboot(machine: FakeRoot, value: str, status: int) -> None:
    assert machine.run("keep", "vm.swappiness=10", "--yes").status == 0
    reboot(machine, {"/proc/sys/vm/swappiness": f"{value}\n"})
    assert machine.run("verify").status == status
    assert machine.run("drift").status == status


def test_another_value_replaces_the_kept_one_in_one_transaction(machine: FakeRoot) -> None:
    before = tree(machine)
    machine.run("keep", *WORDS, "--yes")
    done = machine.run("keep", "vm.swappiness=20", *WORDS[1:], "--yes", "--json").json
    assert [file["path"] for file in done["files"]] == [SYSCTL]
    assert [step["kind"] for step in done["plan"]["steps"]] == ["write", "file"]
    assert machine.read(SYSCTL).endswith("\nvm.swappiness = 20\n")
    again = machine.run("keep", "vm.swappiness=20", *WORDS[1:], "--yes")
    assert "Nothing to write" in again.out
    assert machine.run("keep", "--undo", "vm.swappiness").status == 0
    assert not exists(machine, SYSCTL)
    assert machine.read("/proc/sys/vm/swappiness") == "60\n"
    assert exists(machine, PLACES["udev"])
    assert machine.run("keep", "--undo").status == 0
    assert tree(machine) == before


def test_a_file_of_the_administrator_is_never_touched(machine: FakeRoot) -> None:
    machine.write(SYSCTL, "vm.swappiness = 5\n")
    before = tree(machine)
    done = machine.run("keep", "vm.swappiness=10", "--yes", "--anyway")
    assert done.status == 4
    assert "ktrial did not write this file" in done.err
    assert tree(machine) == before


def test_an_edited_file_is_shown_and_not_overwritten(machine: FakeRoot) -> None:
    machine.run("keep", "vm.swappiness=10", "--yes")
    edited = machine.read(SYSCTL).replace("= 10", "= 11")
    machine.write(SYSCTL, edited)
    drift = machine.run("drift")
    assert drift.status == 3
    assert "+vm.swappiness = 11" in drift.out
    done = machine.run("keep", "vm.swappiness=20", "--yes")
    assert done.status == 4
    assert "-vm.swappiness = 10" in done.err
    assert machine.read(SYSCTL) == edited
    undone = machine.run("keep", "--undo")
    assert (undone.status, "-vm.swappiness = 10" in undone.err) == (4, True)
    assert machine.read(SYSCTL) == edited
    assert machine.run("revert", "--all", "--force").status == 0
    assert not exists(machine, SYSCTL)


def test_who_overrides_a_kept_value_is_named_before_anything_is_written(machine: FakeRoot) -> None:
    machine.write("/etc/sysctl.d/zz-own.conf", "vm.swappiness = 44\n")
    before = tree(machine)
    done = machine.run("keep", "vm.swappiness=10", "--yes")
    assert done.status == 4
    assert "/etc/sysctl.d/zz-own.conf:1 (= 44) overrides it" in done.err
    assert tree(machine) == before
    done = machine.run("keep", "vm.swappiness=10", "--yes", "--anyway")
    assert done.status == 0
    assert "also set by /etc/sysctl.d/99-z.conf:1 (= 33)" in done.out
    reboot(machine, {"/proc/sys/vm/swappiness": "44\n"})
    drift = machine.run("drift", "--json")
    assert drift.status == 3
    (one,) = drift.json["settings"]
    assert (one["state"], one["value"], one["now"]) == ("differs", "10", "44")
    assert "/etc/sysctl.d/zz-own.conf:1" in one["written_by"]
    assert "zz-own.conf:1" in machine.run("drift").out.replace("\n", "")


@pytest.mark.parametrize(
    "word, why",
    [
        ("boot:mitigations=off", "cannot find a boot loader"),
        ("vm.no_such_knob=1", "unknown knob"),
        ("zram:disksize=1GiB", "zram"),
    ],
)
def test_what_cannot_last_is_refused_by_name(machine: FakeRoot, word: str, why: str) -> None:
    before = tree(machine)
    done = machine.run("keep", word, "--yes", "--yes-dangerous")
    assert done.status in {2, 4}
    assert why in done.err
    assert tree(machine) == before


def test_without_systemd_nothing_is_kept(root: FakeRoot) -> None:
    shutil.rmtree(root.folder / "run")
    done = root.run("keep", "vm.swappiness=10", "--yes")
    assert done.status == 4
    assert "systemd does not run here" in done.err


def test_a_knob_that_is_gone_is_drift_and_a_device_that_is_away_is_not(machine: FakeRoot) -> None:
    machine.run("keep", *WORDS, "--yes")
    (machine.folder / "sys/block/sda/queue/scheduler").unlink()
    assert machine.run("drift").status == 3
    shutil.rmtree(machine.folder / "sys/block/sda")
    assert machine.run("drift").status == 0
    (machine.folder / "proc/sys/vm/swappiness").unlink()
    drift = machine.run("drift", "--json")
    assert drift.status == 3
    states = {one["address"]: one["state"] for one in drift.json["settings"]}
    assert states == {
        "vm.swappiness": "gone",
        "thp:enabled": "live",
        "queue:scheduler@sda": "no-device",
    }


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_written(machine: FakeRoot) -> None:
    shutil.rmtree(machine.folder / "etc/udev")
    before = tree(machine)
    done = machine.run("keep", *WORDS, "--yes")
    assert done.status == 4
    assert "/etc/udev/rules.d/ktrial.rules" in done.err
    assert tree(machine) == before


def test_after_a_reboot_an_undo_restores_the_files_and_says_what_stays_live(machine: FakeRoot) -> None:
    before = tree(machine)
    machine.run("keep", "vm.swappiness=10", "--yes")
    reboot(machine, {})
    undone = machine.run("keep", "--undo")
    assert undone.status == 0
    assert "stay live until the next boot" in undone.err
    after = tree(machine)
    assert {path for path in after if after[path] != before.get(path)} == {
        "proc/sys/vm/swappiness",
        "proc/sys/kernel/random/boot_id",
    }


def test_a_file_in_a_folder_of_root_alone_is_known(machine: FakeRoot) -> None:
    (machine.folder / "etc/sysctl.d").chmod(0o700)
    assert machine.run("keep", "vm.swappiness=10", "--yes").status == 0
    assert machine.run("drift").status == 0
    assert machine.run("keep", "vm.swappiness=20", "--yes").status == 0
    machine.write(SYSCTL, "vm.swappiness = 5\n")
    assert machine.run("drift").status == 3
    assert machine.run("keep", "vm.swappiness=30", "--yes").status == 4


def test_a_transaction_can_be_kept(machine: FakeRoot) -> None:
    machine.run("apply", "vm.swappiness=10", "--yes")
    done = machine.run("keep", "1", "--yes")
    assert done.status == 0, done.err
    assert "from transaction 1" in machine.read(SYSCTL)
    assert machine.run("keep", "99").status == 2


def ran(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


#: In a network of its own, whose `tcp_fastopen` nothing else sees, with these files alone.
_BOOT = """
set -e
for folder in /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d /usr/local/lib/sysctl.d; do
    [ ! -d "$folder" ] || mount -t tmpfs none "$folder"
done
cp "$1"/*.conf /etc/sysctl.d/
{ [ ! -e "$1/sysctl.conf" ] || [ ! -e /etc/sysctl.conf ]; } || mount --bind "$1/sysctl.conf" /etc/sysctl.conf
$2 > /dev/null
cat /proc/sys/net/ipv4/tcp_fastopen
"""


@pytest.mark.root
@pytest.mark.parametrize("program", ["/usr/lib/systemd/systemd-sysctl", "sysctl --system"])
@pytest.mark.parametrize("other, wins", [("99-z.conf", False), ("99-sysctl.conf", False), ("zz.conf", True)])
def test_the_readers_of_sysctl_d_agree_on_who_wins(
    machine: FakeRoot, tmp_path: Path, program: str, other: str, wins: bool
) -> None:
    if not Path("/etc/sysctl.d").is_dir():
        pytest.fail("/etc/sysctl.d is missing: install procps")
    machine.write(FAST_OPEN, "1\n")
    machine.write(f"/etc/sysctl.d/{other}", "net.ipv4.tcp_fastopen = 0\n")
    planned = machine.run("keep", "net.ipv4.tcp_fastopen=3", "--dry-run", "--json").json
    assert [one["wins"] for one in planned["rivals"]] == [wins]
    assert machine.run("keep", "net.ipv4.tcp_fastopen=3", "--yes", "--anyway").status == 0
    files = machine.folder / "etc/sysctl.d"
    (files / "99-z.conf").write_text((files / "99-z.conf").read_text().replace("vm.swappiness = 33\n", ""))
    assert ran("unshare", "-m", "-n", "sh", "-c", _BOOT, "sh", files, program) == ("0\n" if wins else "3\n")


def test_tmpfiles_d_writes_the_kept_value(machine: FakeRoot) -> None:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    machine.write("/etc/tmpfiles.d/99-own.conf", f"w {path} - - - - never\n")
    assert machine.run("keep", "thp:enabled=always", "--yes").status == 0
    machine.write(path, "")
    ran("systemd-tmpfiles", f"--root={machine.folder}", "--create", "--boot", "--prefix=/sys")
    assert machine.read(path).strip() == "always"


def test_modprobe_takes_the_kept_option_last(machine: FakeRoot) -> None:
    machine.write("/proc/modules", "zswap 1 0 - Live 0x0\n")
    machine.write("/sys/module/zswap/parameters/max_pool_percent", "20\n")
    machine.write("/etc/modprobe.d/99-own.conf", "options zswap max_pool_percent=7\n")
    done = machine.run("keep", "zswap:max_pool_percent=30", "--yes")
    assert done.status == 0, done.err
    told = ran("modprobe", "-C", machine.folder / "etc/modprobe.d", "--showconfig")
    options = [line for line in told.splitlines() if line.startswith("options zswap")]
    assert options == ["options zswap max_pool_percent=7", "options zswap max_pool_percent=30"]


#: As in test_forms.py: with a `/sys` of its own, where only these files are read.
_UDEV = """
mount -t sysfs none /sys && mount -t tmpfs none /run
for folder in /etc/udev /usr/lib/udev/rules.d /usr/local/lib/udev/rules.d; do
    [ ! -d "$folder" ] || mount -t tmpfs none "$folder" || exit
done
mkdir -p /etc/udev/rules.d
cp "$1"/* /etc/udev/rules.d/
! udevadm verify --help > /dev/null 2>&1 || udevadm verify /etc/udev/rules.d/ktrial.rules >&2 || exit
udevadm test --action=add /sys/class/net/lo 2>&1
"""


@pytest.mark.root
def test_udev_takes_the_kept_rule_last(machine: FakeRoot) -> None:
    if not Path("/etc/udev").exists():
        Path("/etc/udev").mkdir()
    machine.write("/sys/class/net/lo/tx_queue_len", "1000\n")
    rules = "/etc/udev/rules.d/99-own.rules"
    machine.write(rules, 'SUBSYSTEM=="net", KERNEL=="lo", ATTR{tx_queue_len}="500"\n')
    done = machine.run("keep", "net:tx_queue_len@lo=1234", "--yes")
    assert done.status == 0, done.err
    assert f"also set by {rules}:1" in " ".join(done.out.split())
    said = ran("unshare", "-m", "-n", "sh", "-c", _UDEV, "sh", machine.folder / "etc/udev/rules.d")
    lines = [line for line in said.splitlines() if "ATTR" in line and "tx_queue_len" in line]
    assert ["ktrial.rules" in line for line in lines] == [False, True], said
