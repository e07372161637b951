# SPDX-License-Identifier: Apache-2.0
"""zram-generator files: which zram devices are created at boot, and how.

Assignments have the device as `instance` (`zram0`) and the key as `name` (`compression-algorithm`). Sizes are
expressions over `ram` in MB (`min(ram / 2, 4096)`) and stay as written.
"""

from __future__ import annotations

import re

from ktrial.tuning.origin.formats import ini
from ktrial.tuning.origin.formats.lines import Assignment, FileReading, in_order, require_something, unread_line

KEYS = frozenset(
    (
        *("zram-size", "compression-algorithm", "zram-resident-limit", "host-memory-limit", "swap-priority"),
        *("fs-type", "fs-options", "mount-point", "options", "writeback-device", "zram-fraction"),
        *("max-zram-size", "memory-limit"),
    )
)
"""The keys of zram-generator, including older spellings."""


def parse(data: str | bytes, file: str) -> FileReading:
    sections, entries, unread = ini.parse(data, file, inline_comments=False)
    assignments: list[Assignment] = []
    for entry in entries:
        if not re.fullmatch(r"zram\d+", entry.section):
            reason = f"[{entry.section}] is not a zram device such as [zram0]"
            unread.append(unread_line(file, entry.line_number, entry.text, reason))
        elif entry.key not in KEYS:
            unread.append(
                unread_line(file, entry.line_number, entry.text, f"{entry.key} is not a key of zram-generator")
            )
        elif not entry.value:
            unread.append(unread_line(file, entry.line_number, entry.text, f"{entry.key} has no value"))
        else:
            assignments.append(
                Assignment(
                    kind="zram",
                    name=entry.key,
                    value=entry.value,
                    file=file,
                    line_number=entry.line_number,
                    text=entry.text,
                    instance=entry.section,
                )
            )
    devices = sum(1 for section in sections if re.fullmatch(r"zram\d+", section))
    require_something(file, devices, unread, "zram-generator")
    return FileReading(file=file, assignments=tuple(assignments), unread=in_order(unread))
