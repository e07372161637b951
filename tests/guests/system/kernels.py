# SPDX-License-Identifier: Apache-2.0
"""Real kernels of Debian in QEMU: download, unpack, boot with a small initial RAM file system, console text back."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.guests.system import initramfs
from tests.guests.system.places import CHECKOUT, patterns

CACHE = CHECKOUT / ".setup" / "kernels"
BEGIN, END = "KTRIAL-BEGIN", "KTRIAL-END"
BOOT_LIMIT_S = 240
MIRROR, KEYRING = "http://deb.debian.org/debian", "/usr/share/keyrings/debian-archive-keyring.gpg"

# Devices of the guest, so that their drivers show their files. The disks read as zeros and keep nothing.
DEVICES = (
    *("-blockdev", "driver=null-co,node-name=d0,size=16777216,read-zeroes=on", "-device", "virtio-blk-pci,drive=d0"),
    *("-blockdev", "driver=null-co,node-name=d1,size=16777216,read-zeroes=on", "-device", "virtio-blk-pci,drive=d1"),
    *("-blockdev", "driver=null-co,node-name=d2,size=16777216,read-zeroes=on", "-device", "nvme,drive=d2,serial=k"),
    *("-netdev", "user,id=n0,restrict=on", "-device", "virtio-net-pci,netdev=n0"),
    *("-device", "intel-hda", "-device", "hda-duplex"),
    *("-device", "qemu-xhci", "-device", "usb-kbd"),
)

# Mounts, drivers, a scheduler per disk and a group: what every script begins with.
PROLOGUE = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t debugfs none /sys/kernel/debug
mount -t cgroup2 none /sys/fs/cgroup
echo 1 > /proc/sys/kernel/printk
@MODULES@
echo bfq > /sys/block/vda/queue/scheduler
echo kyber > /sys/block/vdb/queue/scheduler
echo mq-deadline > /sys/block/nvme0n1/queue/scheduler
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control
done
mkdir /sys/fs/cgroup/test.slice
sleep 2
echo @BEGIN@ $(uname -r)
"""

SCRIPT = (
    PROLOGUE
    + """
while read pattern; do
    for path in $pattern; do
        [ -e "$path" ] || continue
        if value=$(cat "$path" 2>/dev/null); then
            echo "$path = $(echo $value)"
        else
            echo "$path = (cannot be read)"
        fi
        break
    done
done <<EOF
@PATTERNS@
EOF
echo @END@
poweroff -f
"""
)


@dataclass(frozen=True)
class Kernel:
    """A kernel of Debian: its name in the lists, the package that always names the newest build, its modules.

    `suite` is another Debian than this machine's.
    """

    name: str
    package: str
    modules: tuple[str, ...]
    suite: str | None = None
    architecture: str = "amd64"

    @property
    def scheduler(self) -> str:
        """What it schedules with."""
        return "EEVDF" if self.name.startswith("6.12") else "CFS"

    @property
    def tree(self) -> Path:
        """Folder that the package is unpacked into."""
        return CACHE / self.name


MODULES = (
    "virtio_pci virtio_blk virtio_net nvme ahci xhci_pci usbhid snd_hda_intel zram bfq kyber_iosched tcp_bbr sch_fq "
    "iwlwifi iwlmvm"
)

KERNELS = (
    Kernel("6.1", "linux-image-amd64", tuple(MODULES.split())),
    Kernel("6.12", "linux-image-6.12-amd64", tuple(MODULES.split())),
)
ARM_KERNELS = (
    Kernel("6.1-arm64", "linux-image-arm64", (), architecture="arm64"),
    Kernel("6.12-arm64", "linux-image-6.12-arm64", (), architecture="arm64"),
)
#: For machines of 32 bits.
ARMV7_KERNEL = Kernel("6.1-armhf", "linux-image-armmp", (), architecture="armhf")

#: Debian builds its kernels with sched_ext since then.
FORKY = Kernel("forky", "linux-image-amd64", tuple(MODULES.split()), suite="forky")


class KernelError(Exception):
    """A kernel could not be fetched or did not finish its script."""


def run(command: list[str], folder: Path | None = None) -> str:
    """What the command printed; its failure as a KernelError with what it said."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    try:
        done = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise KernelError(f"{' '.join(command)}: {said.strip()}") from error
    return done.stdout


@contextmanager
def cache_lock(kernel: Kernel) -> Iterator[None]:
    """One process at a time fetches a kernel."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{kernel.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def newest_packages(kernel: Kernel, options: Sequence[str] = ()) -> list[str]:
    """The package with the kernel itself, which the fixed name depends on, and what Debian 14 splits off from it."""
    found = re.search(r"Depends: (linux-image-\S+)", run(["apt-cache", *options, "depends", kernel.package]))
    if found is None:
        raise KernelError(f"apt knows no kernel for {kernel.package}: run `apt-get update`, on Debian 12")
    depends = run(["apt-cache", *options, "depends", found[1]])
    return [found[1], *re.findall(r"Depends: (linux-(?:binary|modules|base)-\d\S+)", depends)]


def other_suite(suite: str, folder: Path) -> list[str]:
    """Options with which apt looks at another Debian, and leaves this machine's lists alone."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    sources = folder / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n", encoding="utf-8")
    places = {"Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "-", "Dir::State::lists": folder / "lists"}
    places |= {"Dir::Cache": folder / "cache", "APT::Sandbox::User": "root", "Acquire::Languages": "none"}
    options = [word for name, value in places.items() for word in ("-o", f"{name}={value}")]
    run(["apt-get", *options, "update"])
    return options


def apt_options(architecture: str) -> list[str]:
    """Options of apt; for another architecture than this Debian's with lists of its own, which are fetched."""
    options = ["-o", "APT::Sandbox::User=root"]
    if architecture == run(["dpkg", "--print-architecture"]).strip():
        return options
    folder = CACHE / f"apt-{architecture}"
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    sources = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::sourcelist": next(path for path in sources if path.exists()),
    }
    for name, value in settings.items():
        options += ["-o", f"{name}={value}"]
    run(["apt-get", *options, "--quiet=2", "update"])
    return options


def fetch(kernel: Kernel) -> None:
    """Downloads and unpacks the kernel into the cache, unless it is there."""
    with cache_lock(kernel):
        if (kernel.tree / "boot").is_dir():
            return
        part = CACHE / f"{kernel.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        options = apt_options(kernel.architecture)
        if kernel.suite is not None:
            options = other_suite(kernel.suite, part / "apt")
        run(["apt-get", *options, "download", *newest_packages(kernel, options)], part)
        for package in part.glob("*.deb"):
            run(["dpkg", "-x", str(package), str(part)])
            package.unlink()
        shutil.rmtree(part / "apt", ignore_errors=True)
        _merge(part)
        run(["depmod", "-b", str(part), release(part)])
        part.rename(kernel.tree)


def _merge(tree: Path) -> None:
    """Lay a package of Debian 13 or later out like the older ones: all of it is in /usr, the kernel among modules."""
    if not (tree / "lib" / "modules").is_dir():
        shutil.rmtree(tree / "lib", ignore_errors=True)
        (tree / "lib").symlink_to("usr/lib")
    modules = tree / "lib" / "modules" / release(tree)
    if (modules / "vmlinuz").exists():
        (tree / "boot").mkdir(exist_ok=True)
        shutil.copy(modules / "vmlinuz", tree / "boot" / f"vmlinuz-{modules.name}")


def release(tree: Path) -> str:
    """The release of the kernel unpacked in `tree`, as `uname -r` says it."""
    (folder,) = (tree / "lib" / "modules").iterdir()
    return folder.name


def module_files(kernel: Kernel) -> list[Path]:
    """Files of the kernel's modules and of what they need, in the order of loading."""
    found: list[Path] = []
    for module in kernel.modules:
        command = ["modprobe", "-d", str(kernel.tree), "-S", release(kernel.tree), "--show-depends", module]
        for line in run(command).splitlines():
            words = line.split()
            if words[0] == "insmod" and Path(words[1]) not in found:
                found.append(Path(words[1]))
    return found


def boot(
    kernel: Kernel,
    script: str = SCRIPT,
    files: Mapping[str, bytes] | None = None,
    *,
    devices: Sequence[str] = DEVICES,
    limit_s: float = BOOT_LIMIT_S,
) -> str:
    """Boots the kernel once with `script` as its /init, and `files` by path; returns what the console showed."""
    fetch(kernel)
    text = script.replace("@PATTERNS@", "\n".join(patterns())).replace("@BEGIN@", BEGIN).replace("@END@", END)
    modules = module_files(kernel)
    with TemporaryDirectory() as folder:
        image = Path(folder) / "initramfs"
        image.write_bytes(initramfs.build(modules, text, files or {}))
        return start(kernel.tree / "boot" / f"vmlinuz-{release(kernel.tree)}", image, devices, limit_s)


def start(kernel: Path, image: Path, devices: Sequence[str] = DEVICES, limit_s: float = BOOT_LIMIT_S) -> str:
    """Console text of QEMU with this kernel and initial RAM file system, until the guest powers off."""
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-machine", "q35", "-cpu", "qemu64"]
    # One thread for both CPUs: with two, one boot in fourteen panicked on a loaded machine (QEMU 7.2).
    command += ["-accel", "tcg,thread=single", "-smp", "2", "-m", "1024"]
    command += ["-display", "none", "-serial", "stdio", "-no-reboot"]
    command += [*devices, "-kernel", str(kernel), "-initrd", str(image)]
    command += ["-append", "console=ttyS0 quiet panic=-1 nokaslr cryptomgr.notests no_timer_check"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=True)
    except OSError as error:
        raise KernelError(f"{command[0]} cannot be started: {error}; install qemu-system-x86") from error
    except subprocess.TimeoutExpired as error:
        seen = (error.stdout or b"").decode(errors="replace")
        raise KernelError(f"no end within {limit_s:g} s; the console showed:\n{seen}") from error
    except subprocess.CalledProcessError as error:
        raise KernelError(f"qemu failed: {error.stderr.decode(errors='replace')}") from error
    return done.stdout.decode(errors="replace")


def output(console: str) -> list[str]:
    """Lines that the guest's script printed between its two marks."""
    lines = [line.rstrip("\r") for line in console.splitlines()]
    begin = next((number for number, line in enumerate(lines) if line.startswith(BEGIN)), None)
    if begin is None or END not in lines[begin:]:
        raise KernelError(f"the guest's script did not finish; the console showed:\n{console}")
    return lines[begin + 1 : lines.index(END, begin)]


def present(console: str) -> dict[str, str]:
    """Paths and values that the guest's script printed."""
    found = (line.split(" =", 1) for line in output(console) if " =" in line)
    return {path: value.strip() for path, value in found}
