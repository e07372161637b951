# SPDX-License-Identifier: Apache-2.0
"""A systemd unit that writes values once at boot, for settings that no other file can hold."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import (
    comment,
    file_refusal,
    file_text,
    heading,
)

NAME = "systemd-unit"
WHAT = "A oneshot unit for /etc/systemd/system: writes any file of the kernel once at boot."
FORMS: frozenset[Form] = frozenset({"sysctl", "sysfs", "device", "cgroup", "debugfs", "module"})
NEXT = "copy the file to /etc/systemd/system, then run `systemctl daemon-reload` and `systemctl enable --now UNIT`"
#: Arguments are pairs of a pattern and a value. The program writes later pairs even if an earlier one failed.
_PROGRAM = (
    'failed=0; while [ "$#" -gt 1 ]; do for file in $1; do'
    ' [ -e "$file" ] || case $1 in *[*?[]*) continue;; esac;'
    ' printf "%s\\n" "$2" > "$file" || { echo "cannot set $file to $2" >&2; failed=1; };'
    ' done; shift 2; done; exit "$failed"'
)

refusal = file_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    program = _PROGRAM.replace("\\", "\\\\").replace("$", "$$").replace("%", "%%")
    pairs: list[str] = []
    for setting in profile.settings:
        pairs += [*comment(setting, indent="    "), f"    {_quoted(setting.path)} {_quoted(setting.text)} \\"]
    pairs[-1] = pairs[-1].removesuffix(" \\")
    mounts = ["After=sys-kernel-debug.mount"] if any(one.form == "debugfs" for one in profile.settings) else []
    lines = [
        *heading(profile),
        "[Unit]",
        f"Description=Kernel settings of ktrial: {profile.name}",
        "After=systemd-sysctl.service systemd-udev-settle.service systemd-tmpfiles-setup.service",
        *mounts,
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        f"ExecStart=/bin/sh -c '{program}' ktrial \\",
        *pairs,
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return {f"etc/systemd/system/ktrial-{profile.name}.service": file_text(lines)}


def _quoted(text: str) -> str:
    """Quote an argument of ExecStart=, so that systemd expands no specifier or variable in it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
