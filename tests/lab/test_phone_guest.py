# SPDX-License-Identifier: Apache-2.0
"""A guest that stands for a phone: Debian's arm64 kernel, mksh and toybox laid out as Android lays them out.

An init runs the module's scripts as a root manager does, and signals later that the boot is complete.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest

from ktrial.guests.initramfs import Archive
from ktrial.tuning.exports.phone.log import parse_log
from tests.guests.system import kernels
from tests.guests.system.initramfs import plain
from tests.support.phones import module_files_of

pytestmark = [pytest.mark.xdist_group("aarch64"), pytest.mark.timeout(2400)]
KERNEL = dataclasses.replace(kernels.ARM_KERNELS[-1], modules=("virtio_pci", "virtio_blk", "kyber-iosched"))
PACKAGES = ("mksh", "toybox", "libc6", "libcrypt1")
LIBRARIES = ("libc.so.6", "libm.so.6", "libcrypt.so.1")
MODULE = "/data/adb/modules/ktrial-sample"
SETTINGS = ("ktweak",)
SEEN = (
    *("/proc/sys/vm/swappiness", "/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes", "/proc/sys/vm/stat_interval"),
    *("/sys/block/vda/queue/scheduler", "/sys/block/vda/queue/nr_requests", "/sys/block/vda/queue/iostats"),
    *("/sys/kernel/debug/sched/tunable_scaling", "/sys/kernel/debug/sched/migration_cost_ns"),
    *("/sys/kernel/debug/sched/nr_migrate", "/sys/kernel/debug/sched/base_slice_ns"),
    *("/sys/kernel/debug/sched/features", "/proc/sys/kernel/sched_autogroup_enabled"),
)
GETPROP = """#!/system/bin/sh
case $1 in
sys.boot_completed) if [ -e /dev/boot_completed ]; then echo 1; fi ;;
ro.product.model) echo guest ;;
esac
"""
INIT = """#!/system/bin/sh
export PATH=/system/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t debugfs debugfs /sys/kernel/debug
mount -t devtmpfs devtmpfs /dev
echo 1 > /proc/sys/kernel/printk
for module in /modules/*; do insmod "$module"; done
until [ -e /sys/block/vda/queue/scheduler ]; do sleep 1; done
show() {
    echo "@$1"
    for file in @FILES@; do if [ -e "$file" ]; then echo "$file = $(cat "$file")"; fi; done
}
show before
sh @MODULE@/post-fs-data.sh
sh @MODULE@/service.sh &
sleep 5
show waiting
: > /dev/boot_completed
wait
show applied
echo @log
cat /data/adb/ktrial/ktrial-sample/log
sh @MODULE@/uninstall.sh
show restored
echo @left
ls /data/adb/ktrial
echo @end
sync
reboot -f -p
"""


def userland(folder: Path) -> Path:
    """Debian's packages for arm64, unpacked."""
    options = kernels.apt_options("arm64")
    kernels.run(["apt-get", *options, "download", *PACKAGES], folder)
    for package in folder.glob("*.deb"):
        kernels.run(["dpkg", "-x", str(package), str(folder / "root")])
    return folder / "root"


def image(root: Path) -> bytes:
    """The initial RAM file system: /system/bin, /data/adb with the module, and no /etc."""
    archive = Archive()
    for name in ("dev", "proc", "sys", "data/adb/modules", "system/bin"):
        archive.folder(name)
    archive.device("dev/console", 5, 1)
    archive.device("dev/null", 1, 3)
    for name in ("ld-linux-aarch64.so.1", *(f"aarch64-linux-gnu/{one}" for one in LIBRARIES)):
        archive.file(f"lib/{name}", (root / "lib" / name).read_bytes())
    archive.file("system/bin/sh", (root / "bin/mksh").read_bytes())
    archive.file("system/bin/toybox", next(root.glob("**/bin/toybox")).read_bytes())
    commands = subprocess.run(["toybox"], capture_output=True, text=True, check=True).stdout.split()
    for name in commands:
        if name not in {"sh", "toybox", "getprop"}:
            archive.link(f"system/bin/{name}", "toybox")
    archive.file("system/bin/getprop", GETPROP.encode())
    for path, text in module_files_of(SETTINGS).items():
        archive.file(f"{MODULE[1:]}/{path}", text.encode())
    archive.file("data/adb/ktrial/ktrial-sample/delay", b"1\n")
    for number, module in enumerate(kernels.module_files(KERNEL)):
        archive.file(f"modules/{number:02}-{module.name.removesuffix('.xz')}", plain(module), 0o644)
    archive.file("init", INIT.replace("@FILES@", " ".join(SEEN)).replace("@MODULE@", MODULE).encode())
    return archive.bytes()


def console(kernel: Path, initrd: Path) -> str:
    command = ["qemu-system-aarch64", "-nodefaults", "-no-user-config", "-machine", "virt", "-cpu", "cortex-a57"]
    command += ["-accel", "tcg,thread=single", "-smp", "2", "-m", "1024", "-display", "none", "-serial", "stdio"]
    command += ["-blockdev", "driver=null-co,node-name=d0,size=16777216,read-zeroes=on"]
    command += ["-device", "virtio-blk-pci,drive=d0", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initrd)]
    command += ["-append", "console=ttyAMA0 quiet panic=-1 nokaslr cryptomgr.notests"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=1800, check=True)
    return done.stdout.decode(errors="replace").replace("\r\n", "\n")


def parts(text: str) -> dict[str, str]:
    """What the init showed, by the name of the part."""
    found = re.split(r"^@([a-z]+)\n", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def test_a_module_on_a_phone_of_arm64(tmp_path: Path) -> None:
    kernels.fetch(KERNEL)
    (tmp_path / "initramfs").write_bytes(image(userland(tmp_path)))
    said = console(KERNEL.tree / f"boot/vmlinuz-{kernels.release(KERNEL.tree)}", tmp_path / "initramfs")
    found = parts(said)
    assert "end" in found, said
    assert found["waiting"] == found["before"]  # nothing before the boot is complete
    (boot,) = parse_log(found["log"])
    assert (boot.unread, boot.notes, boot.guard) == ((), (), None)
    assert boot.finished is not None
    assert boot.kernel == kernels.release(KERNEL.tree)
    live = dict(line.split(" = ", 1) for line in found["applied"].splitlines())
    expected = {"vm/swappiness": "100", "vm/dirty_ratio": "30", "vm/stat_interval": "10"}
    assert {name: live[f"/proc/sys/{name}"] for name in expected} == expected
    assert "[kyber]" in live["/sys/block/vda/queue/scheduler"]
    assert live["/sys/block/vda/queue/iostats"] == "0"
    outcomes = {(one.knob, one.outcome) for one in boot.settings}
    for knob in ("sched:tunable_scaling", "sched:migration_cost_ns", "sched:nr_migrate"):
        assert (knob, "accepted") in outcomes
    for knob in ("sched:latency_ns", "feature:STRICT_SKIP_BUDDY", "kernel.sched_upmigrate"):
        assert (knob, "absent") in outcomes
    assert {"NEXT_BUDDY", "NO_NONTASK_CAPACITY"} <= set(live["/sys/kernel/debug/sched/features"].split())
    assert found["restored"] == found["before"]
    assert "No such file" in found["left"]
