# SPDX-License-Identifier: Apache-2.0
"""Flags of a kernel build: variables that the kernel's make takes from the environment."""

from __future__ import annotations

import re

from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import comment, file_text, heading, shell_quoted, unwritable

NAME = "build-flags"
WHAT = "Variables for a kernel build: KCFLAGS, KCPPFLAGS, LLVM, as a file for the shell."
FORMS: frozenset[Form] = frozenset({"build"})
NEXT = "read the file before make: `. FILE && make`"
_COMPILER = {"march": "-march=", "mtune": "-mtune=", "mcpu": "-mcpu="}
_VARIABLES = ("KCFLAGS", "KCPPFLAGS", "LLVM")


def refusal(setting: LastingSetting) -> str | None:
    name = setting.knob.short_name
    if name == "O3":
        return None if setting.text == "1" else "-O3 has no value: leave it out to switch it off"
    if name not in (*_COMPILER, *_VARIABLES):
        return f"the kernel's make has no variable {name}"
    if "$" in setting.text or "#" in setting.text:
        return "make would expand $ and #"
    if name in _COMPILER and not re.fullmatch(r"[A-Za-z0-9_.+=-]+", setting.text):
        return f"{setting.text!r} is not a single compiler option"
    return unwritable(setting.text)


def write(profile: LastingProfile) -> dict[str, str]:
    reasons: list[str] = []
    variables: dict[str, list[str]] = {}
    for setting in profile.settings:
        reasons += comment(setting)
        name = setting.knob.short_name
        flag = "-O3" if name == "O3" else _COMPILER.get(name, "") + setting.text
        variables.setdefault(name if name in _VARIABLES else "KCFLAGS", []).append(flag)
    lines = [f"export {name}={shell_quoted(' '.join(flags))}" for name, flags in variables.items()]
    return {f"ktrial-{profile.name}.flags": file_text([*heading(profile), *reasons, *lines])}
