# SPDX-License-Identifier: Apache-2.0
"""Read what ktrial must know about a machine and another kernel before a trial boot."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ktrial.kit.mounts import MOUNTS
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.tuning.boots.entry import BootGrounds, BootPlan
from ktrial.tuning.boots.kernel_obstacles import release_of
from ktrial.tuning.boots.loader_entry import entry_id
from ktrial.tuning.boots.scene import BootScene, GrubScene, KernelScene, KexecScene, SystemdBootScene
from ktrial.tuning.lasting.loaders import ESPS, LoaderSigns, find_loader, look_for_loaders, read_variable

#: The name of the running kernel as a boot loader.
KEXEC: Final = "kexec"
_KEXEC_PROGRAMS, _KEXEC_LOCKED = ("/usr/sbin/kexec", "/sbin/kexec"), "/proc/sys/kernel/kexec_load_disabled"
#: Facts that both `gather_scene` and `gather_kernel` need.
FACTS = ("os", "container", "cpu.architecture", "filesystems", "kernel.release", "power.source")
_COMMAND_LINE, _FSTAB, _CRYPTTAB = "/proc/cmdline", "/etc/fstab", "/etc/crypttab"
_SYSTEMD, _WATCHDOGS, _LOGINS = "/run/systemd/system", "/sys/class/watchdog/*/identity", "/run/systemd/sessions/*"
_SOFTWARE_WATCHDOG = "Software Watchdog"
_ENTRIES = "loader/entries/*.conf"
_HOSTS, _DKMS = "/sys/class/scsi_host/*/proc_name", "/var/lib/dkms/*/*/*/*/module/*"
_RPM = ("/usr/bin/rpm", "/bin/rpm")
#: The agent reads at most this much of a file.
_LIMIT_BYTES = 1 << 20
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,120}")
_MODULE = re.compile(r"([A-Za-z0-9_-]+)\.ko(?:\.[a-z0-9]{1,4})?")
#: File system, layer or start of a disk's name -> the module that drives it.
_DRIVERS = {"ext3": "ext4", **{name: name for name in ("ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "jfs")}}
_LAYERS = {"luks": "dm_crypt", "lvm": "dm_mod", "raid": "md_mod", "multipath": "dm_multipath"}
_DISKS = {"nvme": "nvme", "vd": "virtio_blk", "xvd": "xen_blkfront", "mmcblk": "mmc_block", "sd": "sd_mod"}
_OLD_X86 = frozenset(("i386", "i486", "i586", "i686"))


def gather_scene(machine: Machine, facts: FactBook, *, chosen: str | None = None, user: str | None = None) -> BootScene:
    """Read what decides whether a trial boot is possible.

    `chosen` names the loader, `user` the person who runs the command.
    """
    signs = look_for_loaders(machine, facts)
    loader = KEXEC if chosen == KEXEC else find_loader(signs, chosen)
    listed = machine.list([_SYSTEMD, _WATCHDOGS, _LOGINS])
    logins = [path for path in listed[_LOGINS] if not path.endswith(".ref")]
    texts = _Texts(machine, [_COMMAND_LINE, MOUNTS, _FSTAB, _CRYPTTAB, *listed[_WATCHDOGS], *logins])
    scene = BootScene(
        loader=loader,
        filesystems=facts.records("filesystems"),
        mounts=texts.get(MOUNTS) or "",
        fstab=texts.get(_FSTAB),
        crypttab=texts.get(_CRYPTTAB),
        command_line=texts.get(_COMMAND_LINE) or "",
        power=facts.value("power.source"),
        container=facts.value("container.kind"),
        has_systemd=bool(listed[_SYSTEMD]),
        is_secure=signs.is_secure,
        watchdog=hardware_watchdog(texts.get(path) or "" for path in listed[_WATCHDOGS]),
        remote_users=remote_users((texts.get(path) or "" for path in logins), user),
    )
    release = str(facts.value("kernel.release") or "")
    if loader == KEXEC:
        return _with_kexec(scene, machine, release)
    if loader == "grub":
        return _with_grub(scene, machine, signs, release)
    return _with_systemd_boot(scene, machine, signs, release) if loader == "systemd-boot" else scene


class _Texts:
    """Files by their paths; those that only root may read are `locked`."""

    def __init__(self, machine: Machine, paths: Sequence[str]) -> None:
        self._readings = machine.read(paths)
        unread = [path for path, one in self._readings.items() if one is not None and one.data is None]
        self.locked = tuple(unread)

    def bytes(self, path: str) -> bytes | None:
        reading = self._readings.get(path)
        return None if reading is None else reading.data

    def get(self, path: str) -> str | None:
        data = self.bytes(path)
        return None if data is None else data.decode("utf-8", "replace")

    def present(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: text for path in paths if (text := self.get(path)) is not None}


def _with_grub(scene: BootScene, machine: Machine, signs: LoaderSigns, release: str) -> BootScene:
    entries_pattern = f"/boot/{_ENTRIES}"
    listed = machine.list(["/boot/*", entries_pattern])
    path = signs.some(("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"))[0]
    folder = posixpath.dirname(path)
    environment, custom, user = (f"{folder}/{name}" for name in ("grubenv", "custom.cfg", "user.cfg"))
    texts = _Texts(machine, [path, environment, custom, *listed[entries_pattern]])
    return msgspec.structs.replace(
        scene,
        unreadable=texts.locked,
        grub=GrubScene(
            folder=folder,
            environment=texts.bytes(environment),
            custom=texts.get(custom),
            has_user_file=bool(machine.list([user])[user]),
        ),
        grounds=BootGrounds(
            loader="grub",
            command_line=scene.command_line,
            release=release,
            files=listed["/boot/*"],
            grub_path=path,
            grub_text=texts.get(path) or "",
            entries=texts.present(listed[entries_pattern]),
        ),
    )


def _with_kexec(scene: BootScene, machine: Machine, release: str) -> BootScene:
    listed = machine.list(["/boot/*", *_KEXEC_PROGRAMS])
    locked = (_Texts(machine, [_KEXEC_LOCKED]).get(_KEXEC_LOCKED) or "").strip() not in {"", "0"}
    return msgspec.structs.replace(
        scene,
        kexec=KexecScene(has_program=any(listed[path] for path in _KEXEC_PROGRAMS), is_locked=locked),
        grounds=BootGrounds(loader=KEXEC, command_line=scene.command_line, release=release, files=listed["/boot/*"]),
    )


def _with_systemd_boot(scene: BootScene, machine: Machine, signs: LoaderSigns, release: str) -> BootScene:
    patterns = {f"{mount}/{_ENTRIES}": mount for mount in ESPS}
    listed = machine.list(list(patterns))
    settings = [f"{mount}/loader/loader.conf" for mount in ESPS]
    texts = _Texts(machine, [*(path for paths in listed.values() for path in paths), *settings])
    selected = read_variable(machine, "LoaderEntrySelected") or None
    wanted = entry_id(selected or "")
    mounts = [mount for pattern, mount in patterns.items() if listed[pattern]]
    holding = [mount for mount in mounts if wanted in map(entry_id, listed[f"{mount}/{_ENTRIES}"])]
    mount = next(iter([*holding, *mounts]), ESPS[0])
    folders = [f"{mount}{stars}" for stars in ("/*", "/*/*", "/*/*/*")]
    files = machine.list(folders)
    return msgspec.structs.replace(
        scene,
        unreadable=texts.locked,
        systemd_boot=SystemdBootScene(
            folder=f"{mount}/loader/entries",
            version=_version(signs.loader_info),
            loader_conf=next((text for path in settings if (text := texts.get(path)) is not None), ""),
            default=read_variable(machine, "LoaderEntryDefault") or None,
            one_shot=read_variable(machine, "LoaderEntryOneShot") or None,
        ),
        grounds=BootGrounds(
            loader="systemd-boot",
            command_line=scene.command_line,
            release=release,
            files=tuple(path for pattern in folders for path in files[pattern]),
            entries=texts.present(path for paths in listed.values() for path in paths),
            selected=selected,
            mount=mount,
        ),
    )


def _version(loader_info: str) -> int | None:
    """Return 252 for `systemd-boot 252.6-1`; None for other texts."""
    found = re.match(r"systemd-boot ([0-9]{1,6})", loader_info)
    return int(found[1]) if found is not None else None


def hardware_watchdog(identities: Iterable[str]) -> str | None:
    """Return the name of the first watchdog that works without the kernel; None if there is none."""
    names = (name.strip() for name in identities)
    return next((name for name in names if name and name != _SOFTWARE_WATCHDOG), None)


def remote_users(logins: Iterable[str], user: str | None) -> tuple[str, ...]:
    """Return the users, except `user`, who are logged in over the network.

    `logins` are the texts of logind's session files.
    """
    names = set()
    for text in logins:
        fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
        is_open = fields.get("STATE") in {"active", "online"} and fields.get("CLASS", "user") == "user"
        if is_open and fields.get("REMOTE") == "1" and (name := fields.get("USER", "")) != user:
            names.add(name)
    return tuple(sorted(names))


def gather_kernel(machine: Machine, facts: FactBook, plan: BootPlan, scene: BootScene) -> KernelScene:
    """Read what may prevent a boot of the plan's kernel."""
    file = plan.entry.file
    head = _Texts(machine, [file]).bytes(file)
    told = release_of(plan, head)
    release = told if told is not None and _RELEASE.fullmatch(told) else None
    running = str(facts.value("kernel.release") or "")
    folders = {name: f"/lib/modules/{name}" for name in (running, release) if name and _RELEASE.fullmatch(name)}
    lists = f"/var/lib/dpkg/info/linux-image-*{release}*.list"
    listed = machine.list([_HOSTS, _DKMS, *_RPM, *([lists] if release else [])])
    own = folders.get(release or "", "")
    signs = [f"{own}/pkgbase", f"{own}/vmlinuz"] if own else []
    shown = machine.list(signs)
    names = [f"{folder}/modules.{kind}" for folder in folders.values() for kind in ("dep", "builtin")]
    packages = listed.get(lists, ())
    texts = _Texts(machine, [*names, *listed[_HOSTS], *packages])
    hosts = [(texts.get(path) or "").strip() for path in listed[_HOSTS]]
    known = _modules(texts, folders.get(running, ""))
    architecture = facts.value("cpu.architecture")
    has_rpm = any(listed[path] for path in _RPM)
    return KernelScene(
        head=head,
        release=release,
        architecture="i386" if architecture in _OLD_X86 else architecture,
        has_modules=bool(own) and texts.bytes(f"{own}/modules.dep") is not None,
        modules=_modules(texts, own),
        # A name that the running kernel lacks too is not the name of a module.
        drivers=tuple(name for name in root_drivers(scene.filesystems, hosts) if known is not None and name in known),
        dkms=listed[_DKMS],
        is_packaged=_is_owned(release, [texts.get(path) or "" for path in packages])
        or any(shown[path] for path in signs[:1])
        or (has_rpm and not packages and any(shown[path] for path in signs[1:])),
        is_secure=scene.is_secure,
    )


def _modules(texts: _Texts, folder: str) -> frozenset[str] | None:
    """Return the names of a kernel's modules; None if the list is too long to read."""
    names: set[str] = set()
    for kind in ("dep", "builtin"):
        data = texts.bytes(f"{folder}/modules.{kind}") or b""
        if len(data) >= _LIMIT_BYTES:
            return None
        names |= module_names(data.decode("utf-8", "replace"))
    return frozenset(names)


def module_names(text: str) -> set[str]:
    """Return the modules that a `modules.dep` or `modules.builtin` lists, with `_` for `-`."""
    # In modules.dep, the dependencies of a module follow a colon.
    files = (line.partition(":")[0].rpartition("/")[2] for line in text.splitlines())
    return {found[1].replace("-", "_") for name in files if (found := _MODULE.fullmatch(name)) is not None}


def root_drivers(filesystems: Iterable[Mapping[str, Any]], hosts: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that the root file system and its disks may need; `hosts` are SCSI drivers in use."""
    root = next((one for one in filesystems if one.get("mount") == "/"), {})
    names = [_DRIVERS.get(str(root.get("kind")), "")]
    for layer in root.get("stack") or ():
        names.append(_LAYERS.get(str(layer.get("kind")), ""))
        if layer.get("kind") == "disk":
            names += [module for start, module in _DISKS.items() if re.match(f"{start}[a-z0-9]", layer["name"])]
    if "sd_mod" in names and len(drivers := set(hosts)) == 1:
        names += [name.replace("-", "_") for name in drivers]
    return tuple(dict.fromkeys(name for name in names if name))


def _is_owned(release: str | None, lists: Iterable[str]) -> bool:
    """Return whether one of dpkg's lists of files contains the kernel of a release."""
    wanted = {f"{place}-{release}" for place in ("/boot/vmlinuz", "/boot/vmlinux", "/boot/image")}
    wanted |= {f"{top}/lib/modules/{release}/vmlinuz" for top in ("", "/usr")}
    return any(not wanted.isdisjoint(text.splitlines()) for text in lists)
