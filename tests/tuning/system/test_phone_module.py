# SPDX-License-Identifier: Apache-2.0
"""A module's own scripts on four phones: their kernels clamp, refuse, ignore and forget, as real ones do."""

from __future__ import annotations

import random
import signal
import tarfile
from pathlib import Path

import pytest

from ktrial.cli.shared.exports import write_archive
from ktrial.tuning.exports.phone.log import PhoneBoot, parse_log
from tests.support.phones import (
    MODULES,
    PHONES,
    STATES,
    USERLANDS,
    Phone,
    installed,
    module_files_of,
    newest_log,
    ran,
    started,
)

pytestmark = pytest.mark.root
ROOT = Path(__file__).parents[3]
FEW = ("vm.swappiness=100", "vm.dirty_ratio=30", "queue:scheduler@*=kyber", "queue:nr_requests@*=64")
NOTES = {"qualcomm_414": ("cannot keep the value of: /proc/sys/vm/extfrag_threshold",)}
EACH = [
    *(("qualcomm_414", shell) for shell in USERLANDS),
    *(("qualcomm_walt", "mksh"), ("gki_515", "busybox"), ("mainline", "mksh")),
]
#: Phone -> knob and a part of the path -> outcome and what the kernel shows then.
SEEN = {
    "qualcomm_414": {
        ("kernel.sched_upmigrate", ""): ("accepted", "80 80"),
        ("kernel.sched_min_task_util_for_boost", ""): ("clamped", "40"),
        ("kernel.sched_autogroup_enabled", ""): ("absent", None),
        ("vm.oom_dump_tasks", ""): ("ignored", "1"),
        ("vm.stat_interval", ""): ("refused", "1"),
        ("vm.extfrag_threshold", ""): ("refused", None),
        ("feature:STRICT_SKIP_BUDDY", ""): ("accepted", "NO_STRICT_SKIP_BUDDY"),
        ("module:cpu_boost.input_boost_freq", ""): ("accepted", "0:1401600 1:0 2:0 3:0 4:0 5:0 6:0 7:0"),
        ("cpufreq:hispeed_load", "policy4/interactive/go_"): ("accepted", "80"),
        ("cpufreq:hispeed_freq", "policy0/interactive"): ("accepted", "1401600"),
        ("cpufreq:hispeed_freq", "policy4/interactive"): ("accepted", "2956800"),
        ("queue:scheduler", "sda"): ("accepted", "cfq"),
        ("queue:scheduler", "dm-0"): ("absent", None),
        ("queue:nr_requests", "dm-0"): ("absent", None),
    },
    "qualcomm_walt": {
        ("kernel.sched_downmigrate", "/walt/"): ("accepted", "50 50"),
        ("cpufreq:scaling_governor", "policy7"): ("absent", None),
        ("cpufreq:hispeed_freq", "policy0/walt"): ("accepted", "1516800"),
        ("cpufreq:hispeed_freq", "policy7/walt"): ("accepted", "3187200"),
        ("module:cpu_boost.input_boost_freq", ""): ("refused", "0:0"),
        ("vm.dirty_ratio", ""): ("accepted", "30"),
    },
    "gki_515": {
        ("sched:latency_ns", "/debug/"): ("accepted", "10000000"),
        ("kernel.sched_child_runs_first", ""): ("accepted", "1"),
        ("feature:TTWU_QUEUE", ""): ("accepted", "TTWU_QUEUE"),
        ("feature:STRICT_SKIP_BUDDY", ""): ("absent", None),
        ("cpufreq:scaling_governor", "policy4"): ("accepted", "schedutil"),
        ("cpufreq:hispeed_freq", "policy4/schedutil"): ("accepted", "2507000"),
        ("queue:nr_requests", "sdb"): ("accepted", "64"),
    },
    "mainline": {
        ("sched:latency_ns", ""): ("absent", None),
        ("cpufreq:hispeed_load", ""): ("absent", None),
        ("cpufreq:scaling_governor", "policy0"): ("accepted", "schedutil"),
        ("queue:scheduler", "mmcblk0"): ("absent", None),
        ("queue:iostats", "mmcblk0"): ("accepted", "0"),
    },
}


def outcome(boot: PhoneBoot, knob: str, part: str) -> tuple[str, str | None]:
    (found,) = (one for one in boot.settings if one.knob == knob and part in one.path)
    return found.outcome, found.now


@pytest.mark.parametrize("name, shell", EACH)
def test_a_phone_boots_twice_and_gets_its_values_back(name: str, shell: str, tmp_path: Path) -> None:
    phone = Phone(tmp_path / "root", PHONES[name], shell)
    folder = installed(phone, module_files_of(["ktweak"]))
    before = phone.kernel.contents()
    first = started(phone, folder)
    assert phone.path("/data/slept").read_text().split() == ["90", "60"]
    assert first.finished is not None
    assert first.notes == NOTES.get(name, ())
    assert {where: outcome(first, *where) for where in SEEN[name]} == SEEN[name]
    for one in first.settings:
        assert one.outcome == "absent" or one.now is None or one.now in shown(phone, one.path), one
    originals = phone.path(f"{STATES}/{folder.rpartition('/')[2]}/originals")
    kept = {path: path.read_bytes() for path in originals.rglob("*") if path.is_file()}
    assert phone.boot().contents() == {**before, "/proc/sys/kernel/random/boot_id": "boot-2\n"}
    assert started(phone, folder).settings == first.settings
    assert {path: path.read_bytes() for path in originals.rglob("*") if path.is_file()} == kept
    assert ran(phone, f"{folder}/uninstall.sh") == ""
    assert phone.kernel.contents() == {**before, "/proc/sys/kernel/random/boot_id": "boot-2\n"}
    assert not phone.path(STATES).exists()


def shown(phone: Phone, path: str) -> str:
    """What a file shows, on one line."""
    file = phone.kernel.files[path]
    return " ".join(file.shown(file.value).split())


@pytest.fixture
def phone(tmp_path: Path) -> Phone:
    return Phone(tmp_path / "root", PHONES["gki_515"], "mksh")


SYNC = """#!/system/bin/sh
echo "sync: $(cat /proc/sys/vm/swappiness)" >> /data/synced
find /data/adb/ktrial -type f >> /data/synced
"""


def test_nothing_is_written_before_every_old_value_is_on_disk(phone: Phone) -> None:
    folder = installed(phone, module_files_of(FEW))
    phone.path("/system/bin/sync").unlink()
    phone.path("/system/bin/sync").write_text(SYNC)
    phone.path("/system/bin/sync").chmod(0o755)
    started(phone, folder)
    _, first, *_ = phone.path("/data/synced").read_text().split("sync: ")[1:]  # one is the guard's
    assert first.startswith("60\n")
    for path, _ in phone.kernel.written:
        assert f"/originals{path}\n" in first
    assert [path for path, _ in phone.kernel.written] == [
        *("/proc/sys/vm/swappiness", "/proc/sys/vm/dirty_ratio"),
        *(f"/sys/block/{disk}/queue/{file}" for file in ("scheduler", "nr_requests") for disk in ("sda", "sdb")),
    ]


def test_two_boots_that_are_not_completed_disable_the_module_in_the_third(phone: Phone) -> None:
    folder = installed(phone, module_files_of(FEW, "kernelsu"))
    for _ in range(2):
        ran(phone, f"{folder}/post-fs-data.sh")
        assert not phone.path(f"{folder}/disable").exists()
        phone.boot()
    assert started(phone, folder).guard is not None
    assert phone.path(f"{folder}/disable").exists()
    assert phone.kernel.written == []
    assert "two boots in a row" in phone.path(f"{folder}/webroot/log.txt").read_text()
    phone.path(f"{folder}/disable").unlink()  # the manager's switch
    phone.boot()
    assert started(phone, folder).in_force


def test_a_phone_that_dies_after_the_writes_has_not_completed_its_boot(phone: Phone) -> None:
    folder = installed(phone, module_files_of(FEW))
    phone.path("/data/during-60").write_text("kill -9 $PPID\n")
    for _ in range(2):
        ran(phone, f"{folder}/post-fs-data.sh")
        assert phone.sh(f"{folder}/service.sh").returncode == -signal.SIGKILL
        assert phone.kernel.files["/proc/sys/vm/swappiness"].value == "100"
        phone.boot()
    ran(phone, f"{folder}/post-fs-data.sh")
    assert phone.path(f"{folder}/disable").exists()


def test_a_completed_boot_clears_the_guards_count(phone: Phone) -> None:
    folder = installed(phone, module_files_of(FEW))
    for _ in range(2):
        ran(phone, f"{folder}/post-fs-data.sh")
        phone.boot()
        assert started(phone, folder).in_force
        phone.boot()
    assert not phone.path(f"{folder}/disable").exists()


def test_an_update_keeps_the_first_values(phone: Phone) -> None:
    folder = installed(phone, module_files_of(["vm.swappiness=100"]))
    before = phone.kernel.contents()
    started(phone, folder)
    installed(phone, module_files_of(["vm.swappiness=150", "vm.page-cluster=0"]))
    ran(phone, f"{folder}/service.sh")  # at once, without a restart
    assert phone.kernel.files["/proc/sys/vm/swappiness"].value == "150"
    ran(phone, f"{folder}/uninstall.sh")
    assert phone.kernel.contents() == before


def test_uninstalling_leaves_alone_what_somebody_else_has_changed_since(phone: Phone) -> None:
    folder = installed(phone, module_files_of(FEW))
    started(phone, folder)
    phone.kernel.files["/proc/sys/vm/swappiness"].value = "133"
    said = ran(phone, f"{folder}/uninstall.sh")
    assert said == "left alone, because somebody else has changed it: /proc/sys/vm/swappiness \n"
    assert phone.kernel.files["/proc/sys/vm/swappiness"].value == "133"
    assert phone.kernel.files["/proc/sys/vm/dirty_ratio"].value == "20"


def test_who_writes_to_the_same_files_is_in_the_log(phone: Phone) -> None:
    other = phone.path(f"{MODULES}/otherone")
    (other / "system/bin").mkdir(parents=True)
    (other / "module.prop").write_text("id=otherone\nname=Other Tweaks\n")
    (other / "system/bin/tweak").write_text('echo 10 > /proc/sys/vm/swappiness\nwrite "$queue/scheduler" none\n')
    off = phone.path(f"{MODULES}/off")
    off.mkdir()
    for name, text in (("module.prop", "id=off\nname=Off\n"), ("service.sh", "dirty_ratio\n"), ("disable", "")):
        (off / name).write_text(text)
    folder = installed(phone, module_files_of(FEW))
    phone.path("/data/during-60").write_text("echo 7 > /proc/sys/vm/dirty_ratio\n")
    boot = started(phone, folder)
    assert [(one.id, one.name, one.mentions) for one in boot.rivals] == [
        ("otherone", "Other Tweaks", ("vm/swappiness", "queue/scheduler"))
    ]
    (last,) = (one for one in boot.settings if one.outcome == "overwritten")
    assert (last.knob, last.path, last.before, last.now) == ("vm.dirty_ratio", "/proc/sys/vm/dirty_ratio", "30", "7")
    assert not boot.in_force


@pytest.mark.parametrize("shell", ["busybox", "mksh"])
@pytest.mark.parametrize("text, slept", [("5\n", "5"), ("1,5\n", "90"), ("\n", "90"), ("9 9", "90"), ("-1", "90")])
def test_the_delay_is_whole_seconds(text: str, slept: str, shell: str, tmp_path: Path) -> None:
    phone = Phone(tmp_path / "root", PHONES["mainline"], shell)
    folder = installed(phone, module_files_of(["vm.swappiness=100"]))
    ran(phone, f"{folder}/post-fs-data.sh")
    phone.path(f"{STATES}/ktrial-sample/delay").write_text(text)
    ran(phone, f"{folder}/service.sh")
    assert phone.path("/data/slept").read_text().split()[0] == slept
    notes = newest_log(phone, folder).notes
    assert (notes == ()) == (slept == "5")


def test_nothing_is_written_if_the_guard_or_its_folder_is_missing(phone: Phone) -> None:
    folder = installed(phone, module_files_of(FEW))
    phone.path(STATES).write_text("no space for a folder here\n")
    assert phone.sh(f"{folder}/post-fs-data.sh").returncode != 0
    assert phone.sh(f"{folder}/service.sh").returncode != 0
    phone.path(STATES).unlink()
    phone.path(f"{STATES}/ktrial-sample").mkdir(parents=True)
    ran(phone, f"{folder}/service.sh", 1)
    assert newest_log(phone, folder).notes == ("the guard did not run in this boot: nothing was applied",)
    assert phone.kernel.written == []


@pytest.mark.parametrize("shell", USERLANDS)
def test_a_script_that_was_edited_on_windows_does_nothing(shell: str, tmp_path: Path) -> None:
    phone = Phone(tmp_path / "root", PHONES["mainline"], shell)
    folder = installed(phone, module_files_of(FEW))
    ran(phone, f"{folder}/post-fs-data.sh")
    edited = phone.path(f"{folder}/settings.sh")
    edited.write_bytes(edited.read_bytes().replace(b"\n", b"\r\n"))
    ran(phone, f"{folder}/service.sh", 1)
    assert phone.kernel.written == []
    assert "Windows line ends" in phone.path(f"{STATES}/ktrial-sample/log").read_text()


def test_killed_at_any_moment_the_first_values_come_back(phone: Phone) -> None:
    folder = installed(
        phone, module_files_of([*FEW, "cpufreq:scaling_governor@*=schedutil", "cpufreq:hispeed_load@*=80"])
    )
    before = phone.kernel.contents()
    dice = random.Random(7)
    for _ in range(12):
        ran(phone, f"{folder}/post-fs-data.sh")
        limit = f"{dice.uniform(0.02, 0.5):.3f}"
        phone.sh("-c", f"timeout -s KILL {limit} sh {folder}/service.sh")
        phone.path(f"{STATES}/ktrial-sample/boot").write_text("0 none\n")  # the guard is not what is tried here
    phone.path(f"{STATES}/ktrial-sample/boot").write_text("0 boot-1\n")
    ran(phone, f"{folder}/service.sh")
    ran(phone, f"{folder}/uninstall.sh")
    assert phone.kernel.contents() == before


@pytest.mark.parametrize("shell", ["busybox", "mksh"])
@pytest.mark.parametrize("pages", [1, 9, 20, 60])
def test_on_a_full_disk_only_what_can_be_restored_is_written(pages: int, shell: str, tmp_path: Path) -> None:
    phone = Phone(tmp_path / "root", PHONES["gki_515"], shell)
    folder = installed(phone, module_files_of([*FEW, "feature:NEXT_BUDDY=on"]))
    phone.path(STATES).mkdir()
    before = phone.kernel.contents()
    scripts = " ".join(f"{folder}/{name}.sh" for name in ("post-fs-data", "service", "uninstall"))
    command = f"for script in {scripts}; do sh $script; done"
    phone.sh("-c", command, mount=f"-t tmpfs -o size={pages * 4096} none '{{root}}{STATES}'")
    assert phone.kernel.contents() == before
    assert pages > 1 or phone.kernel.written == []
    assert pages < 60 or phone.kernel.written != []


INSTALLER = """
MODPATH={folder}
ui_print() {{ echo "$1"; }}
abort() {{ echo "$1"; exit 7; }}
. "$MODPATH/customize.sh"
"""


def install(phone: Phone, folder: str) -> tuple[int, str]:
    """Source customize.sh as the installers do."""
    done = phone.sh("-c", INSTALLER.format(folder=folder))
    return done.returncode, done.stdout


@pytest.mark.parametrize("shell", USERLANDS)
def test_the_installer_refuses_an_id_of_somebody_else_and_windows_line_ends(shell: str, tmp_path: Path) -> None:
    phone = Phone(tmp_path / "root", PHONES["mainline"], shell)
    folder = installed(phone, module_files_of(FEW))
    fresh = phone.path("/data/adb/modules_update")
    phone.path(MODULES).rename(fresh)
    status, said = install(phone, "/data/adb/modules_update/ktrial-sample")
    assert (status, said.splitlines()[0]) == (0, "- Settings are applied 90 s after each boot")
    assert phone.path(f"{STATES}/ktrial-sample/delay").read_text() == "90\n"
    other = phone.path(folder)
    other.mkdir(parents=True)
    (other / "module.prop").write_text("id=ktrial-sample\nauthor=somebody\n")
    status, said = install(phone, "/data/adb/modules_update/ktrial-sample")
    assert status == 7
    assert "it is not from ktrial (somebody)" in said
    (other / "module.prop").write_text("id=ktrial-sample\nauthor=ktrial\n")
    phone.path(f"{STATES}/ktrial-sample/delay").write_text("20\n")
    assert install(phone, "/data/adb/modules_update/ktrial-sample")[0] == 0
    assert phone.path(f"{STATES}/ktrial-sample/delay").read_text() == "20\n"
    edited = fresh / "ktrial-sample/settings.sh"
    edited.write_bytes(edited.read_bytes().replace(b"\n", b"\r\n"))
    status, said = install(phone, "/data/adb/modules_update/ktrial-sample")
    assert status == 7
    assert "Windows line ends" in said


@pytest.mark.parametrize("shell", ["busybox", "mksh"])
def test_the_script_of_the_docs_collects_the_log_and_restores(shell: str, tmp_path: Path) -> None:
    phone = Phone(tmp_path / "root", PHONES["gki_515"], shell)
    folder = installed(phone, module_files_of(["ktweak"], name="ktweak"))
    phone.path("/sdcard").mkdir()
    phone.path("/sdcard/try.sh").write_bytes((ROOT / "docs/try-a-module.sh").read_bytes())
    assert "no log of ktrial-ktweak" in phone.sh("/sdcard/try.sh").stderr
    before = phone.kernel.contents()
    started(phone, folder)
    assert ran(phone, "/sdcard/try.sh").splitlines() == [
        "exit status 0",
        "restored: every value",
        "wrote /sdcard/ktrial-phone.tar",
    ]
    assert phone.kernel.contents() == before
    with tarfile.open(phone.path("/sdcard/ktrial-phone.tar")) as archive:
        names = archive.getnames()
        log = archive.extractfile("ktrial-phone/state/log")
        assert log is not None
        assert parse_log(log.read().decode())[0].finished
    assert {"ktrial-phone/phone", "ktrial-phone/state/originals/proc/sys/vm/swappiness"} <= set(names)


#: What Magisk's own functions do with a zip, by its documentation; the rules for files are those of its guide.
UTIL_FUNCTIONS = """
MAGISK_VER_CODE=28000
ui_print() { echo "$1"; }
abort() { echo "$1"; exit 1; }
install_module() {
    unzip -q -o "$ZIPFILE" module.prop -d /data/tmp
    MODID=$(sed -n 's/^id=//p' /data/tmp/module.prop)
    echo "$MODID" | grep -q -E '^[a-zA-Z][a-zA-Z0-9._-]+$' || abort "bad id"
    MODPATH=/data/adb/modules_update/$MODID
    mkdir -p "$MODPATH"
    unzip -q -o "$ZIPFILE" -x 'META-INF/*' -d "$MODPATH"
    find "$MODPATH" -type f -exec chmod 0644 {} +
    . "$MODPATH/customize.sh"
    rm -f "$MODPATH/customize.sh"
}
"""
FLASH = """
mkdir -p /data/tmp && cd /data/tmp || exit
unzip -q -o /sdcard/module.zip 'META-INF/com/google/android/*'
grep -q '#MAGISK' META-INF/com/google/android/updater-script || exit 9
sh META-INF/com/google/android/update-binary dummy 1 /sdcard/module.zip
"""


def test_magisk_installs_the_zip_and_its_scripts_need_no_mode(tmp_path: Path) -> None:
    phone = Phone(tmp_path / "root", PHONES["mainline"], "busybox")
    phone.path("/sdcard").mkdir()
    write_archive(phone.path("/sdcard/module.zip"), module_files_of(FEW), force=False)
    assert "Install Magisk 20.4 or newer first" in phone.sh("-c", FLASH).stdout
    phone.path("/data/adb/magisk").mkdir()
    phone.path("/data/adb/magisk/util_functions.sh").write_text(UTIL_FUNCTIONS)
    done = phone.sh("-c", FLASH)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "- Settings are applied 90 s after each boot")
    fresh = phone.path("/data/adb/modules_update/ktrial-sample")
    assert "META-INF" not in {path.name for path in fresh.iterdir()}
    fresh.rename(phone.path(f"{MODULES}/ktrial-sample"))
    assert started(phone, f"{MODULES}/ktrial-sample").finished
