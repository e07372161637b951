# SPDX-License-Identifier: Apache-2.0
"""Reader of LZ4's legacy frame, which compressed kernels use: blocks of up to 8 MiB, each preceded by its size."""

from __future__ import annotations

import struct

from ktrial.kit.errors import BadInput

MAGIC = b"\x02\x21\x4c\x18"
_BLOCK_BYTES = 8 << 20
_LIMIT_BYTES = 256 << 20
_SHORTEST_MATCH = 4
_AGAIN = "build or download the file again"


def unpacked(data: bytes) -> bytes:
    """Decompress the blocks of a frame; ignore what follows. Raise BadInput if they are damaged or too large."""
    content, at = bytearray(), len(MAGIC)
    while at + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        block = data[at + 4 : at + 4 + size]
        if len(block) != size or not size:
            break  # the kernel's build appends the unpacked size to the last block
        content += _block(block)
        at += 4 + size
        if len(content) > _LIMIT_BYTES:
            raise BadInput(
                f"cannot unpack lz4 data: the content exceeds {_LIMIT_BYTES >> 20} MiB",
                hint=f"use a file whose content is at most {_LIMIT_BYTES >> 20} MiB",
            )
    if not content:
        raise BadInput("cannot unpack lz4 data: no complete block", hint=_AGAIN)
    return bytes(content)


def _block(data: bytes) -> bytearray:
    content, at = bytearray(), 0
    try:
        while True:
            token = data[at]
            literals, at = _length(data, at + 1, token >> 4)
            content += data[at : at + literals]
            at += literals
            if at >= len(data):
                return content
            back = data[at] | data[at + 1] << 8
            length, at = _length(data, at + 2, token & 15)
            _repeat(content, back, length + _SHORTEST_MATCH)
    except IndexError:
        raise BadInput("cannot unpack lz4 data: a block is truncated", hint=_AGAIN) from None


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length and the position after it; the length continues while its bytes are 255."""
    more = 255 if length == 15 else 0
    while more == 255:
        more = data[at]
        at += 1
        length += more
    return length, at


def _repeat(content: bytearray, back: int, length: int) -> None:
    """Append a copy of the bytes that begin `back` bytes before the end; the copy may overlap itself."""
    begin = len(content) - back
    if not 0 <= begin < len(content) or len(content) + length > _BLOCK_BYTES:
        raise BadInput("cannot unpack lz4 data: a block refers to data outside of the block", hint=_AGAIN)
    piece = content[begin : begin + length]
    while len(piece) < length:
        piece += piece[: length - len(piece)]
    content += piece
