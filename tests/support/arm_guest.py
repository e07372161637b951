# SPDX-License-Identifier: Apache-2.0
"""A Debian for arm64 in a folder, booted by QEMU with Debian's own kernel to run one script."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path

from ktrial.guests.initramfs import Archive
from tests.guests.system import initramfs
from tests.guests.system.kernels import ARM_KERNELS, fetch, module_files, release

KERNEL = replace(ARM_KERNELS[-1], modules=("virtio_blk", "ext4"))
#: Packages that a script needs. Debian's own set-up does not run.
_PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "findutils", "grep", "hostname", "kmod", "libc-bin", "mount"),
    *("procps", "python3", "libstdc++6", "libgcc-s1", "sed", "tar", "util-linux"),
)
_SIZE_BYTES = 3 << 30
_START = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
@MODULES@
until [ -b /dev/vda ]; do sleep 1; done
mount -t ext4 /dev/vda /new || poweroff -f
mount --move /dev /new/dev
umount /proc /sys
exec switch_root /new /script
"""
_SCRIPT = """#!/bin/bash
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 COLUMNS=80
cd /root
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs none /tmp
mount -t tmpfs -o mode=755 none /run
ln -sfn /proc/self/fd /dev/fd
date -s @{now} >/dev/null
{body}
echo; echo all-done
sync
echo o >/proc/sysrq-trigger
sleep 60
"""


def unpack_debian(folder: Path, suite: str) -> None:
    """Unpack Python and the packages that a shell script needs; this takes a minute."""
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64"]
    subprocess.run([*command, "--include=" + ",".join(_PACKAGES), suite, folder], check=True)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n", encoding="utf-8")
    (folder / "etc/group").write_text("root:x:0:\n", encoding="utf-8")
    for name in ("dev", "proc", "root", "run", "sys", "tmp", "usr/local/bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)


def run_there(folder: Path, work: Path, body: str, *, limit_s: int) -> str:
    """Boot the folder's copy and run a script as root; return the console output."""
    fetch(KERNEL)
    (folder / "script").write_text(_SCRIPT.format(now=int(time.time()), body=body), encoding="utf-8")
    (folder / "script").chmod(0o755)
    disk, console, start = work / "disk.img", work / "console", work / "start"
    with disk.open("wb") as file:
        file.truncate(_SIZE_BYTES)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", "-F", "-d", folder, disk], check=True)
    start.write_bytes(_start_file(work / "busybox"))
    machine = ("-machine", "virt", "-cpu", "cortex-a57", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "2048")
    kernel = ("-kernel", KERNEL.tree / "boot" / f"vmlinuz-{release(KERNEL.tree)}", "-initrd", start)
    disks = ("-drive", f"file={disk},format=raw,if=none,id=disk", "-device", "virtio-blk-pci,drive=disk")
    rest = ("-append", "console=ttyAMA0 quiet panic=-1", "-no-reboot", "-display", "none", "-serial", f"file:{console}")
    command = ("qemu-system-aarch64", "-nodefaults", "-no-user-config", *machine, *kernel, *disks, *rest)
    subprocess.run(command, check=True, timeout=limit_s)
    return console.read_text(errors="replace").replace("\r", "")


def _start_file(folder: Path) -> bytes:
    """Return the initial RAM file system that mounts the disk, with busybox for arm64 and the kernel's modules."""
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64", "--include=busybox-static"]
    subprocess.run([*command, "bookworm", folder], check=True)
    archive = Archive()
    for name in ("bin", "dev", "modules", "new", "proc", "sys"):
        archive.folder(name)
    archive.file("bin/busybox", (folder / "bin/busybox").read_bytes())
    archive.link("bin/sh", "busybox")
    loading = []
    for module in module_files(KERNEL):
        name = f"modules/{module.name.removesuffix('.xz')}"
        archive.file(name, initramfs.plain(module), 0o644)
        loading.append(f"insmod /{name}")
    archive.file("init", _START.replace("@MODULES@", "\n".join(loading)).encode())
    return archive.bytes()
