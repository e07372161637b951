# SPDX-License-Identifier: Apache-2.0
"""zram-generator: size and algorithm of a zram swap device that systemd sets up at boot."""

from __future__ import annotations

import re

from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import comment, file_text, heading, unwritable

NAME = "zram-generator"
WHAT = "A drop-in for systemd's zram-generator: a zram swap device at boot."
FORMS: frozenset[Form] = frozenset({"zram"})
NEXT = "copy the file to /etc/systemd/zram-generator.conf.d; the device appears at the next boot"
_KEYS = {
    "zram:disksize": "zram-size",
    "zram:comp_algorithm": "compression-algorithm",
    "zram:mem_limit": "zram-resident-limit",
}
_MEGABYTE = 1 << 20


def device_of(setting: LastingSetting) -> str:
    """Return the device that the setting names; `zram0` if it names none or all."""
    return "zram0" if setting.pattern in (None, "*", "zram*") else str(setting.pattern)


def refusal(setting: LastingSetting) -> str | None:
    if setting.knob.id not in _KEYS:
        return f"zram-generator has no key for {setting.knob.short_name}"
    if not re.fullmatch(r"zram[0-9]+", device_of(setting)):
        return f"{device_of(setting)!r} is not the name of one zram device"
    if setting.knob.id == "zram:comp_algorithm":
        plain = re.fullmatch(r"[A-Za-z0-9_-]+", setting.text)
    else:
        plain = re.fullmatch(r"[0-9]{1,19}", setting.text)
    return unwritable(setting.text) or (None if plain else f"{setting.text!r} is not a value of {setting.knob.id}")


def write(profile: LastingProfile) -> dict[str, str]:
    lines = heading(profile)
    for device in dict.fromkeys(map(device_of, profile.settings)):
        own = [setting for setting in profile.settings if device_of(setting) == device]
        lines.append(f"[{device}]")
        for setting in own:
            lines += [*comment(setting), f"{_KEYS[setting.knob.id]} = {_size(setting)}"]
        lines.append("")
    return {f"etc/systemd/zram-generator.conf.d/90-ktrial-{profile.name}.conf": file_text(lines)}


def _size(setting: LastingSetting) -> str:
    """Return the value as zram-generator writes it: sizes are in MiB, and may be a quotient."""
    if setting.knob.id == "zram:comp_algorithm":
        return setting.text
    whole, rest = divmod(int(setting.text), _MEGABYTE)
    return str(whole) if not rest else f"{int(setting.text)} / {_MEGABYTE}"
