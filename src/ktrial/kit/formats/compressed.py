# SPDX-License-Identifier: Apache-2.0
"""Files packed with gzip, unpacked in memory and never beyond a limit."""

from __future__ import annotations

import zlib

from ktrial.kit.errors import BadInput
from ktrial.kit.formats.tool_output import unreadable

_GZIP = b"\x1f\x8b"
_WITH_HEADER = 31
#: So little at a time that many small members take no longer than one large one.
_PIECE_BYTES = 1024


def unpacked(data: bytes, name: str, limit_bytes: int) -> tuple[bytes, str]:
    """What is inside, and its name without `.gz`; other data as it is. What would be larger is refused."""
    if not data.startswith(_GZIP):
        return data, name
    found, at, end = bytearray(), 0, len(data.rstrip(b"\0"))
    machine = zlib.decompressobj(_WITH_HEADER)
    while at < len(data):
        try:
            found += machine.decompress(data[at : at + _PIECE_BYTES], limit_bytes + 1 - len(found))
        except zlib.error as error:
            raise unreadable(name, None, str(error), "whole gzip") from None
        if len(found) > limit_bytes:
            raise BadInput(
                f"when unpacked it has more than the {limit_bytes} bytes that are read",
                file=name,
                hint="is it a file of results? cut it into several, or export fewer columns",
            )
        at = min(at + _PIECE_BYTES, len(data)) - len(machine.unused_data)
        if machine.eof and at < end:  # a file may be several that were packed one by one
            machine = zlib.decompressobj(_WITH_HEADER)
        elif machine.eof:
            break
    if not machine.eof:
        raise unreadable(name, None, f"{len(data)} bytes", "whole gzip: its end is missing")
    return bytes(found), name.removesuffix(".gz")
