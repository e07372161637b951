# SPDX-License-Identifier: Apache-2.0
"""A guest that has this machine's root file system, read-only, and a disk of its own that outlives its boots.

So the head runs there as it is checked out here, with this machine's Python and tools. Emulated: its time is its own.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.guests.system import initramfs
from tests.guests.system.kernels import BEGIN, END, Kernel, KernelError, fetch, module_files, output, release

#: What the root file system and the disk need.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "virtio_blk", "ext4")
#: Where the disk is in the guest: what lies there stays.
DISK = "/mnt"
#: Where root keeps its journal there: what this machine has for it cannot be written.
STATE = f"{DISK}/state"
KTRIAL = (sys.executable, "-I", "-m", "ktrial")
_DISK_BYTES = 256 << 20
_CHECKOUT = shlex.quote(str(Path(__file__).resolve().parents[3]))

# Nothing of it is left when the job begins: it is process 1 in the file system that this one sees too.
_INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
@MODULES@
echo 1 > /proc/sys/kernel/printk
mkdir /new
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 root /new || poweroff -f
mkdir /checkout
mount --bind /new{_CHECKOUT} /checkout
mount -t tmpfs none /new/run
mount -t tmpfs none /new/tmp
[ -d /new{_CHECKOUT} ] || {{ mkdir -p /new{_CHECKOUT} && mount --bind /checkout /new{_CHECKOUT}; }}
umount /checkout
mount -t ext4 /dev/vda /new{DISK} || poweroff -f
mkdir -p /new/run/job
cp /job/* /new/run/job
for place in proc sys dev; do mount --move /$place /new/$place; done
exec switch_root /new @FIRST@
"""
_JOB = f"""#!/bin/sh
exec > /dev/console 2>&1 < /dev/null
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME={DISK}/home NO_COLOR=1
mkdir -p "$HOME"
cd "$HOME"
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
ip link set lo up 2> /dev/null
echo {BEGIN} $(uname -r)
@SCRIPT@
echo
echo {END}
sync
busybox poweroff -f
"""
#: Units of systemd's that hold nothing but the job and what a test adds: none of this machine's services is started.
_UNITS = {
    "job.target": "[Unit]\nDefaultDependencies=no\nRequires=job.service\n",
    "job.service": "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sh /run/job/job\n"
    "StandardOutput=null\nStandardError=null\n",
}


class GuestMachine:
    """Boots, one after the other, of a machine whose disk lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._disk = folder / "disk.img"
        with self._disk.open("wb") as file:
            file.truncate(_DISK_BYTES)
        path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        subprocess.run(["mkfs.ext4", "-q", "-F", self._disk], check=True, env=path)
        self.consoles: list[str] = []

    def boot(
        self,
        kernel: Kernel,
        script: str,
        files: Mapping[str, str] | None = None,
        *,
        units: Mapping[str, str] | None = None,
        limit_s: float = 600,
        counts: bool = False,
    ) -> list[str]:
        """What a script printed that ran as root in one boot. `files` lie in /run/job; with `units` systemd is init.

        If it `counts` instructions, they are its time: it is as fast on a busy machine, and waits take no time here.
        """
        there = replace(kernel, modules=MODULES)
        fetch(there)
        job = {"job": _JOB.replace("@SCRIPT@", script), **(files or {})}
        first = "/bin/sh /run/job/job"
        init = _INIT
        if units is not None:
            job |= {**_UNITS, **units}
            first = "/lib/systemd/systemd --unit=job.target --show-status=no --log-level=warning"
            place = "/new/run/systemd/system"
            init = init.replace(
                "for place in",
                f"mkdir -p {place}; cp /job/*.service /job/*.target {place}; chmod 644 {place}/*\nfor place in",
            )
        content = {f"/job/{name}": text.encode() for name, text in job.items()}
        with TemporaryDirectory() as folder:
            image = Path(folder) / "initramfs"
            image.write_bytes(initramfs.build(module_files(there), init.replace("@FIRST@", first), content))
            kernel_image = there.tree / "boot" / f"vmlinuz-{release(there.tree)}"
            self.consoles.append(self._run(kernel_image, image, limit_s, counts=counts))
        return output(self.consoles[-1])

    def _run(self, kernel: Path, image: Path, limit_s: float, *, counts: bool) -> str:
        """Console text of QEMU, until the guest powers off."""
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-machine", "q35", "-cpu", "max"]
        # One thread for both CPUs: see tests/guests/system/kernels.py.
        command += ["-accel", "tcg,thread=single", "-smp", "2", "-m", "1536"]
        command += ["-icount", "shift=1,sleep=off"] if counts else []
        command += ["-display", "none", "-serial", "stdio", "-no-reboot"]
        command += ["-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"]
        command += ["-drive", f"file={self._disk},format=raw,if=virtio"]
        command += ["-kernel", str(kernel), "-initrd", str(image)]
        command += ["-append", "console=ttyS0 quiet panic=-1 nokaslr cryptomgr.notests no_timer_check"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=True)
        except subprocess.TimeoutExpired as error:
            seen = (error.stdout or b"").decode(errors="replace")
            raise KernelError(f"no end within {limit_s:g} s; the console showed:\n{seen}") from error
        except subprocess.CalledProcessError as error:
            raise KernelError(f"qemu failed: {error.stderr.decode(errors='replace')}") from error
        return done.stdout.decode(errors="replace")


def ktrial(*words: str) -> str:
    """A line of a script that runs ktrial, and prints its status on a line of its own."""
    return f"{{ {shlex.join((*KTRIAL, '--machine-state', STATE, *words))}; status=$?; echo; echo status $status; }}"
