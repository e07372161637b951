# SPDX-License-Identifier: Apache-2.0
"""Obstacles to a trial boot on this machine, and notes to show before one."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ktrial.kit.errors import Refused
from ktrial.kit.mounts import mount_options, read_only_mount
from ktrial.tuning.boots.entry import KEXEC_FOLDER, REHEARSAL, TRIAL, BootPlan
from ktrial.tuning.boots.grub_menu import GrubConfig, grub_program, read_grub_config
from ktrial.tuning.boots.kernel_obstacles import kernel_obstacles
from ktrial.tuning.boots.loader_entry import entry_id
from ktrial.tuning.boots.scene import (
    ANYWAY,
    BootScene,
    GrubScene,
    KernelScene,
    KexecScene,
    Obstacle,
    ObstacleKind,
    SystemdBootScene,
)
from ktrial.tuning.boots.systemd_boot_default import default_would_change, loader_setting
from ktrial.tuning.lasting.loaders import NoLoader

#: The first line of every file that the agent writes for a trial boot.
OWN_MARK = "# ktrial"
_BY_HAND = "boot by hand (in a trial: describe each boot with `manual` in the protocol, then run `ktrial trial next`)"
_SUPPORTED = ("grub", "systemd-boot", "kexec")
_BOOT_FOLDERS = ("/boot", "/boot/efi", "/efi", "/boot/grub", "/boot/grub2")
#: File systems in which GRUB overwrites grubenv in place; others have checksums, snapshots or packed files.
_WRITTEN_BY_GRUB = frozenset(("ext2", "ext3", "ext4", "vfat", "msdos", "xfs"))
#: Layers through which GRUB can read but not write.
_LAYERS = {
    "lvm": "LVM",
    "raid": "RAID",
    "luks": "an encrypted disk",
    "multipath": "a multipath device",
    "device-mapper": "the device mapper",
    "loop": "a disk image",
}
_ENVIRONMENT_HEAD = b"# GRUB Environment Block\n"
_ENVIRONMENT_BYTES = 1024
_LEAST_FREE_BYTES = 1 << 20
_VARIABLES = "/sys/firmware/efi/efivars"
#: Options of crypttab and of `rd.luks.options=` that open a disk without a person.
_ALONE = ("tpm2-device=", "pkcs11-uri=", "keyscript=", "_netdev")
_LUKS_WORDS = ("rd.luks", "luks.", "cryptdevice=", "rd.auto")
_LUKS_KEYS = ("rd.luks.key=", "luks.key=", "cryptkey=")


def find_obstacles(scene: BootScene) -> list[Obstacle]:
    """Return the obstacles to a trial boot on this machine: those that no option overrules first, notes last."""
    found = [*_of_system(scene), *_of_mounts(scene)]
    if isinstance(scene.loader, NoLoader):
        found.append(_of_no_loader(scene.loader))
    elif scene.loader not in _SUPPORTED:
        found.append(
            Obstacle(
                kind="loader",
                message=f"ktrial cannot boot an entry only once with {scene.loader}",
                hint=_BY_HAND,
            )
        )
    elif scene.unreadable:
        found.append(
            Obstacle(
                kind="unreadable",
                message=f"cannot read {', '.join(scene.unreadable)}",
                hint=f"make {', '.join(scene.unreadable)} readable for root",
            )
        )
    elif scene.grub is not None and scene.grounds is not None:
        found += _of_grub(scene, scene.grub, read_grub_config(scene.grounds.grub_text))
    elif scene.systemd_boot is not None and scene.grounds is not None:
        folder = scene.systemd_boot.folder
        entries = {path: text for path, text in scene.grounds.entries.items() if posixpath.dirname(path) == folder}
        found += _of_systemd_boot(scene, scene.systemd_boot, entries)
    elif scene.kexec is not None:
        found += _of_kexec(scene, scene.kexec)
    found += _of_surroundings(scene)
    return sorted(found, key=lambda one: (not one.is_final, one.is_note))


def other_kernel_obstacles(plan: BootPlan, kernel: KernelScene, scene: BootScene) -> list[Obstacle]:
    """Return the obstacles to a boot of the plan's kernel, if it is not the running kernel."""
    running = scene.grounds.release if scene.grounds is not None else ""
    return list(kernel_obstacles(plan, kernel, running))


def refuse(obstacles: Iterable[Obstacle], allowed: Iterable[str]) -> None:
    """Raise Refused for the first obstacle that is not a note and whose option `needs` is not in `allowed`."""
    allowed = frozenset(allowed)
    for one in obstacles:
        if not one.is_note and one.needs not in allowed:
            raise Refused(f"cannot prepare a boot: {one.message}", hint=one.hint)


def _of_system(scene: BootScene) -> Iterator[Obstacle]:
    if scene.container not in {None, "none"}:
        yield Obstacle(
            kind="container", message=f"this is a container ({scene.container})", hint="run ktrial on the host"
        )
    elif not scene.has_systemd:
        yield Obstacle(
            kind="no-systemd",
            message="systemd does not run here, and nothing else would check the health of the new boot",
            hint=_BY_HAND,
        )


def _of_mounts(scene: BootScene) -> Iterator[Obstacle]:
    mounted = mount_options(scene.mounts)
    wanted = [fields[1] for line in (scene.fstab or "").splitlines() if len(fields := line.split()) > 2]
    for folder in wanted:
        if folder.rstrip("/") in _BOOT_FOLDERS and folder.rstrip("/") not in mounted and mounted:
            yield Obstacle(
                kind="not-mounted",
                message=f"{folder} is in /etc/fstab but not mounted",
                hint=f"run `mount {folder}`",
            )


def _of_no_loader(reason: NoLoader) -> Obstacle:
    kinds: dict[str | None, ObstacleKind] = {
        "rpm-ostree": "image-based",
        "bootc-loader-entries": "image-based",
        "uki-addon": "unified-kernel",
    }
    export = f"write the arguments with `ktrial export boot:NAME=VALUE --to {reason.target}`, then boot by hand"
    return Obstacle(
        kind=kinds.get(reason.target, "no-loader"),
        message=reason.reason,
        hint=export if reason.target else reason.hint or _BY_HAND,
    )


def _of_folder(scene: BootScene, folder: str) -> Iterator[Obstacle]:
    """Yield the reasons why ktrial cannot write a file into a folder."""
    options = mount_options(scene.mounts)
    if (mount := read_only_mount(folder, options)) is not None:
        yield Obstacle(
            kind="read-only", message=f"{mount} is mounted read-only", hint=f"run `mount -o remount,rw {mount}`"
        )
    found = _file_system(scene.filesystems, folder)
    size, used = (found or {}).get("size_bytes"), (found or {}).get("used_bytes")
    if isinstance(size, int) and isinstance(used, int) and size - used < _LEAST_FREE_BYTES:
        yield Obstacle(
            kind="full",
            message=f"{(found or {}).get('mount')} has only {max(0, size - used) >> 10} KiB free",
            hint="remove an old kernel with your package manager",
        )


def _file_system(filesystems: Iterable[Mapping[str, Any]], folder: str) -> Mapping[str, Any] | None:
    """Return the record of the file system that holds a folder; None if no record does."""
    above = [one for one in filesystems if f"{folder}/".startswith(str(one.get("mount")).rstrip("/") + "/")]
    return max(above, key=lambda one: len(str(one.get("mount"))), default=None)


def _of_grub(scene: BootScene, grub: GrubScene, config: GrubConfig) -> Iterator[Obstacle]:
    yield from _of_folder(scene, grub.folder)
    yield from _of_environment(scene, grub)
    path = posixpath.join(grub.folder, "grub.cfg")
    make_menu = f"`{grub_program('mkconfig', path)} -o {path}`"
    if not config.reads_next_entry:
        yield Obstacle(
            kind="no-one-shot",
            message=f"{path} does not read next_entry, so GRUB cannot boot an entry only once",
            hint=f"run {make_menu}, whose menu reads next_entry",
        )
    if not config.reads_custom:
        yield Obstacle(
            kind="menu",
            message=f"{path} does not read {grub.folder}/custom.cfg",
            hint=f"make /etc/grub.d/41_custom executable and run {make_menu}",
        )
    if config.asks_password or (config.may_ask_password and grub.has_user_file):
        yield Obstacle(
            kind="menu",
            message="GRUB has a password (superusers), which a person must enter before ktrial's entry boots",
            hint="remove GRUB's password until the trial boot is over",
        )
    if config.verifies_files:
        yield Obstacle(
            kind="menu",
            message="GRUB reads only signed files (check_signatures)",
            hint=_BY_HAND,
        )
    if config.waits_for_key:
        yield _waiting_menu(
            "GRUB's menu waits for a key (timeout=-1)",
            f"set GRUB_TIMEOUT=5 in /etc/default/grub and run {make_menu}",
        )
    if grub.custom is not None and grub.custom.strip() and not grub.custom.startswith(OWN_MARK):
        yield Obstacle(
            kind="foreign-file",
            message=f"ktrial's entry would replace {grub.folder}/custom.cfg, a file that ktrial did not write",
            hint=f"move the content of that file to /etc/grub.d/40_custom and run {make_menu}",
        )


def _waiting_menu(message: str, hint: str) -> Obstacle:
    return Obstacle(
        kind="menu",
        message=f"{message}, so every boot waits for a person",
        hint=f"{hint} ({ANYWAY} if a person stays at the machine)",
        needs=ANYWAY,
    )


def _of_environment(scene: BootScene, grub: GrubScene) -> Iterator[Obstacle]:
    """Yield the reasons why GRUB could not clear `next_entry`, so that the one-shot boot would repeat for ever."""
    edit = f"{grub_program('editenv', grub.folder)} {grub.folder}/grubenv"
    create = f"run `{edit} create`"
    for why, hint in _of_disk(_file_system(scene.filesystems, grub.folder), grub.folder):
        yield _not_cleared(why, hint)
    text = grub.environment
    values = _environment(text or b"")
    if text is None:
        yield _not_cleared(f"{grub.folder}/grubenv is missing", create)
    elif not text.startswith(_ENVIRONMENT_HEAD) or len(text) != _ENVIRONMENT_BYTES:
        yield _not_cleared(f"{grub.folder}/grubenv is damaged", create)
    elif values.get("env_block"):
        yield _not_cleared("it keeps its variables outside of grubenv (env_block)")
    elif "boot_counter" in values:
        yield _not_cleared(
            "it counts boots itself (boot_counter, as greenboot does), and may choose another entry",
            f"run `{edit} unset boot_counter` once no update is pending",
        )
    elif values.get("next_entry"):
        yield Obstacle(
            kind="already-armed",
            message=f"GRUB will boot {values['next_entry']!r} next, because something else set next_entry",
            hint=f"run `{edit} unset next_entry`",
        )


def _not_cleared(why: str, hint: str | None = None) -> Obstacle:
    return Obstacle(
        kind="no-one-shot",
        message=f"GRUB cannot be trusted to boot an entry only once, because {why}",
        hint=hint or f"{_BY_HAND}; ktrial needs /boot on a partition of its own with ext4",
    )


def _of_disk(found: Mapping[str, Any] | None, folder: str) -> Iterator[tuple[str, str | None]]:
    """Yield the reasons why GRUB cannot write into a file of the folder, each with a hint or None for the usual one."""
    if found is None:
        yield f"the file system of {folder} is unknown", None
        return
    layer = next((one for one in found.get("stack") or () if one.get("kind") in _LAYERS), None)
    if layer is not None:
        yield f"{folder} is on {_LAYERS[layer['kind']]}, which GRUB only reads", None
    if found.get("kind") not in _WRITTEN_BY_GRUB:
        yield f"{folder} is on {found.get('kind')}, which GRUB only reads", None
    elif "data=journal" in (found.get("options") or ()):
        why = f"{found.get('mount')} is mounted with data=journal, which may bring the old content back"
        yield why, f"mount {found.get('mount')} without data=journal"


def _environment(text: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return {name: value for name, equals, value in pairs if equals}


def _of_systemd_boot(scene: BootScene, found: SystemdBootScene, entries: Mapping[str, str]) -> Iterator[Obstacle]:
    yield from _of_folder(scene, found.folder)
    if "ro" in mount_options(scene.mounts).get(_VARIABLES, ("ro",)):
        is_mounted = _VARIABLES in mount_options(scene.mounts)
        yield Obstacle(
            kind="no-one-shot",
            message=f"cannot write the firmware's variables ({_VARIABLES}), which name the entry to boot once",
            hint=f"run `mount {'-o remount,rw' if is_mounted else '-t efivarfs efivarfs'} {_VARIABLES}`",
        )
    if default_would_change(entries, found):
        selected = scene.grounds.selected if scene.grounds is not None else None
        yield Obstacle(
            kind="default-changes",
            message="systemd-boot boots its first entry by default, and ktrial's entry could become the first",
            hint=f"run `bootctl set-default {selected or 'ENTRY.conf'}` to pin the current default",
        )
    if loader_setting(found.loader_conf, "timeout") == "menu-force":
        yield _waiting_menu("systemd-boot's menu waits for a key", "set a timeout in loader.conf")
    if found.one_shot:
        yield Obstacle(
            kind="already-armed",
            message=f"systemd-boot will boot {found.one_shot!r} next, because something else set the one-shot entry",
            hint="run `bootctl set-oneshot ''`",
        )
    own = next((path for path, text in entries.items() if _is_foreign(path, text)), None)
    if own is not None:
        yield Obstacle(
            kind="foreign-file",
            message=f"ktrial's entry would replace {own}, a file that ktrial did not write",
            hint="rename this file",
        )


def _of_kexec(scene: BootScene, found: KexecScene) -> Iterator[Obstacle]:
    yield from _of_folder(scene, posixpath.dirname(KEXEC_FOLDER))
    if not found.has_program:
        yield Obstacle(
            kind="no-one-shot",
            message="--kexec needs the program kexec, which is not installed",
            hint="install the package kexec-tools",
        )
    if found.is_locked:
        yield Obstacle(
            kind="no-one-shot",
            message="this kernel cannot start another one until the next boot (kernel.kexec_load_disabled is 1)",
            hint="leave out --kexec",
        )
    yield Obstacle(
        kind="kexec",
        message="kexec does not reset the hardware, so a graphics card, disk or network card that works after a "
        "normal boot may fail",
        is_note=True,
    )


def _is_foreign(path: str, text: str) -> bool:
    return entry_id(path) in {TRIAL, REHEARSAL} and not text.startswith(OWN_MARK)


def _of_surroundings(scene: BootScene) -> Iterator[Obstacle]:
    if asks_passphrase(scene.filesystems, scene.crypttab, scene.command_line):
        yield Obstacle(
            kind="encrypted-disk",
            message="the disk is encrypted, and each boot may wait for its passphrase",
            hint=f"add {ANYWAY} if a person stays at the machine; a TPM can open the disk too (systemd-cryptenroll)",
            needs=ANYWAY,
        )
    if scene.power == "battery":
        yield Obstacle(
            kind="battery",
            message="this machine runs on its battery, which may be empty before the last boot",
            hint=f"plug in the charger ({ANYWAY} accepts the risk)",
            needs=ANYWAY,
        )
    if scene.remote_users:
        names = ", ".join(scene.remote_users)
        yield Obstacle(
            kind="users",
            message=f"others are logged in over the network, and would lose their work: {names}",
            hint=f"add {ANYWAY} once these users agree",
            needs=ANYWAY,
        )
    if scene.watchdog is None:
        yield Obstacle(
            kind="no-watchdog",
            message="no hardware watchdog: if the trial boot hangs and its kernel cannot even panic, a person has"
            " to reset the machine",
            hint="stay near the machine",
            is_note=True,
        )
    words = set(scene.command_line.split())
    off = sorted({"nowatchdog", "nosoftlockup", "nmi_watchdog=0"} & words)
    if off:
        yield Obstacle(
            kind="no-lockup-detector",
            message=f"the kernel's lockup detector is off ({', '.join(off)}), so only a hardware watchdog can end a"
            " boot that hangs",
            hint=f"switch the detector on with {' '.join(f'-{word}' for word in off)}",
            is_note=True,
        )


def asks_passphrase(filesystems: Iterable[Mapping[str, Any]], crypttab: str | None, command_line: str) -> bool:
    """Return whether the disk below `/` may wait for a passphrase."""
    root = next((one for one in filesystems if one.get("mount") == "/"), None)
    words = command_line.split()
    is_encrypted = root is not None and any(layer.get("kind") == "luks" for layer in root.get("stack") or ())
    if not is_encrypted and not (root is None and any(word.startswith(_LUKS_WORDS) for word in words)):
        return False
    if any(word.startswith(_LUKS_KEYS) or (".options=" in word and "tpm2-device=" in word) for word in words):
        return False
    lines = [fields for line in (crypttab or "").splitlines() if (fields := line.split()) and fields[0][0] != "#"]
    disks = [fields for fields in lines if "noauto" not in _options(fields)]
    return not disks or any(_waits(fields) for fields in disks)


def _options(fields: list[str]) -> list[str]:
    return fields[3].split(",") if len(fields) > 3 else []


def _waits(fields: list[str]) -> bool:
    """Return whether a line of crypttab names neither a key file nor a device that unlocks the disk."""
    key = fields[2] if len(fields) > 2 else "none"
    options = _options(fields)
    if "tpm2-pin=yes" in options or "tpm2-pin=true" in options:
        return True
    return not key.startswith("/") and not any(option.startswith(_ALONE) for option in options)
