# SPDX-License-Identifier: Apache-2.0
"""A machine of another architecture over ssh: a guest with Debian's kernel for arm64 and Dropbear's sshd."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ktrial.guests.initramfs import Archive
from tests.guests.system import initramfs
from tests.guests.system.kernels import ARM_KERNELS, fetch, module_files, release
from tests.support.cross_agent import cross_agent
from tests.support.ssh_guests import SshUser, free_port, network

pytestmark = [pytest.mark.xdist_group("aarch64"), pytest.mark.timeout(4800)]

KERNEL = replace(ARM_KERNELS[-1], modules=("virtio_net",))
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


def start_file(folder: Path, key: str) -> bytes:
    """Return the initial RAM file system: busybox and Dropbear of Debian for arm64, and root's key."""
    root = folder / "root"
    command = ["mmdebstrap", "--variant=extract", "--architectures=arm64", "--include=busybox-static,dropbear-bin"]
    unpacked = subprocess.run([*command, "bookworm", root], capture_output=True, text=True, check=False)
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
    for module in module_files(KERNEL):
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


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshUser]:
    """Return a user here who can reach the running guest as `arm`."""
    folder = tmp_path_factory.mktemp("arm")
    cross_agent(folder / "cross")
    fetch(KERNEL)
    made, port = SshUser(folder), free_port()
    (folder / "start").write_bytes(start_file(folder, made.public_key))
    console = folder / "console"
    command = ["qemu-system-aarch64", "-nodefaults", "-no-user-config", "-machine", "virt", "-cpu", "cortex-a57"]
    command += ["-accel", "tcg,thread=single", "-smp", "2", "-m", "1024", "-display", "none"]
    command += ["-serial", f"file:{console}", *network(port)]
    command += ["-kernel", str(KERNEL.tree / "boot" / f"vmlinuz-{release(KERNEL.tree)}")]
    command += ["-initrd", str(folder / "start"), "-append", "console=ttyAMA0 quiet panic=-1"]
    guest = subprocess.Popen(command)
    try:
        made.know("arm", port, host_key(console), login="root")
        yield made
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


def there(user: SshUser, command: str) -> str:
    ran = subprocess.run([user.folder / "bin/ssh", "arm", command], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_the_agent_for_that_architecture_is_brought_and_removed(user: SshUser) -> None:
    facts = user.told("arm", "facts")["facts"]
    assert facts["kernel.release"]["value"] == release(KERNEL.tree)
    user.ktrial("arm", "doctor")
    assert there(user, "find /root -type f") == "/root/.ssh/authorized_keys"


def test_a_setting_is_applied_verified_and_reverted(user: SshUser) -> None:
    user.ktrial("arm", "apply", "vm.swappiness=17", "-y")
    assert there(user, "cat /proc/sys/vm/swappiness") == "17"
    user.ktrial("arm", "verify")
    user.ktrial("arm", "revert")
    assert there(user, "cat /proc/sys/vm/swappiness") == "60"


def test_a_load_of_the_agent_is_measured_there_in_a_trial(user: SshUser) -> None:
    words = ("--suite", "agent-contextswitch-same", "-p", "duration_s=1", "--no-profile", "--budget", "7", "--json")
    told = [json.loads(line) for line in user.ktrial("arm", "try", "vm.swappiness=10", *words).splitlines()]
    records = [one["record"] for one in told if one["event"] == "visit"]
    assert {one["trial"]["kernel_release"] for one in records} == {release(KERNEL.tree)}
    assert len([one for one in records if one["failure"] is None]) >= 14
    assert there(user, "cat /proc/sys/vm/swappiness") == "60"
