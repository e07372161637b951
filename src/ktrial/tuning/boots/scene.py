# SPDX-License-Identifier: Apache-2.0
"""What ktrial knows about a machine and a kernel before a trial boot, and obstacles to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.tuning.boots.entry import BootGrounds
from ktrial.tuning.lasting.loaders import NoLoader

ObstacleKind = Literal[
    "no-loader",
    "loader",
    "unified-kernel",
    "image-based",
    "container",
    "no-systemd",
    "unreadable",
    "not-mounted",
    "read-only",
    "full",
    "no-one-shot",
    "menu",
    "foreign-file",
    "already-armed",
    "default-changes",
    "kexec",
    "encrypted-disk",
    "battery",
    "users",
    "no-watchdog",
    "no-lockup-detector",
    "architecture",
    "not-a-kernel",
    "no-initramfs",
    "no-modules",
    "no-driver",
    "dkms",
    "unsigned",
    "not-packaged",
]
#: The options that overrule obstacles which are not final.
ANYWAY, YES_KERNEL = "--anyway", "--yes-kernel"


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """A reason that completes `cannot prepare a boot: …`, and what to do about it.

    `needs` is the option that makes ktrial go on in spite of the obstacle. A note is only shown.
    """

    kind: ObstacleKind
    message: str
    hint: str | None = None
    needs: str | None = None
    is_note: bool = False

    @property
    def is_final(self) -> bool:
        return self.needs is None and not self.is_note


class GrubScene(msgspec.Struct, frozen=True, kw_only=True):
    """GRUB's files in `folder`; a missing file is None.

    `has_user_file` means that there is a `user.cfg`, from which Fedora's GRUB takes a password. ktrial does not
    read this file.
    """

    folder: str
    environment: bytes | None = None
    custom: str | None = None
    has_user_file: bool = False


class SystemdBootScene(msgspec.Struct, frozen=True, kw_only=True):
    """What decides which entry systemd-boot boots by default.

    `folder` holds the entries; `version` is None if it is unknown.
    """

    folder: str
    version: int | None = None
    loader_conf: str = ""
    default: str | None = None
    one_shot: str | None = None


class KexecScene(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether the running kernel can start another kernel (kexec)."""

    has_program: bool
    is_locked: bool


class BootScene(msgspec.Struct, frozen=True, kw_only=True):
    """A machine before a trial boot.

    `loader` is the boot loader, or why ktrial cannot use it; without a loader, `grounds` are missing. `fstab` and
    `crypttab` are None if they cannot be read. `unreadable` are files that need root. `watchdog` is the name of the
    hardware watchdog.
    """

    loader: str | NoLoader
    grounds: BootGrounds | None = None
    grub: GrubScene | None = None
    systemd_boot: SystemdBootScene | None = None
    kexec: KexecScene | None = None
    filesystems: tuple[Mapping[str, Any], ...] = ()
    mounts: str = ""
    fstab: str | None = None
    crypttab: str | None = None
    command_line: str = ""
    power: str | None = None
    container: str | None = None
    has_systemd: bool = True
    is_secure: bool = False
    watchdog: str | None = None
    remote_users: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


class KernelScene(msgspec.Struct, frozen=True, kw_only=True):
    """Another kernel before it is booted. `head` holds its first bytes; None if they cannot be read.

    `modules` are the names in its `modules.dep` and `modules.builtin`: empty without the folder, None if too long to
    read. `dkms` are files below /var/lib/dkms. `drivers` are the drivers of the root file system and its disks.
    `is_packaged` says whether a package owns the kernel.
    """

    head: bytes | None
    release: str | None
    architecture: str | None
    has_modules: bool
    modules: frozenset[str] | None
    drivers: tuple[str, ...]
    dkms: tuple[str, ...]
    is_packaged: bool
    is_secure: bool
