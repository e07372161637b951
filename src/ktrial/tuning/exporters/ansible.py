# SPDX-License-Identifier: Apache-2.0
"""Ansible: a role that copies the native files of a machine with systemd, and applies them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import msgspec

from ktrial.tuning.exporters import modprobe_d, sysctl_d, systemd_unit, tmpfiles_d, udev, zram_generator
from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import file_text, heading

NAME = "ansible"
WHAT = "An Ansible role that installs sysctl.d, udev, tmpfiles.d, modprobe.d, zram-generator files and a unit."
FORMS: frozenset[Form] = frozenset({"sysctl", "sysfs", "device", "cgroup", "debugfs", "module", "zram"})
NEXT = "put the folder among your roles; it needs no collection beyond ansible-core"
#: A setting goes to the first of these that can express it.
_NATIVE: tuple[ModuleType, ...] = (sysctl_d, udev, modprobe_d, zram_generator, tmpfiles_d, systemd_unit)
#: Name of a native form -> command that applies its file at once.
_APPLY: Mapping[str, tuple[str, ...]] = {
    "sysctl.d": ("sysctl", "--system"),
    "udev": ("udevadm", "control", "--reload"),
    "tmpfiles.d": ("systemd-tmpfiles", "--create", "--boot", "--prefix=/sys", "--prefix=/proc"),
    "systemd-unit": ("systemctl", "daemon-reload"),
}
_THEN: Mapping[str, tuple[str, ...]] = {
    "udev": ("udevadm", "trigger", "--action=change"),
    "systemd-unit": ("systemctl", "enable", "--now"),
}


def refusal(setting: LastingSetting) -> str | None:
    fitting = [one for one in _NATIVE if setting.form in one.FORMS]
    objections = [one.refusal(setting) for one in fitting]
    if None in objections:
        return None
    return next((text for text in objections if text is not None), "the role has no file for this setting")


def write(profile: LastingProfile) -> dict[str, str]:
    role = f"ktrial_{profile.name.replace('-', '_')}"
    files: dict[str, str] = {}
    tasks, handlers = [*heading(profile), "---"], [*heading(profile), "---"]
    for native in _NATIVE:
        own = tuple(one for one in profile.settings if _native(one) is native)
        if not own:
            continue
        for path, text in native.write(msgspec.structs.replace(profile, settings=own)).items():
            files[f"{role}/files/{path}"] = text
            tasks += _copy(path, native.NAME)
            handlers += _handlers(path, native.NAME)
    return {f"{role}/tasks/main.yml": file_text(tasks), f"{role}/handlers/main.yml": file_text(handlers), **files}


def _native(setting: LastingSetting) -> ModuleType:
    return next(one for one in _NATIVE if setting.form in one.FORMS and one.refusal(setting) is None)


def _copy(path: str, name: str) -> list[str]:
    notify = [f"  notify: apply {name}"] if name in _APPLY else []
    folder = path.rpartition("/")[0]
    return [
        f"- name: make the folder of {name}",
        "  ansible.builtin.file:",
        f"    path: /{folder}",
        "    state: directory",
        "    mode: '0755'",
        f"- name: install {name} settings",
        "  ansible.builtin.copy:",
        f"    src: {path}",
        f"    dest: /{path}",
        "    owner: root",
        "    group: root",
        "    mode: '0644'",
        *notify,
        "",
    ]


def _handlers(path: str, name: str) -> list[str]:
    lines: list[str] = []
    for commands, what in ((_APPLY, "apply"), (_THEN, "use")):
        if name not in commands:
            continue
        unit = [path.rpartition("/")[2]] if name == "systemd-unit" and commands is _THEN else []
        lines += [
            f"- name: {what} {name}",
            *([f"  listen: apply {name}"] if commands is _THEN else []),
            "  ansible.builtin.command:",
            "    argv:",
            *(f"      - {word}" for word in (*commands[name], *unit)),
        ]
    return lines and [*lines, ""]
