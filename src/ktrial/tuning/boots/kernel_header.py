# SPDX-License-Identifier: Apache-2.0
"""Reader of a kernel's first bytes: its architecture, its release if stated, and whether it is signed."""

from __future__ import annotations

import struct
import zlib

import msgspec

#: The header lies within this many bytes from the start of a kernel.
ENOUGH_BYTES = 65_536
_HEADER, _HEADER_END = 0x202, 0x250
_FLAT_AT = 56
_FLAT = {b"ARM\x64": "aarch64", b"RSC\x05": "riscv64"}
_PE = {0x014C: "i386", 0x8664: "x86_64", 0xAA64: "aarch64", 0x5064: "riscv64", 0x6264: "loongarch64"}
_GZIP = b"\x1f\x8b"
#: Offset of the data directories in the optional header of an EFI program, by the kind of that header.
_DIRECTORIES = {0x010B: 96, 0x020B: 112}
_CERTIFICATES = 4


class KernelHeader(msgspec.Struct, frozen=True):
    """What the first bytes of a kernel show. Only an EFI program can be signed, so a gzip file is not."""

    architecture: str
    release: str | None
    is_signed: bool


def read_kernel_header(data: bytes) -> KernelHeader | None:
    """Return what the first bytes of a file show; None if no boot loader could load it as a kernel."""
    if data[_HEADER : _HEADER + 4] == b"HdrS" and len(data) >= _HEADER_END:
        return KernelHeader("x86_64" if _is_64_bit(data) else "i386", _release(data), _is_signed(data))
    if data.startswith(_GZIP):
        inner = read_kernel_header(_unpacked(data))
        return None if inner is None else KernelHeader(inner.architecture, inner.release, False)
    architecture = _FLAT.get(data[_FLAT_AT : _FLAT_AT + 4])
    if architecture is None and data[4:8] == b"zimg":
        architecture = _PE.get(_number(data, _pe(data) + 4, "<H"))
    return None if architecture is None else KernelHeader(architecture, None, _is_signed(data))


def _is_64_bit(data: bytes) -> bool:
    """Return whether XLF_KERNEL_64 is set in the header; True for headers before protocol 2.12, which lack it."""
    return _number(data, 0x206, "<H") < 0x020C or bool(_number(data, 0x236, "<H") & 1)


def _release(data: bytes) -> str | None:
    start = _number(data, 0x20E, "<H") + 512
    words = data[start : start + 256].partition(b"\0")[0].decode("ascii", "replace").split()
    return words[0] if start > 512 and words else None


def _unpacked(data: bytes) -> bytes:
    try:
        inner = zlib.decompressobj(wbits=31).decompress(data, ENOUGH_BYTES)
    except zlib.error:
        return b""
    return b"" if inner.startswith(_GZIP) else inner


def _pe(data: bytes) -> int:
    """Return the offset of an EFI program's header, or an offset past the end for other data."""
    start = _number(data, 0x3C, "<I")
    return start if data[:2] == b"MZ" and data[start : start + 4] == b"PE\0\0" else len(data)


def _is_signed(data: bytes) -> bool:
    """Return whether the program carries a certificate."""
    optional = _pe(data) + 24
    first = _DIRECTORIES.get(_number(data, optional, "<H"))
    if first is None or _number(data, optional + first - 4, "<I") <= _CERTIFICATES:
        return False
    return _number(data, optional + first + 8 * _CERTIFICATES + 4, "<I") > 0


def _number(data: bytes, at: int, form: str) -> int:
    """Return the number at offset `at`; 0 if the data end before it is complete."""
    if at + struct.calcsize(form) > len(data):
        return 0
    return int(struct.unpack_from(form, data, at)[0])
