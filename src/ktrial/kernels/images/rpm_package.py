# SPDX-License-Identifier: Apache-2.0
"""An RPM package: a lead, two headers with an index of tags, and a packed cpio archive."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ktrial.kit.errors import BadInput

MAGIC = b"\xed\xab\xee\xdb"
_LEAD_BYTES = 96
_HEADER_MAGIC = b"\x8e\xad\xe8\x01"
_HEADER = struct.Struct(">4s4xII")
_ENTRY = struct.Struct(">IIII")
_PAYLOAD_FORMAT, _PAYLOAD_PACKING = 1124, 1125
_STRING = 6
#: An old package that does not say how it is packed.
_DEFAULT = "gzip"


class Payload(NamedTuple):
    """Where the packed archive begins, and what packed it: gzip, xz, lzma, bzip2, zstd."""

    offset: int
    packing: str


def payload(data: bytes, source: str) -> Payload:
    """The archive of the package's files. Raises BadInput for what is cut off or holds another kind of archive."""
    at = _LEAD_BYTES
    _, size = _section(data, at, source)
    at += size + -size % 8  # the signature's end is on an eighth byte
    words, size = _section(data, at, source)
    form = words.get(_PAYLOAD_FORMAT, "cpio")
    if form != "cpio":
        raise BadInput(f"it holds its files as {form!r}, and cpio is what is read", file=source)
    return Payload(at + size, words.get(_PAYLOAD_PACKING, _DEFAULT))


def _section(data: bytes, at: int, source: str) -> tuple[dict[int, str], int]:
    """Return the words of a header by their tags, and how many bytes it has."""
    begin = data[at : at + _HEADER.size]
    if len(begin) < _HEADER.size or not begin.startswith(_HEADER_MAGIC):
        raise _damaged(at, "a header of an RPM package", source)
    _, entries, size = _HEADER.unpack(begin)
    store = at + _HEADER.size + entries * _ENTRY.size
    end = store + size
    if end > len(data):
        raise _damaged(at, f"{end - at} bytes of a header", source)
    words = {}
    for number in range(entries):
        tag, kind, offset, _ = _ENTRY.unpack_from(data, at + _HEADER.size + number * _ENTRY.size)
        if tag in (_PAYLOAD_FORMAT, _PAYLOAD_PACKING) and kind == _STRING:
            stop = data.find(b"\0", store + offset, end)
            words[tag] = data[store + offset : stop if stop >= 0 else end].decode("ascii", "replace")
    return words, end - at


def _damaged(at: int, wanted: str, source: str) -> BadInput:
    return BadInput(f"at byte {at} {wanted} is wanted", file=source, hint="it is cut off or damaged: download it anew")
