# SPDX-License-Identifier: Apache-2.0
"""LZ4 in its old frame, as kernels are packed with it: blocks of up to 8 MiB, each with its size before it."""

from __future__ import annotations

import struct

from ktrial.kit.errors import BadInput

MAGIC = b"\x02\x21\x4c\x18"
_BLOCK_BYTES = 8 << 20
_LIMIT_BYTES = 256 << 20
_SHORTEST_MATCH = 4


def unpacked(data: bytes) -> bytes:
    """Return what is inside; what follows the last block is left out."""
    found, at = bytearray(), len(MAGIC)
    while at + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        block = data[at + 4 : at + 4 + size]
        if len(block) != size or not size:
            break  # the kernel's build writes the unpacked size behind the last block
        found += _block(block)
        at += 4 + size
        if len(found) > _LIMIT_BYTES:
            raise BadInput(f"it is packed with lz4 and holds more than {_LIMIT_BYTES} bytes")
    if not found:
        raise BadInput("it begins as lz4 and cannot be unpacked: there is no whole block")
    return bytes(found)


def _block(data: bytes) -> bytearray:
    found, at = bytearray(), 0
    try:
        while at < len(data):
            token = data[at]
            literals, at = _length(data, at + 1, token >> 4)
            found += data[at : at + literals]
            at += literals
            if at >= len(data):
                return found
            back = data[at] | data[at + 1] << 8
            length, at = _length(data, at + 2, token & 15)
            _repeat(found, back, length + _SHORTEST_MATCH)
    except IndexError:
        raise _cut_off() from None
    raise _cut_off()


def _cut_off() -> BadInput:
    return BadInput("it begins as lz4 and cannot be unpacked: a block is cut off")


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length that goes on as long as its bytes are full, and what follows it."""
    if length == 15:
        while True:
            more = data[at]
            at += 1
            length += more
            if more != 255:
                break
    return length, at


def _repeat(found: bytearray, back: int, length: int) -> None:
    """Copies from `back` bytes before the end; a copy may reach into itself."""
    begin = len(found) - back
    if not 0 <= begin < len(found) or len(found) + length > _BLOCK_BYTES:
        raise BadInput("it begins as lz4 and cannot be unpacked: a block repeats what is not there")
    piece = found[begin : begin + length]
    while len(piece) < length:
        piece += piece[: length - len(piece)]
    found += piece
