# SPDX-License-Identifier: Apache-2.0
"""modprobe.d: parameters that modules take when they are loaded."""

from __future__ import annotations

import re

from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import comment, file_text, heading, unwritable

NAME = "modprobe.d"
WHAT = "A file for /etc/modprobe.d: parameters that modules get when they are loaded."
FORMS: frozenset[Form] = frozenset({"module"})
NEXT = "copy the file to /etc/modprobe.d, and rebuild the initramfs if it holds these modules"


def refusal(setting: LastingSetting) -> str | None:
    module, parameter = setting.module
    if setting.is_part_of_the_kernel:
        return f"{module} is built into the kernel, and modprobe.d sets only modules that are loaded"
    if re.search(r'["\\\']', setting.text):
        return "the kernel cannot read quotes and backslashes in a parameter"
    if not re.fullmatch(r"[\w-]+", f"{module}{parameter}", re.ASCII):
        return f"{module}.{parameter} is not the name of a parameter"
    return unwritable(setting.text)


def write(profile: LastingProfile) -> dict[str, str]:
    lines = heading(profile)
    for setting in profile.settings:
        module, parameter = setting.module
        text = f'"{setting.text}"' if re.search(r"\s", setting.text) else setting.text
        lines += [*comment(setting), f"options {module} {parameter}={text}", ""]
    return {f"etc/modprobe.d/90-ktrial-{profile.name}.conf": file_text(lines)}
