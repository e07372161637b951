# SPDX-License-Identifier: Apache-2.0
"""tmpfiles.d: lines that write a value into a file, once at boot."""

from __future__ import annotations

import re

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import (
    comment,
    file_refusal,
    file_text,
    heading,
)

NAME = "tmpfiles.d"
WHAT = "A file for /etc/tmpfiles.d: writes files of sysfs once at boot."
FORMS: frozenset[Form] = frozenset({"sysfs", "device", "module"})
NEXT = "copy the file to /etc/tmpfiles.d and run `systemd-tmpfiles --create --boot FILE`"

refusal = file_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    lines = heading(profile, "Devices that appear after boot are not set: udev rules are for those.")
    for setting in profile.settings:
        lines += [*comment(setting), f"w! {setting.path.replace('%', '%%')} - - - - {_argument(setting.text)}", ""]
    return {f"etc/tmpfiles.d/00-ktrial-{profile.name}.conf": file_text(lines)}


def _argument(text: str) -> str:
    """Return the value with escapes; quotes and a lone dash are spelled as codes."""
    if text == "-":
        return r"\x2d"
    doubled = text.replace("\\", "\\\\").replace("%", "%%")
    return re.sub("[\"']", lambda found: f"\\x{ord(found[0]):02x}", doubled)
