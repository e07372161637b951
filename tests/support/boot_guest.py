# SPDX-License-Identifier: Apache-2.0
"""A Debian 12 that boots from its own disk through a loader: GRUB under BIOS or UEFI, or systemd-boot.

Kernel, initrd and loader are Debian's, installed by Debian's own tools inside the guest.
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from tests.support.debian_guest import (
    CLONE_MOUNT,
    COMMAND_LINE,
    FILES,
    KERNEL,
    PACKAGES,
    SETTLE,
    TOOLS,
    cached,
    debian,
    make_clone,
)
from tests.support.qemu_guest import QemuGuest

Loader = Literal["grub-bios", "grub-efi", "systemd-boot"]
LOADERS: tuple[Loader, ...] = ("grub-bios", "grub-efi", "systemd-boot")
#: Mount point of the firmware's partition.
ESP = "/boot/efi"

_FIRMWARE = Path("/usr/share/OVMF")
_MIB = 1 << 20
#: Identifiers of the root file system, and of the firmware's file system.
_UUID, _SERIAL = "6b7472f1-616c-4c21-8b00-7464697363a1", "4B54-5249"
_FIRMWARE_AT, _FIRMWARE_BYTES = 2 * _MIB, 128 * _MIB
_ROOT_AT, _ROOT_BYTES = _FIRMWARE_AT + _FIRMWARE_BYTES, 3 << 30
_PARTITIONS = f"""label: gpt
start={_MIB >> 9}, size={_MIB >> 9}, type=21686148-6449-6E6F-744E-656564454649
start={_FIRMWARE_AT >> 9}, size={_FIRMWARE_BYTES >> 9}, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B
start={_ROOT_AT >> 9}, size={_ROOT_BYTES >> 9}, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4
"""
_PACKAGES = (
    *(*PACKAGES, KERNEL.package, "initramfs-tools", "lz4", "dosfstools"),
    *("grub2-common", "grub-pc-bin", "grub-efi-amd64-bin", "systemd-boot", "kexec-tools"),
)
_FILES = {
    **FILES,
    "etc/fstab": f"UUID={_UUID} / ext4 errors=remount-ro 0 1\n{CLONE_MOUNT}",
    "etc/default/grub": "GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_DISTRIBUTOR=Debian\nGRUB_TERMINAL=serial\n"
    f'GRUB_CMDLINE_LINUX_DEFAULT=quiet\nGRUB_CMDLINE_LINUX="{COMMAND_LINE}"\n',
    "etc/kernel/cmdline": f"root=UUID={_UUID} ro quiet {COMMAND_LINE}\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
    "etc/initramfs-tools/conf.d/small": "MODULES=list\nCOMPRESS=lz4\n",
    "etc/modules-load.d/watchdog.conf": "i6300esb\n",
}
# The journal of the previous boot must be there, and the firmware's record of a panic.
_SETTLE = f"""{SETTLE}
systemctl unmask systemd-journal-flush.service modprobe@efi_pstore.service
mkdir -p {ESP} /var/log/journal
update-initramfs -u -k all
"""
_MOUNT = f"echo UUID={_SERIAL} {ESP} vfat umask=0077 0 1 >> /etc/fstab; systemctl daemon-reload; mount {ESP}"
_INSTALL = {
    "grub-bios": "grub-install --target=i386-pc /dev/vda; update-grub",
    "grub-efi": f"{_MOUNT}; grub-install --target=x86_64-efi --efi-directory={ESP} --removable; update-grub",
    "systemd-boot": f"{_MOUNT}; bootctl install; kernel-install add $(uname -r) /boot/vmlinuz-$(uname -r)",
}


@dataclass(frozen=True)
class BootImages:
    """The disks with which every guest of a loader begins, and its firmware's variables."""

    loader: Loader
    root: Path
    clone: Path
    variables: Path

    @classmethod
    def make(cls, loader: Loader, folder: Path) -> BootImages:
        """Make the images that the cache lacks: one system, a layer for each loader, and the checkout's disk.

        The checkout's disk is always new.
        """
        clone = folder / "clone.img"
        make_clone(folder / "clone", clone)
        sources = [inspect.getsource(one) for one in (_make_system, _install, _Installer)]
        words = (*_PACKAGES, *_FILES, *_FILES.values(), _SETTLE, _PARTITIONS, sources[0])
        system = cached(words, _make_system) / "system.img"
        install = partial(_install, loader, system, clone)
        made = cached((str(system), _INSTALL[loader], *sources), install)
        return cls(loader, made / "root.qcow2", clone, made / "variables")


def _make_system(folder: Path, work: Path) -> None:
    root, image = debian(work / "root", _PACKAGES, _FILES, _SETTLE), folder / "system.img"
    with image.open("wb") as created:
        created.truncate(_ROOT_AT + _ROOT_BYTES + _MIB)
    subprocess.run(["sfdisk", "-q", image], input=_PARTITIONS, text=True, check=True, env=TOOLS)
    firmware = ("-F", "32", "-s", "1", "-i", _SERIAL.replace("-", ""), "--offset", str(_FIRMWARE_AT >> 9))
    command = ("mkfs.vfat", *firmware, image, str(_FIRMWARE_BYTES >> 10))
    subprocess.run(command, check=True, capture_output=True, env=TOOLS)
    place = ("-U", _UUID, "-E", f"offset={_ROOT_AT}", "-d", root.folder)
    subprocess.run(["mkfs.ext4", "-q", "-F", *place, image, f"{_ROOT_BYTES >> 10}k"], check=True, env=TOOLS)
    for name in ("vmlinuz", "initrd.img"):
        (file,) = (root.folder / "boot").glob(f"{name}-*")
        shutil.copy(file, folder / name)


def _install(loader: Loader, system: Path, clone: Path, folder: Path, work: Path) -> None:
    """Let the system in a guest install the loader on its own disk."""
    images = BootImages(loader, system, clone, folder / "variables")
    shutil.copy(_FIRMWARE / "OVMF_VARS_4M.fd", images.variables)
    with _Installer(images, folder / "root.qcow2", images.variables) as guest:
        ran = guest.run(f"set -ex; {_INSTALL[loader]}")
        assert ran.status == 0, ran.err
        guest.halt()
    near = Path("..") / system.parent.name / system.name
    subprocess.run(["qemu-img", "rebase", "-u", "-b", near, "-F", "raw", folder / "root.qcow2"], check=True)


class _BootingGuest(QemuGuest):
    def __init__(self, images: BootImages, disk: Path, variables: Path, *, memory_mib: int = 2048) -> None:
        super().__init__(images.root, images.clone, disk, memory_mib=memory_mib)
        self.loader, self._images, self._variables = images.loader, images, variables

    def _loader(self) -> list[str]:
        # A watchdog that is no longer fed resets the machine.
        watchdog = ["-device", "i6300esb", "-action", "watchdog=reset"]
        if self.loader == "grub-bios":
            return watchdog
        code = f"if=pflash,format=raw,unit=0,readonly=on,file={_FIRMWARE}/OVMF_CODE_4M.fd"
        return [*watchdog, "-drive", code, "-drive", f"if=pflash,format=raw,unit=1,file={self._variables}"]


class _Installer(_BootingGuest):
    """Started by QEMU directly, because there is no loader yet."""

    def _loader(self) -> list[str]:
        images = self._images.root.parent
        start = ["-kernel", str(images / "vmlinuz"), "-initrd", str(images / "initrd.img"), "-no-reboot"]
        return [*super()._loader(), *start, "-append", f"root=UUID={_UUID} ro panic=-1 quiet {COMMAND_LINE}"]


class BootGuest(_BootingGuest):
    """A guest whose reboots go through its loader."""

    def __init__(self, images: BootImages, folder: Path, *, memory_mib: int = 2048) -> None:
        variables = folder / "variables"
        shutil.copy(images.variables, variables)
        super().__init__(images, folder / "disk.qcow2", variables, memory_mib=memory_mib)

    def reboot(self) -> None:
        """Reboot the guest from inside: QEMU keeps running, and the loader starts again."""
        self.send("systemctl --no-block reboot")
        self.wait_boot()
        self.assert_running()

    def command_line(self) -> list[str]:
        return self.run("cat /proc/cmdline").out.split()
