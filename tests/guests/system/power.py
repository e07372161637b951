# SPDX-License-Identifier: Apache-2.0
"""A guest that works with the agent on a disk of the test's: recorded, cut off from its power, or failing.

The guest talks to the test over another disk: a command in its first block, and after it what belongs to the command.
"""

from __future__ import annotations

import errno
import io
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.guests.system.kernels import BEGIN, END, Kernel, boot, output
from tests.support.nbd import BLOCK_BYTES, Disk, Image, pieces, served


@dataclass(frozen=True)
class FileSystem:
    """A file system: what makes one, what it is mounted with, and the size of the disk."""

    name: str
    make: tuple[str, ...]
    options: str
    size: int

    def made(self) -> Image:
        """A disk with an empty one."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "disk"
            with file.open("wb") as opened:
                opened.truncate(self.size)
            path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
            subprocess.run([*self.make, file], check=True, capture_output=True, env=path)
            return Image.of(file)


#: As Debian installs it, but for the size.
EXT4 = FileSystem("ext4", ("mkfs.ext4", "-q", "-F", "-b", "4096"), "errors=remount-ro", 64 << 20)
#: The same, but it brings no file to the disk by itself that is renamed over another one.
EXT4_UNAIDED = replace(EXT4, options="errors=remount-ro,noauto_da_alloc")
XFS = FileSystem("xfs", ("mkfs.xfs", "-q"), "defaults", 320 << 20)

MODULES = ("virtio_pci", "virtio_blk")
_CONTROL_BYTES = 4 << 20
#: Settings of the kernel that the plans change: what the guest's administrator has set, before an agent comes.
KNOBS = {"vm.swappiness": "33", "vm.vfs_cache_pressure": "120", "vm.page-cluster": "2"}

_INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
@MODULES@
echo 1 > /proc/sys/kernel/printk
mkdir -p /mnt /told /var

# command WORDS: what the test is to do now; it is done when this ends.
command() {{ printf '%s' "$*" | dd of=/dev/vda bs={BLOCK_BYTES} count=1 conv=sync,fsync 2> /dev/null; }}

# tell WORDS: a command with all that lies in /told.
tell() {{
    tar cf - -C /told . | dd of=/dev/vda bs={BLOCK_BYTES} seek=1 2> /dev/null
    command "$@"
    rm -rf /told/*
}}

attach() {{ mount -t @TYPE@ -o @OPTIONS@ /dev/vdb /mnt && mount --bind /mnt/etc /etc && mount --bind /mnt/var /var; }}
detach() {{ umount /etc /var /mnt; }}

# agent NAME WORDS: its reply, what it complained of and its status are told as NAME.
agent() {{
    name=$1
    shift
    status=0
    /agent "$@" --json > "/told/$name.json" 2> "/told/$name.err" || status=$?
    echo "$status" > "/told/$name.status"
}}

# killed AT NAME WORDS: the same, and it is killed at step AT.
killed() {{
    export KTRIAL_FAULT_KIND=kill KTRIAL_FAULT_AT=$1
    shift
    agent "$@"
    unset KTRIAL_FAULT_AT
}}

# look NAME: the files that plans change, and the settings, are told as NAME.
look() {{
    tar cf "/told/$1.tar" -C /etc .
    sysctl {" ".join(KNOBS)} > "/told/$1.knobs"
}}

administrator() {{ sysctl -w {" ".join(f"{name}={value}" for name, value in KNOBS.items())} > /dev/null; }}

echo {BEGIN} $(uname -r)
@SCRIPT@
echo {END}
poweroff -f
"""


class Told:
    """What a guest told with a command: the files of its folder, by name."""

    def __init__(self, content: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = [member for member in archive if member.isfile()]
            self._files = {member.name.removeprefix("./"): _content(archive, member) for member in members}

    def has(self, name: str) -> bool:
        """Whether it told this."""
        return name in self._files

    def text(self, name: str) -> str:
        """A file's text."""
        return self._files[name].decode(errors="replace")

    def tree(self, name: str) -> dict[str, tuple[int, bytes]]:
        """The files and folders that `look` saw: permission bits and content."""
        with tarfile.open(fileobj=io.BytesIO(self._files[f"{name}.tar"])) as archive:
            return {
                member.name[2:]: (member.mode, _content(archive, member) if member.isfile() else b"")
                for member in archive
                if member.name[2:]
            }

    def knobs(self, name: str) -> dict[str, str]:
        """The settings that `look` saw."""
        return dict(line.split(" = ") for line in self.text(f"{name}.knobs").splitlines())


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


class _Control(Image):
    """The disk of the commands."""

    def __init__(self, handle: Callable[[str, bytes], None]) -> None:
        super().__init__(_CONTROL_BYTES)
        self._handle = handle

    def flush(self) -> None:
        words = self.read(0, BLOCK_BYTES).rstrip(b"\0").decode()
        if words:
            content = self.read(BLOCK_BYTES, max(self.blocks) * BLOCK_BYTES)
            self.blocks.clear()
            self._handle(words, content)


class Write(NamedTuple):
    """What was written to a block."""

    offset: int
    data: bytes


class Mark(NamedTuple):
    """What the guest said at this moment."""

    words: str
    told: Told | None


class Flush:
    """All before it has come to the disk."""


Log = list[Write | Mark | Flush]


class Recorded:
    """A disk whose writes and flushes are written down, and marks between them."""

    def __init__(self, image: Image) -> None:
        self.size = image.size
        self.image = image
        self.start = Image(image.size, image.blocks)
        self.log: Log = []

    def restart(self) -> None:
        """What was written so far is where it begins."""
        self.start = Image(self.size, self.image.blocks)
        self.log.clear()

    def read(self, offset: int, length: int) -> bytes:
        return self.image.read(offset, length)

    def write(self, offset: int, data: bytes) -> None:
        self.image.write(offset, data)
        self.log.extend(Write(*piece) for piece in pieces(offset, data))

    def flush(self) -> None:
        self.log.append(Flush())


class Exchanged:
    """A disk whose content the test exchanges, and which fails when it is told to."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.image = Image(size)
        self.passed = 0
        #: Writes and flushes that fail, counted from 1.
        self.failing: range = range(0)

    def arm(self, failing: range) -> None:
        """Count writes and flushes from now on; let those of these numbers fail."""
        self.passed, self.failing = 0, failing

    def _pass(self) -> None:
        self.passed += 1
        if self.passed in self.failing:
            raise OSError(errno.EIO, "the disk fails")

    def read(self, offset: int, length: int) -> bytes:
        return self.image.read(offset, length)

    def write(self, offset: int, data: bytes) -> None:
        self._pass()
        self.image.write(offset, data)

    def flush(self) -> None:
        self._pass()


def run(
    kernel: Kernel,
    system: FileSystem,
    agent: Path,
    script: str,
    disk: Disk,
    handle: Callable[[str, bytes], None],
    files: Mapping[str, str],
    *,
    limit_s: float,
) -> list[str]:
    """Boots a guest once that has this disk and this agent; `handle` gets its commands. What its script printed."""
    init = _INIT.replace("@SCRIPT@", script).replace("@TYPE@", system.name).replace("@OPTIONS@", system.options)
    with TemporaryDirectory() as folder:
        bare = Path(folder) / "agent"
        subprocess.run(["strip", "-o", bare, agent], check=True)
        content = {name: text.encode() for name, text in files.items()} | {"/agent": bare.read_bytes()}
    there = replace(kernel, modules=(*MODULES, system.name))
    with served({"control": _Control(handle), "disk": disk}) as devices:
        return output(boot(there, init, content, devices=devices, limit_s=limit_s))
