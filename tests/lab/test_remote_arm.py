# SPDX-License-Identifier: Apache-2.0
"""Machines of other architectures over ssh: guests with Debian's kernels for arm64 and armhf, and Dropbear's sshd."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from ktrial.guests.initramfs import Archive
from tests.guests.system import initramfs
from tests.guests.system.kernels import ARM_KERNELS, ARMV7_KERNEL, MIRROR, Kernel, fetch, module_files, release
from tests.support.cross_agent import cross_agent
from tests.support.ssh_guests import SshUser, free_port, network

pytestmark = [pytest.mark.xdist_group("aarch64"), pytest.mark.timeout(4800)]

MODULES = ("virtio_pci", "virtio_net")
_BOOT_LIMIT_S = 420
_KEY = re.compile(r"^(ssh-ed25519 \S+)", re.MULTILINE)
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir /dev/pts
mount -t devpts none /dev/pts
mount -t tmpfs none /run
mount -t tmpfs none /tmp
@MODULES@
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
dropbearkey -t ed25519 -f /etc/dropbear/key
dropbear -E -r /etc/dropbear/key -p 22
echo ready
while :; do sleep 60; done
"""


class Board(NamedTuple):
    """A machine of another architecture: its agent, its kernel, and how QEMU calls it."""

    agent: str
    kernel: Kernel
    emulator: tuple[str, ...]


# Debian's armhf kernel waits for ever in front of /init if one thread of QEMU emulates two CPUs.
BOARDS = (
    Board("aarch64", ARM_KERNELS[-1], ("qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a57", "-smp", "2")),
    Board(
        "armv7", ARMV7_KERNEL, ("qemu-system-arm", "-machine", "virt,highmem=off", "-cpu", "cortex-a15", "-smp", "1")
    ),
)


class There(NamedTuple):
    """A user here, and the guest that the user reaches as `arm`."""

    user: SshUser
    release: str


def start_file(folder: Path, key: str, kernel: Kernel) -> bytes:
    """Return the initial RAM file system: busybox and Dropbear of Debian, and root's key."""
    root = folder / "root"
    command = ["mmdebstrap", "--variant=extract", f"--architectures={kernel.architecture}"]
    command += ["--include=busybox-static,dropbear-bin", "bookworm", str(root), MIRROR]
    unpacked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert unpacked.returncode == 0, unpacked.stderr
    texts = {
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
        "etc/group": "root:x:0:\n",
        "etc/shells": "/bin/sh\n",
        "root/.ssh/authorized_keys": f"{key}\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("etc/dropbear", "proc", "run", "sys", "tmp", "modules"):
        (root / name).mkdir(exist_ok=True, parents=True)
    loading = list[str]()
    for module in module_files(kernel):
        name = module.name.removesuffix(".xz")
        (root / "modules" / name).write_bytes(initramfs.plain(module))
        loading.append(f"insmod /modules/{name}")
    (root / "init").write_text(_INIT.replace("@MODULES@", "\n".join(loading)))
    (root / "init").chmod(0o755)
    shutil.rmtree(root / "usr/share")
    for name in ("root", "root/.ssh"):
        (root / name).chmod(0o700)
    archive = Archive()
    shutil.rmtree(root / "dev")
    (root / "dev").mkdir()
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            archive.link(name, str(path.readlink()))
        elif path.is_dir():
            archive.folder(name, path.stat().st_mode & 0o7777)
        else:
            archive.file(name, path.read_bytes(), path.stat().st_mode & 0o7777)
    return archive.bytes()


@pytest.fixture(scope="module", params=BOARDS, ids=[board.agent for board in BOARDS])
def arm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    """Return a user here who can reach the running guest as `arm`."""
    board: Board = request.param
    kernel = replace(board.kernel, modules=MODULES)
    folder = tmp_path_factory.mktemp("arm")
    cross_agent(folder / "cross", board.agent)
    fetch(kernel)
    made, port = SshUser(folder), free_port()
    (folder / "start").write_bytes(start_file(folder, made.public_key, kernel))
    console = folder / "console"
    command = [*board.emulator, "-nodefaults", "-no-user-config", "-accel", "tcg,thread=single"]
    command += ["-m", "1024", "-display", "none"]
    command += ["-serial", f"file:{console}", *network(port)]
    command += ["-kernel", str(kernel.tree / "boot" / f"vmlinuz-{release(kernel.tree)}")]
    command += ["-initrd", str(folder / "start"), "-append", "console=ttyAMA0 quiet panic=-1"]
    guest = subprocess.Popen(command)
    try:
        made.know("arm", port, host_key(console), login="root")
        yield There(made, release(kernel.tree))
    finally:
        guest.kill()
        guest.wait()


def host_key(console: Path) -> str:
    """Wait until the guest's sshd is ready; return its key."""
    deadline = time.monotonic() + _BOOT_LIMIT_S
    shown = ""
    while "\nready" not in shown.replace("\r", ""):
        assert time.monotonic() < deadline, shown
        time.sleep(1)
        shown = console.read_text(errors="replace") if console.exists() else ""
    found = _KEY.search(shown)
    assert found is not None, shown
    return found[1]


def said(arm: There, command: str) -> str:
    ran = subprocess.run([arm.user.folder / "bin/ssh", "arm", command], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_the_agent_for_that_architecture_is_brought_and_removed(arm: There) -> None:
    facts = arm.user.told("arm", "facts")["facts"]
    assert facts["kernel.release"]["value"] == arm.release
    arm.user.ktrial("arm", "doctor")
    assert said(arm, "find /root -type f") == "/root/.ssh/authorized_keys"


def test_a_setting_is_applied_verified_and_reverted(arm: There) -> None:
    arm.user.ktrial("arm", "apply", "vm.swappiness=17", "-y")
    assert said(arm, "cat /proc/sys/vm/swappiness") == "17"
    arm.user.ktrial("arm", "verify")
    arm.user.ktrial("arm", "revert")
    assert said(arm, "cat /proc/sys/vm/swappiness") == "60"


def test_a_load_of_the_agent_is_measured_there_in_a_trial(arm: There) -> None:
    words = ("--suite", "agent-contextswitch-same", "-p", "duration_s=1", "--no-profile", "--budget", "7", "--json")
    told = [json.loads(line) for line in arm.user.ktrial("arm", "try", "vm.swappiness=10", *words).splitlines()]
    records = [one["record"] for one in told if one["event"] == "visit"]
    assert {one["trial"]["kernel_release"] for one in records} == {arm.release}
    assert len([one for one in records if one["failure"] is None]) >= 14
    assert said(arm, "cat /proc/sys/vm/swappiness") == "60"
