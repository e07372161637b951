# SPDX-License-Identifier: Apache-2.0
"""Makes small files in the formats of kernels, programs and packages."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
from collections.abc import Callable

import zstandard

BANNER = (
    b"Linux version 6.12.7-test (me@here) (gcc-12 (Distribution 12.2.0-14) 12.2.0, "
    b"GNU ld (GNU Binutils for Distribution) 2.40) #3 SMP PREEMPT_DYNAMIC Sun Nov 22 2026\n\0"
)
CONFIG = (
    b"# Linux/x86 6.12.7 Kernel Configuration\n"
    b'CONFIG_CC_VERSION_TEXT="gcc-12 (Distribution 12.2.0-14) 12.2.0"\n'
    b"CONFIG_HZ=250\nCONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y\nCONFIG_LTO_NONE=y\nCONFIG_PREEMPT_VOLUNTARY=y\n"
    b"# CONFIG_SCHED_CLASS_EXT is not set\nCONFIG_ZRAM=m\n"
)
BUILD_ID = bytes(range(20))


def elf(sections: dict[str, bytes], machine: int = 62, interpreter: bytes = b"") -> bytes:
    """Return a 64-bit ELF file with these sections and, if given, a program interpreter."""
    names = b"\0" + b"\0".join(name.encode() for name in (*sections, ".shstrtab")) + b"\0"
    content = {**sections, ".shstrtab": names}
    programs = 56 if interpreter else 0
    at = 64 + programs
    body, heads = b"", [b"\0" * 64]
    if interpreter:
        body += interpreter + b"\0"
    for name, data in content.items():
        offset = at + len(body)
        index = names.index(b"\0" + name.encode() + b"\0") + 1
        heads.append(struct.pack("<IIQQQQIIQQ", index, 1, 0, 0, offset, len(data), 0, 0, 1, 0))
        body += data
    header = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header += struct.pack(
        "<HHIQQQIHHHHHH",
        2,
        machine,
        1,
        0,
        64,
        at + len(body),
        0,
        64,
        56,
        bool(interpreter),
        64,
        len(heads),
        len(heads) - 1,
    )
    program = struct.pack("<IIQQQQQQ", 3, 4, at, 0, 0, len(interpreter) + 1, 0, 1) if interpreter else b""
    return header + program + body + b"".join(heads)


def note(owner: bytes, kind: int, content: bytes) -> bytes:
    """Return a note in the format of `.notes`."""
    name = owner + b"\0" * (4 - len(owner) % 4)
    return struct.pack("<III", len(owner) + 1, len(content), kind) + name + content


def kernel(words: bytes = b"base_slice_ns\0", config: bytes | None = None, banner: bytes = BANNER) -> bytes:
    """Return a kernel as it is inside an image."""
    inside = b"" if config is None else b"IKCFG_ST" + gzip.compress(config) + b"IKCFG_ED"
    return elf({".rodata": banner + words + inside, ".notes": note(b"GNU", 3, BUILD_ID), ".BTF": b"\x9f\xeb\1\0"})


def bzimage(payload: bytes, protocol: int = 0x020F, loads: int = 3) -> bytes:
    """Return an image whose setup part is one sector longer than the first; the payload begins 16 bytes after it."""
    setup = bytearray(2 * 512)
    setup[0x1F1] = 1
    setup[0x202:0x206] = b"HdrS"
    version = b"6.12.7-test (me@here) #3\0"
    setup[0x300 : 0x300 + len(version)] = version
    struct.pack_into("<H", setup, 0x206, protocol)
    struct.pack_into("<H", setup, 0x20E, 0x100)
    struct.pack_into("<H", setup, 0x236, loads)
    packed = payload + struct.pack("<I", 0)
    struct.pack_into("<II", setup, 0x248, 16, len(packed))
    return bytes(setup) + b"\x90" * 16 + packed


def image(**more: bytes) -> bytes:
    """Return a whole image, packed with gzip."""
    return bzimage(gzip.compress(kernel(**more)))


def package(files: dict[str, bytes]) -> bytes:
    """Return a Debian package with these files."""
    inner = _tar({f"./{name}": data for name, data in files.items()})
    members = {"debian-binary": b"2.0\n", "data.tar.xz": lzma.compress(inner)}
    found = b"!<arch>\n"
    for name, data in members.items():
        found += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return found


def _tar(files: dict[str, bytes]) -> bytes:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return inner.getvalue()


def packed_tar(files: dict[str, bytes], packing: str | None) -> bytes:
    """Return a pacman package with these files."""
    return _PACKERS[packing](_tar(files))


_PACKERS: dict[str | None, Callable[[bytes], bytes]] = {
    None: bytes,
    **dict.fromkeys(("gz", "gzip"), gzip.compress),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    **dict.fromkeys(("zst", "zstd"), zstandard.ZstdCompressor().compress),
}


def cpio(files: dict[str, bytes]) -> bytes:
    """Return an RPM's archive with these files, and a folder."""
    found = b""
    folder = ("./lib", 0o040755, b"")
    for name, mode, data in (folder, *((f"./{name}", 0o100644, data) for name, data in files.items())):
        found += _cpio_entry(name, mode, data)
    return found + _cpio_entry("TRAILER!!!", 0, b"")


def _cpio_entry(name: str, mode: int, data: bytes) -> bytes:
    numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def rpm(
    files: dict[str, bytes],
    packing: str,
    *,
    says: str | None = None,
    form: str = "cpio",
    archive: bytes | None = None,
) -> bytes:
    """Return an RPM package with these files.

    `says` is the compression in the header; `archive` replaces the archive of the files.
    """
    lead = b"\xed\xab\xee\xdb\x03\0".ljust(96, b"\0")
    signature = _rpm_header({1000: "nothing"})
    header = _rpm_header({1000: "kernel-core", 1124: form, 1125: says or packing})
    payload = _PACKERS[packing](cpio(files) if archive is None else archive)
    return lead + signature + b"\0" * (-len(signature) % 8) + header + payload


def _rpm_header(words: dict[int, str]) -> bytes:
    index, store = b"", b""
    for tag, word in words.items():
        index += struct.pack(">IIII", tag, 6, len(store), 1)
        store += word.encode() + b"\0"
    return b"\x8e\xad\xe8\x01" + b"\0" * 4 + struct.pack(">II", len(words), len(store)) + index + store


def flat(words: bytes = b"base_slice_ns\0", config: bytes | None = None, build_id: bytes = BUILD_ID) -> bytes:
    """Return a kernel like arm64's Image: a header of 64 bytes, a vDSO with its own build id, notes and types."""
    header = b"MZ" + b"\0" * 54 + b"ARM\x64" + struct.pack("<I", 64)
    vdso = elf({".note": note(b"GNU", 3, b"\xdd" * 20)}, machine=183)
    types = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 4, 4, 15) + b"TYPE" + b"\0x\0task_struct\0"
    inside = b"" if config is None else b"IKCFG_ST" + gzip.compress(config) + b"IKCFG_ED"
    return header + vdso + BANNER + words + note(b"Linux", 257, b"\0" * 4) + note(b"GNU", 3, build_id) + types + inside


def zboot(payload: bytes, packing: bytes = b"gzip") -> bytes:
    """Return a kernel that EFI unpacks, with position, length and compression of the payload in its header."""
    head = b"MZ\0\0zimg" + struct.pack("<II8x", 64, len(payload)) + packing
    return head.ljust(64, b"\0") + payload
