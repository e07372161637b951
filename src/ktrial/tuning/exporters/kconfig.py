# SPDX-License-Identifier: Apache-2.0
"""Kconfig: a fragment of a kernel's configuration for scripts/kconfig/merge_config.sh."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import comment, file_text, heading, unwritable

NAME = "kconfig"
WHAT = "A fragment of a kernel's configuration, for merge_config.sh and ktrial kernel config."
FORMS: frozenset[Form] = frozenset({"kconfig"})
NEXT = "merge the file: `scripts/kconfig/merge_config.sh .config FILE`"


def options_of(setting: LastingSetting) -> dict[str, str]:
    """Return the setting's symbols with their values: y, n, a number, or a text."""
    name = setting.knob.short_name
    if setting.knob.value.type == "bool":
        return {name: "y" if setting.text == "1" else "n"}
    if name == "HZ":  # Kconfig computes it from the member of a choice
        return {f"HZ_{setting.text}": "y"}
    if setting.knob.value.type == "choice":  # a choice has no symbol of its own, but its members do
        return {setting.text: "y"}
    return {name: setting.text}


def refusal(setting: LastingSetting) -> str | None:
    return unwritable(setting.text)


def write(profile: LastingProfile) -> dict[str, str]:
    lines = heading(profile)
    for setting in profile.settings:
        lines += [*comment(setting), *(_line(setting, *one) for one in options_of(setting).items()), ""]
    return {f"ktrial-{profile.name}.config": file_text(lines)}


def _line(setting: LastingSetting, name: str, value: str) -> str:
    if value == "n" and setting.knob.value.type == "bool":
        return f"# CONFIG_{name} is not set"
    if setting.knob.value.type == "text":
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'CONFIG_{name}="{escaped}"'
    return f"CONFIG_{name}={value}"
