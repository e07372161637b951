# SPDX-License-Identifier: Apache-2.0
"""What is inside packed bytes (gzip, bzip2, xz, zstd), and the way back; other archives are named, not opened."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from ktrial.domain.errors import BadInput

#: More than that is not unpacked.
LIMIT_BYTES = 256 << 20
#: So little at a time that one piece cannot fill the memory.
_PIECE_BYTES = 512
_GZIP_WINDOW = 31
#: Of gzip's flags: a file's name, a comment, and what else a header may hold.
_GZIP_NAMES = 0x1C
_ZSTD_LEVEL = 9


class Opened(NamedTuple):
    """What was inside, and what packs it again; `bare` says that nothing else of the file tells anything."""

    inner: bytes
    pack: Callable[[bytes], bytes]
    bare: bool


def opened(data: bytes) -> Opened | None:
    """What is inside; None where nothing is packed. Raises BadInput for what cannot be opened whole."""
    for mark, name in _CLOSED.items():
        if data.startswith(mark):
            raise BadInput(f"a {name} archive cannot be looked into")
    for mark, (name, machine, pack) in _OPEN.items():
        if data.startswith(mark):
            bare = name != "gzip" or not data[3] & _GZIP_NAMES
            return Opened(_unpacked(data, name, machine), pack, bare)
    return None


def first_stream(data: bytes) -> bytes:
    """What is inside the stream that the data begin with; what follows it is left out."""
    for mark, (name, machine, _) in _OPEN.items():
        if data.startswith(mark):
            return _unpacked(data, name, machine, first_only=True)
    return _unpacked(data, "lzma", lzma.LZMADecompressor, first_only=True)


def _unpacked(data: bytes, name: str, machine: Callable[[], Any], *, first_only: bool = False) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data.strip(b"\0"):
        one, at = machine(), 0
        while at < len(data) and not one.eof:
            try:
                parts.append(one.decompress(data[at : at + _PIECE_BYTES]))
            except _errors() as error:
                raise BadInput(f"it begins as {name} and cannot be unpacked: {error}") from None
            size, at = size + len(parts[-1]), at + _PIECE_BYTES
            if size > LIMIT_BYTES:
                raise BadInput(f"it is packed with {name} and holds more than {LIMIT_BYTES} bytes")
        if not one.eof:
            raise BadInput(f"it is packed with {name} and its end is missing")
        data = b"" if first_only else one.unused_data + data[at:]
    return b"".join(parts)


def _errors() -> tuple[type[Exception], ...]:
    import zstandard

    return (zlib.error, OSError, EOFError, lzma.LZMAError, zstandard.ZstdError)


def _zstd_machine() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


def _zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(data)


def _gzip(data: bytes) -> bytes:
    machine = zlib.compressobj(level=9, wbits=_GZIP_WINDOW)
    return machine.compress(data) + machine.flush()


#: First bytes -> name, what unpacks a stream, what packs.
_OPEN: dict[bytes, tuple[str, Callable[[], Any], Callable[[bytes], bytes]]] = {
    b"\x1f\x8b\x08": ("gzip", lambda: zlib.decompressobj(_GZIP_WINDOW), _gzip),
    **{b"BZh%d1AY&SY" % level: ("bzip2", bz2.BZ2Decompressor, bz2.compress) for level in range(1, 10)},
    b"\xfd7zXZ\0": ("xz", lzma.LZMADecompressor, lzma.compress),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd_machine, _zstd),
}
_CLOSED = {
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\x89LZO\0": "lzop",
    b"Rar!\x1a\x07": "RAR",
}
