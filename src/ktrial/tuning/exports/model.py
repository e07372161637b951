# SPDX-License-Identifier: Apache-2.0
"""A lasting setting: a knob, its devices, its value in the kernel's form, and the reasons for it."""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.tuning.knobs.knob import PLACEHOLDERS, Knob
from ktrial.tuning.knobs.value import kernel_argument

#: Beginning of the reason for a setting without a verdict.
UNTESTED = "not tested on this machine"
UNTESTED_ON_PHONE = "not tested on this phone"
Form = Literal["sysctl", "sysfs", "device", "cgroup", "debugfs", "module", "zram", "boot", "kconfig", "build", "patch"]
"""What decides where a setting can be written: `device` is a file of a device that udev knows, `sysfs` any other."""

FORMS: tuple[Form, ...] = get_args(Form)
#: Start of a place -> udev's subsystem, and the prefix of the attribute's name.
_SUBSYSTEMS = (
    ("/sys/block/{block}/", "block", ""),
    ("/sys/class/nvme/{nvme}/", "nvme", ""),
    ("/sys/class/net/{interface}/queues/{queue}/", "queues", ""),
    ("/sys/class/net/{interface}/", "net", ""),
    ("/sys/class/scsi_host/{host}/", "scsi_host", ""),
    ("/sys/bus/pci/devices/{device}/", "pci", ""),
    ("/sys/bus/usb/devices/{device}/", "usb", ""),
    ("/sys/devices/system/cpu/cpufreq/{policy}/", "cpu", "cpufreq/"),
    ("/sys/devices/system/cpu/{cpu}/", "cpu", ""),
    ("/sys/devices/system/node/{node}/", "node", ""),
)
_CGROUPS = ("/sys/fs/cgroup/", "/dev/stune/", "/dev/cpuctl/")
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_GLOB = re.compile(r"[*?\[]")
#: Placeholders whose instances all begin with the placeholder's own name: `{cpu}` is `cpu0`.
_SELF_NAMED = frozenset(name for name, (pattern, _) in PLACEHOLDERS.items() if pattern.startswith(name))
#: Modules that are always a part of the kernel.
_PARTS_OF_THE_KERNEL = frozenset({"zswap", "damon_reclaim", "damon_lru_sort", "workqueue", "pcie_aspm"})


class PhoneValue(msgspec.Struct, frozen=True):
    """A value that a module computes on the phone, with a recipe of the module's functions.sh and an argument.

    `beside` names another file in the same folder; it is empty if no other file is needed. For the recipe `first` that
    file lists the offered words, otherwise that file must show a word in brackets.
    """

    recipe: str
    argument: str
    beside: str = ""


class LastingSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `place` is the path to write, which is one of the knob's `files`; None means the first path.

    `pattern` selects instances by name; None selects all. `rotational` restricts the setting to disks that rotate, or
    to disks that do not. `reasons` are lines of text.

    Only phone modules use `on_phone`, which replaces the value, and `couples`, the knobs that the kernel changes along
    with `knob`.
    """

    knob: Knob
    text: str
    place: str | None = None
    pattern: str | None = None
    rotational: bool | None = None
    reasons: tuple[str, ...] = ()
    on_phone: PhoneValue | None = None
    couples: tuple[Knob, ...] = ()

    @property
    def address(self) -> str:
        """Return the knob with its pattern, as a person would write it."""
        if not self.knob.placeholders:
            return self.knob.id
        which = f"[rotational={str(self.rotational).lower()}]" if self.rotational is not None else ""
        pattern = "" if which and self.pattern in {None, "*"} else self.pattern or "*"
        return f"{self.knob.id}@{pattern}{which}"

    @property
    def form(self) -> Form:
        kind = self.knob.kind
        if kind in {"zram", "boot", "kconfig", "build", "patch"}:
            return kind
        place = self.file
        if place.startswith("/proc/sys/"):
            return "sysctl"
        if place.startswith("/sys/kernel/debug/"):
            return "debugfs"
        if place.startswith(_CGROUPS):
            return "cgroup"
        if place.startswith("/sys/module/"):
            return "module"
        return "device" if any(place.startswith(start) for start, _, _ in _SUBSYSTEMS) else "sysfs"

    @property
    def file(self) -> str:
        """Return the path of the file, with placeholders for names such as the device."""
        return self.place if self.place is not None else self.knob.files[0]

    @property
    def path(self) -> str:
        """Return the path of the file, with a shell pattern for each placeholder."""
        parts = iter(self.parts)
        return _PLACEHOLDER.sub(lambda found: next(parts), self.file)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return a pattern for each placeholder in `file`. Raise BadInput if `pattern` does not fit them."""
        names = _PLACEHOLDER.findall(self.file)
        whole = ("*",) * len(names)
        labels: tuple[str, ...]
        pattern = self.pattern or "*"
        if len(names) < 2:
            labels = (pattern,) if names else ()
        elif pattern == "*":
            labels = whole
        elif "/" in pattern:
            labels = tuple(pattern.split("/", len(names) - 1))
        elif pattern.startswith("*"):
            raise BadInput(
                f"{self.address}: a pattern that begins with * may mean several parts of a path",
                hint=f"name each part, for example  {self.knob.id}@{'/'.join(whole)}",
            )
        else:
            labels = (pattern, *whole[1:])
        if len(labels) != len(names):
            raise BadInput(
                f"{self.address}: expected {len(names)} names with / between them",
                hint=f"for example  {self.knob.id}@{'/'.join(whole)}",
            )
        return tuple(map(_component, names, labels))

    @property
    def is_glob(self) -> bool:
        """Return whether the path may stand for several files."""
        return _GLOB.search(self.path) is not None

    @property
    def module(self) -> tuple[str, str]:
        """Return the module and the parameter that the file belongs to."""
        _, _, _, module, _, parameter = self.file.split("/", 5)
        return module, parameter

    @property
    def is_part_of_the_kernel(self) -> bool:
        """Return whether the module is always built into the kernel and cannot be loaded."""
        return self.module[0] in _PARTS_OF_THE_KERNEL

    @property
    def device(self) -> tuple[str, str, str]:
        """Return udev's subsystem, the pattern of the device's name, and the attribute."""
        fitting = [one for one in _SUBSYSTEMS if self.file.startswith(one[0])]
        # A queue keeps the path that it had before its interface was renamed; only the interface has an event then.
        start, subsystem, before = fitting[-1] if self.parts[0] != "*" else fitting[0]
        used = len(_PLACEHOLDER.findall(start))
        rest = iter(self.parts[used:])
        attribute = before + _PLACEHOLDER.sub(lambda found: next(rest), self.file.removeprefix(start))
        name = self.parts[used - 1]
        return subsystem, name.replace("policy", "cpu", 1) if before else name, attribute

    @property
    def sysctl_key(self) -> str:
        """Return the key of a sysctl, with slashes if a name in it contains a dot."""
        name = self.path.removeprefix("/proc/sys/")
        return name if "." in name else name.replace("/", ".")


class Omission(msgspec.Struct, frozen=True):
    """A setting that does not last, with the reason and what to do instead."""

    address: str
    reason: str
    value: str | None = None
    hint: str | None = None


class LastingProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that belong together. `name` is part of file names: lower case letters, digits and `-`."""

    name: str
    title: str
    settings: tuple[LastingSetting, ...]


def device_shapes(place: str) -> tuple[tuple[str, str], ...]:
    """Return each udev subsystem whose devices have the file `place`, with the attribute that names the file.

    The attribute keeps all placeholders except the placeholder of the device.
    """
    return tuple(
        (subsystem, before + place.removeprefix(start))
        for start, subsystem, before in _SUBSYSTEMS
        if place.startswith(start)
    )


def _component(name: str, label: str) -> str:
    if label == "*":
        return f"{name}*" if name in _SELF_NAMED else "*"
    return label.removeprefix(PLACEHOLDERS[name][1])


def boot_word(setting: LastingSetting) -> str | None:
    """Return the kernel argument for the setting; None to leave out a flag that is off."""
    if setting.form == "module":
        return f"{'.'.join(setting.module)}={setting.text}"
    return kernel_argument(setting.knob, setting.text)
