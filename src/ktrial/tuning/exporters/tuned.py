# SPDX-License-Identifier: Apache-2.0
"""TuneD: a profile that sets sysctls, files of sysfs and kernel arguments."""

from __future__ import annotations

import re

from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import (
    boot_words,
    comment,
    file_refusal,
    file_text,
    heading,
    word_refusal,
)

NAME = "tuned"
WHAT = "A TuneD profile: sysctls, files of sysfs and kernel arguments."
FORMS: frozenset[Form] = frozenset({"sysctl", "sysfs", "device", "cgroup", "debugfs", "module", "boot"})
NEXT = "copy the folder to /etc/tuned/profiles (before TuneD 2.23: /etc/tuned) and run `tuned-adm profile ktrial-NAME`"


def refusal(setting: LastingSetting) -> str | None:
    if setting.form == "boot":
        return word_refusal(setting)
    if setting.form == "sysctl" and ("/" in setting.sysctl_key or setting.is_glob):
        return "TuneD reads each dot in the name of a sysctl as a slash, and supports no patterns in it"
    if setting.form != "sysctl" and not setting.path.startswith("/sys/"):
        return "TuneD writes below /sys only"
    if re.search(r"[=:]", setting.path):
        return f"TuneD would end the name of {setting.path} at = or :"
    if setting.text[:1] in "<>=\"'" or re.search(r"[#$\\{}]", setting.text):
        return "TuneD reads # $ { } \\, and < > = and quotes at the beginning, in its own way"
    return file_refusal(setting)


def write(profile: LastingProfile) -> dict[str, str]:
    sysctls: list[str] = []
    files: list[str] = []
    words: list[str] = []
    for setting in profile.settings:
        if setting.form == "sysctl":
            sysctls += [*comment(setting), f"{setting.sysctl_key}={setting.text}"]
        elif setting.form == "boot":
            word = boot_words([setting])[0]
            words += [*comment(setting), f"cmdline_ktrial_{_key(setting)}=+{word}"]
        else:
            files += [*comment(setting), f"{setting.path}={setting.text}"]
    sections = {"sysctl": sysctls, "sysfs": files, "bootloader": words}
    lines = [*heading(profile), "[main]", f"summary=Settings of ktrial: {profile.name}", ""]
    for name, body in sections.items():
        lines += [f"[{name}]", *body, ""] if body else []
    return {f"etc/tuned/profiles/ktrial-{profile.name}/tuned.conf": file_text(lines)}


def _key(setting: LastingSetting) -> str:
    return re.sub(r"[^a-z0-9]+", "_", setting.knob.short_name.lower())
