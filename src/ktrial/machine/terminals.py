# SPDX-License-Identifier: Apache-2.0
"""`find /dev … -printf '%A@ %p'`: when each terminal was last read from."""

from __future__ import annotations

from ktrial.kit.formats.tool_output import number, numbered, unreadable


def read_access_times(data: bytes, source: str) -> dict[str, float]:
    """Seconds since 1970 by terminal. Raises UnreadableOutput."""
    found: dict[str, float] = {}
    for line_number, line in numbered(data, source):
        seconds, _, path = line.strip().partition(" ")
        if not path.startswith("/dev/"):
            raise unreadable(source, line_number, line, "seconds and a terminal")
        found[path] = number(seconds, source, line_number, "when a terminal was read from")
    if not found:
        raise unreadable(source, None, "", "seconds and a terminal")
    return found
