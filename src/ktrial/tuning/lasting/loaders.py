# SPDX-License-Identifier: Apache-2.0
"""Find the boot loader of a machine, and whether ktrial can add kernel arguments to its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine

#: Folders on which the EFI system partition may be mounted.
ESPS = ("/efi", "/boot/efi", "/boot")
_FOLDERS = (*ESPS, "/etc")
#: Loader -> files that show it.
_MARKS: Mapping[str, tuple[str, ...]] = {
    "grub": ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"),
    "systemd-boot": tuple(f"{esp}/EFI/systemd/systemd-boot*.efi" for esp in ESPS),
    "limine": ("/boot/limine.conf", "/boot/limine/limine.conf", "/boot/EFI/limine/limine.conf"),
    "refind": tuple(f"{esp}/EFI/refind/refind.conf" for esp in ESPS),
    "extlinux": ("/boot/extlinux/extlinux.conf", "/boot/syslinux/syslinux.cfg"),
    "zipl": ("/etc/zipl.conf",),
    "raspberry-pi": ("/boot/firmware/cmdline.txt", "/boot/cmdline.txt"),
}
#: Loader -> the target of `ktrial export` that fits.
_TARGETS = {"grub": "grub", "systemd-boot": "systemd-boot", "limine": "limine"}
_BLS = ("/boot/loader/entries/*.conf",)
_GRUBBY = ("/usr/sbin/grubby", "/usr/bin/grubby")
_KERNEL_INSTALL = ("/etc/kernel/cmdline",)
_FIRMWARE = "/sys/firmware/efi/efivars/"
_VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_SECURE_BOOT = f"{_FIRMWARE}SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
LOADERS = tuple(_MARKS)
FACTS = ("os",)


class NoLoader(msgspec.Struct, frozen=True):
    """Why ktrial cannot add kernel arguments here; the export target `target` can, or `hint` says what to do."""

    reason: str
    target: str | None = None
    hint: str | None = None


class LoaderSigns(msgspec.Struct, frozen=True, kw_only=True):
    """What shows which loader boots: files by pattern, the firmware's variables, and the kind of system."""

    files: Mapping[str, Sequence[str]]
    loader_info: str = ""
    stub_info: str = ""
    is_secure: bool = False
    is_ostree: bool = False
    is_bootc: bool = False

    def some(self, patterns: Sequence[str]) -> list[str]:
        return [path for pattern in patterns for path in self.files.get(pattern, ())]


def look_for_loaders(machine: Machine, facts: FactBook) -> LoaderSigns:
    """Read the signs that show which loader boots."""
    patterns = [*(mark for marks in _MARKS.values() for mark in marks), *_BLS, *_GRUBBY, *_KERNEL_INSTALL]
    secure_boot = machine.read([_SECURE_BOOT]).get(_SECURE_BOOT)
    return LoaderSigns(
        files=machine.list(patterns),
        loader_info=read_variable(machine, "LoaderInfo"),
        stub_info=read_variable(machine, "StubInfo"),
        is_secure=secure_boot is not None and (secure_boot.data or b"")[4:] == b"\1",
        is_ostree=facts.value("os.ostree") is True,
        is_bootc=facts.value("os.bootc") is True,
    )


def read_variable(machine: Machine, name: str) -> str:
    """Return the text of a firmware variable that a boot loader has set; empty if it is missing."""
    path = f"{_FIRMWARE}{name}-{_VENDOR}"
    reading = machine.read([path]).get(path)
    # Four bytes of attributes precede the text.
    data = reading.data[4:] if reading is not None and reading.data is not None else b""
    return data.decode("utf-16-le", "replace").strip("\0")


def judge_loader(signs: LoaderSigns, chosen: str | None = None) -> NoLoader | None:
    """Return why ktrial cannot add kernel arguments; None if GRUB reads ktrial's drop-in.

    `chosen` is the name of the loader, if the user gave one.
    """
    name = find_loader(signs, chosen)
    return name if isinstance(name, NoLoader) else _judge_named(name, signs)


def find_loader(signs: LoaderSigns, chosen: str | None = None) -> str | NoLoader:
    """Return the name of the boot loader of this system, or why ktrial cannot use it or find it.

    `chosen` is the name that the user gave, if any.
    """
    if signs.is_ostree:
        kind, target = ("bootc", "bootc-loader-entries") if signs.is_bootc else ("rpm-ostree", "rpm-ostree")
        return NoLoader(f"{kind} writes the kernel arguments of this system", target)
    if signs.stub_info:
        ignored = ", which ignores other arguments under Secure Boot" if signs.is_secure else ""
        return NoLoader(f"this system boots a unified kernel image ({signs.stub_info}){ignored}", "uki-addon")
    found = {name: marks[0] for name in _MARKS if (marks := signs.some(_MARKS[name]))}
    name = chosen or _by_firmware(signs.loader_info, found) or (next(iter(found)) if len(found) == 1 else None)
    if name is None:
        return _doubt(found)
    if name not in found:
        return NoLoader(
            f"cannot find {name} here; looked for {', '.join(_MARKS[name])}",
            hint="leave out --loader",
        )
    return name


def _judge_named(name: str, signs: LoaderSigns) -> NoLoader | None:
    if name == "grub":
        if signs.some(_BLS) and signs.some(_GRUBBY):
            return NoLoader(f"GRUB boots the entries of {signs.some(_BLS)[0].rpartition('/')[0]} here", "grubby")
        return None
    if name == "systemd-boot" and signs.some(_KERNEL_INSTALL):
        return NoLoader("kernel-install makes the entries of systemd-boot here", "kernel-install")
    target = _TARGETS.get(name)
    hint = None if target else f"change the files of {name} yourself (keep a copy)"
    mark = signs.some(_MARKS[name])[0]
    return NoLoader(f"ktrial does not edit the files of {name} ({mark})", target, hint)


def _by_firmware(info: str, found: Mapping[str, str]) -> str | None:
    """Return the loader that booted this system, according to the firmware; None if it is not among those found."""
    return next((name for name in found if info.lower().startswith(name)), None)


def _doubt(found: Mapping[str, str]) -> NoLoader:
    if not found:
        return NoLoader(f"cannot find a boot loader in {', '.join(_FOLDERS)} (looked for {', '.join(_MARKS)})")
    names = " and ".join(f"{name} ({mark})" for name, mark in found.items())
    return NoLoader(
        f"this system has {names}, and the firmware does not say which one boots",
        hint=f"add {' or '.join(f'--loader {name}' for name in found)}; in a trial, remove the files of the loader that"
        " does not boot",
    )
