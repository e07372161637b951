# SPDX-License-Identifier: Apache-2.0
"""udev rules: set a file of a device whenever the device appears or changes."""

from __future__ import annotations

import re

from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import comment, file_text, heading, path_refusal, unwritable

NAME = "udev"
WHAT = "Rules for /etc/udev/rules.d: set files of devices, also of devices that appear later."
FORMS: frozenset[Form] = frozenset({"device"})
NEXT = "copy the file to /etc/udev/rules.d, run `udevadm control --reload` and `udevadm trigger`"
#: udev cuts off longer values.
_LONGEST_BYTES = 500
#: udev renames interfaces after they appear, which is a separate event.
_ACTIONS = {"net": "add|change|move"}


def refusal(setting: LastingSetting) -> str | None:
    if "\\" in setting.text:
        return "udev has no way to write a backslash in this value"
    if len(setting.text.encode("utf-8", "replace")) > _LONGEST_BYTES:
        return f"udev cuts off values of more than {_LONGEST_BYTES} bytes"
    _, name, attribute = setting.device
    if re.search(r"[*?\[\]]", attribute):
        return "udev follows a pattern inside a device only to its first match"
    if any(character in name for character in "/="):
        return f"udev does not know {name!r} as the name of a device"
    return unwritable(setting.text) or path_refusal(setting)


def write(profile: LastingProfile) -> dict[str, str]:
    lines = heading(profile)
    for setting in profile.settings:
        lines += [*comment(setting), _rule(setting), ""]
    return {f"etc/udev/rules.d/90-ktrial-{profile.name}.rules": file_text(lines)}


def _rule(setting: LastingSetting) -> str:
    subsystem, name, attribute = setting.device
    matches = [f'ACTION=="{_ACTIONS.get(subsystem, "add|change")}"', f'SUBSYSTEM=="{subsystem}"']
    if subsystem == "block":
        matches.append('ENV{DEVTYPE}=="disk"')
    if name != "*":
        matches.append(f'KERNEL=="{name}"')
    if setting.rotational is not None:
        matches.append(f'ATTR{{queue/rotational}}=="{int(setting.rotational)}"')
    matches.append(f'TEST=="{attribute}"')
    text = setting.text.replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return ", ".join([*matches, f'ATTR{{{attribute}}}="{text}"'])
