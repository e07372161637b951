# SPDX-License-Identifier: Apache-2.0
"""Decompress and recompress bytes (gzip, bzip2, xz, zstd). Other archives are recognised and refused."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ktrial.kit.errors import BadInput, in_lower_case
from ktrial.kit.units import show_bytes

#: ktrial decompresses at most this many bytes.
LIMIT_BYTES = 256 << 20
#: Small enough that one piece cannot decompress to more than fits into memory.
_PIECE_BYTES = 512
#: The most memory that a stream may request. Kernels and packages request at most half as much (xz -9e: 64 MiB).
_DICTIONARY_BYTES = 256 << 20
_GZIP_WINDOW = 31
#: Flags of gzip headers with a file name, a comment or extra fields.
_GZIP_NAMES = 0x1C
_ZSTD_LEVEL = 9
_AGAIN = "copy or download the file again"


class OpenedFile(NamedTuple):
    """Decompressed content, and the function `pack`, which compresses it again.

    `bare` is true if the header holds no names or comments, which could identify someone.
    """

    inner: bytes
    pack: Callable[[bytes], bytes]
    bare: bool


def opened(data: bytes) -> OpenedFile | None:
    """Decompress data; return None if they are not compressed. Raise BadInput if they are damaged or unsupported."""
    for mark, name in _CLOSED.items():
        if data.startswith(mark):
            raise BadInput(f"cannot read {name} archives", hint="unpack the archive first")
    for mark, (name, machine, pack) in _OPEN.items():
        if data.startswith(mark):
            bare = name != "gzip" or not data[3] & _GZIP_NAMES
            return OpenedFile(_unpacked(data, name, machine), pack, bare)
    return None


def first_stream(data: bytes) -> bytes:
    """Decompress the first stream of the data; ignore what follows it.

    Data that begin like no other format count as lzma. Raise BadInput if the stream is damaged or too large.
    """
    for mark, (name, machine, _) in _OPEN.items():
        if data.startswith(mark):
            return _unpacked(data, name, machine, first_only=True)
    return _unpacked(data, "lzma", _lzma, first_only=True)


def streamed(read: Callable[[int], bytes], packing: str | None = None) -> Iterator[bytes]:
    """Yield the decompressed content of what `read` returns, a small piece at a time.

    The first bytes show the compression. Raise BadInput if they contradict `packing`. Raw lzma has no such mark, so it
    needs `packing`. Without `packing`, data without a mark pass unchanged.
    """
    head = read(_PIECE_BYTES)
    by_mark = ((name, machine) for mark, (name, machine, _) in _OPEN.items() if head.startswith(mark))
    name, machine = ("lzma", _lzma) if packing == "lzma" else next(by_mark, ("", None))
    if packing not in (None, name):
        found = f"data that begin with {head[:4].hex(' ')}" if head else "no data"
        raise BadInput(f"expected {packing} data, got {found}", hint=_AGAIN)

    def read_from_head(size: int) -> bytes:
        nonlocal head
        piece, head = head or read(size), b""
        return piece

    if machine is None:
        yield from iter(lambda: read_from_head(_PIECE_BYTES), b"")
    else:
        yield from _streams(read_from_head, name, machine)


def _unpacked(data: bytes, name: str, machine: Callable[[], Any], *, first_only: bool = False) -> bytes:
    pieces = (data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES))
    parts: list[bytes] = []
    size = 0
    for part in _streams(lambda _: next(pieces, b""), name, machine, first_only=first_only):
        parts.append(part)
        size += len(part)
        if size > LIMIT_BYTES:
            raise BadInput(
                f"cannot unpack {name} data: the content exceeds {show_bytes(LIMIT_BYTES)}",
                hint=f"use a file whose content is at most {show_bytes(LIMIT_BYTES)}",
            )
    return b"".join(parts)


def _streams(
    read: Callable[[int], bytes], name: str, machine: Callable[[], Any], *, first_only: bool = False
) -> Iterator[bytes]:
    """Yield the content of one or more streams; skip the NUL padding between and after them."""
    rest = read(_PIECE_BYTES)
    while rest:
        one = machine()
        while not one.eof:
            if not rest:
                raise BadInput(f"cannot unpack {name} data: the end is missing", hint=_AGAIN)
            try:
                yield one.decompress(rest)
            except _errors() as error:
                why = str(error).rpartition(": ")[2]
                raise BadInput(f"cannot unpack {name} data: {in_lower_case(why)}", hint=_AGAIN) from None
            rest = one.unused_data if one.eof else read(_PIECE_BYTES)
        if first_only:
            return
        rest = rest.lstrip(b"\0")
        while not rest and (piece := read(_PIECE_BYTES)):
            rest = piece.lstrip(b"\0")


def _errors() -> tuple[type[Exception], ...]:
    import zstandard

    return (zlib.error, OSError, EOFError, lzma.LZMAError, zstandard.ZstdError)


def _lzma() -> Any:
    return lzma.LZMADecompressor(memlimit=_DICTIONARY_BYTES)


def _zstd_machine() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


def _zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(data)


def _gzip(data: bytes) -> bytes:
    machine = zlib.compressobj(level=9, wbits=_GZIP_WINDOW)
    return machine.compress(data) + machine.flush()


#: First bytes -> name, maker of a decompressor, compressing function.
_OPEN: dict[bytes, tuple[str, Callable[[], Any], Callable[[bytes], bytes]]] = {
    b"\x1f\x8b\x08": ("gzip", lambda: zlib.decompressobj(_GZIP_WINDOW), _gzip),
    **{b"BZh%d1AY&SY" % level: ("bzip2", bz2.BZ2Decompressor, bz2.compress) for level in range(1, 10)},
    b"\xfd7zXZ\0": ("xz", _lzma, lzma.compress),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd_machine, _zstd),
}
_CLOSED = {
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\x89LZO\0": "lzop",
    b"Rar!\x1a\x07": "RAR",
}
