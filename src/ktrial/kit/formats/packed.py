# SPDX-License-Identifier: Apache-2.0
"""What is inside packed bytes (gzip, bzip2, xz, zstd), and the way back; other archives are named, not opened."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ktrial.kit.errors import BadInput

#: More than that is not unpacked.
LIMIT_BYTES = 256 << 20
#: So little at a time that one piece cannot fill the memory.
_PIECE_BYTES = 512
#: More memory than that no stream gets: kernels and packages ask for half of it at most (xz -9e: 64 MiB).
_DICTIONARY_BYTES = 256 << 20
_GZIP_WINDOW = 31
#: Of gzip's flags: a file's name, a comment, and what else a header may hold.
_GZIP_NAMES = 0x1C
_ZSTD_LEVEL = 9


class OpenedFile(NamedTuple):
    """What was inside, and what packs it again; `bare` says that nothing else of the file tells anything."""

    inner: bytes
    pack: Callable[[bytes], bytes]
    bare: bool


def opened(data: bytes) -> OpenedFile | None:
    """Return what is inside; None if nothing is packed. Raises BadInput for what cannot be opened whole."""
    for mark, name in _CLOSED.items():
        if data.startswith(mark):
            raise BadInput(f"a {name} archive cannot be looked into")
    for mark, (name, machine, pack) in _OPEN.items():
        if data.startswith(mark):
            bare = name != "gzip" or not data[3] & _GZIP_NAMES
            return OpenedFile(_unpacked(data, name, machine), pack, bare)
    return None


def first_stream(data: bytes) -> bytes:
    """Return what is inside the stream that the data begin with; what follows it is left out."""
    for mark, (name, machine, _) in _OPEN.items():
        if data.startswith(mark):
            return _unpacked(data, name, machine, first_only=True)
    return _unpacked(data, "lzma", _lzma, first_only=True)


def streamed(read: Callable[[int], bytes], packing: str | None = None) -> Iterator[bytes]:
    """Yield what is inside of what is read, a small piece at a time.

    The mark it begins with tells how it is packed, and has to agree with `packing` where that is said; raw lzma has
    none. What is not said to be packed and begins with no mark is not.
    """
    head = read(_PIECE_BYTES)
    name, machine = ("lzma", _lzma) if packing == "lzma" else _told_by(head)
    if packing not in (None, name):
        raise BadInput(f"they are said to be packed with {packing}, and begin with {head[:4].hex(' ') or 'nothing'}")

    def again(size: int) -> bytes:
        nonlocal head
        piece, head = head or read(size), b""
        return piece

    if machine is None:
        yield from iter(lambda: again(_PIECE_BYTES), b"")
    else:
        yield from _streams(again, name, machine)


def _told_by(head: bytes) -> tuple[str, Callable[[], Any] | None]:
    return next(((name, machine) for mark, (name, machine, _) in _OPEN.items() if head.startswith(mark)), ("", None))


def _unpacked(data: bytes, name: str, machine: Callable[[], Any], *, first_only: bool = False) -> bytes:
    parts: list[bytes] = []
    size = 0
    for part in _streams(_from(data), name, machine, first_only=first_only):
        parts.append(part)
        size += len(part)
        if size > LIMIT_BYTES:
            raise BadInput(f"it is packed with {name} and holds more than {LIMIT_BYTES} bytes")
    return b"".join(parts)


def _from(data: bytes) -> Callable[[int], bytes]:
    at = 0

    def read(size: int) -> bytes:
        nonlocal at
        piece = data[at : at + size]
        at += len(piece)
        return piece

    return read


def _streams(
    read: Callable[[int], bytes], name: str, machine: Callable[[], Any], *, first_only: bool = False
) -> Iterator[bytes]:
    """Yield one stream or several; what is NUL between them and at the end only fills up."""
    rest = read(_PIECE_BYTES)
    while rest:
        one = machine()
        while not one.eof:
            if not rest:
                raise BadInput(f"it is packed with {name} and its end is missing")
            try:
                yield one.decompress(rest)
            except _errors() as error:
                raise BadInput(f"it begins as {name} and cannot be unpacked: {error}") from None
            rest = one.unused_data if one.eof else read(_PIECE_BYTES)
        if first_only:
            return
        rest = _behind_nuls(read, rest)


def _behind_nuls(read: Callable[[int], bytes], rest: bytes) -> bytes:
    """Return what comes after NULs; nothing at the end."""
    while not (begin := rest.lstrip(b"\0")) and (rest := read(_PIECE_BYTES)):
        pass
    return begin


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


#: First bytes -> name, what unpacks a stream, what packs.
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
