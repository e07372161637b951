# SPDX-License-Identifier: Apache-2.0
"""sysctl.d: `key = value` lines; a key with slashes may contain dots in its names."""

from __future__ import annotations

import re

from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import comment, file_text, heading, path_refusal, unwritable

NAME = "sysctl.d"
WHAT = "A file for /etc/sysctl.d, read by systemd-sysctl and sysctl --system."
FORMS: frozenset[Form] = frozenset({"sysctl"})
NEXT = "copy the file to /etc/sysctl.d and run `sysctl --system`"


def refusal(setting: LastingSetting) -> str | None:
    if re.search(r"\s[#;]", setting.text):
        return "a # or ; after white space looks like a comment, but sysctl.d makes it part of the value"
    if "=" in setting.path:
        return "a key cannot contain ="
    return unwritable(setting.text) or path_refusal(setting)


def write(profile: LastingProfile) -> dict[str, str]:
    lines = heading(profile)
    for setting in profile.settings:
        lines += [*comment(setting), f"{setting.sysctl_key} = {setting.text}", ""]
    return {f"etc/sysctl.d/90-ktrial-{profile.name}.conf": file_text(lines)}
