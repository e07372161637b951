# SPDX-License-Identifier: Apache-2.0
"""Files packed with gzip, unpacked in memory and never beyond a limit."""

from __future__ import annotations

import zlib

from ktrial.formats.tool_output import unreadable

_GZIP = b"\x1f\x8b"
_WITH_HEADER = 31


def unpacked(data: bytes, name: str, limit_bytes: int) -> tuple[bytes, str]:
    """What is inside, and its name without `.gz`; other data as it is. What would be larger is refused."""
    if not data.startswith(_GZIP):
        return data, name
    machine = zlib.decompressobj(_WITH_HEADER)
    try:
        found = machine.decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise unreadable(name, None, str(error), "whole gzip") from None
    if len(found) > limit_bytes:
        raise unreadable(name, None, f"over {limit_bytes} bytes", f"at most {limit_bytes} bytes when unpacked")
    if not machine.eof:
        raise unreadable(name, None, f"{len(data)} bytes", "whole gzip: its end is missing")
    return found, name.removesuffix(".gz")
