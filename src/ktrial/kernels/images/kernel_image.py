# SPDX-License-Identifier: Apache-2.0
"""Kernel images: x86's bzImage, arm64's Image, their compression, and the version banner inside."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from ktrial.kit.errors import BadInput
from ktrial.kit.formats import elf, lz4, packed
from ktrial.kit.units import show_bytes

_SECTOR = 512
_HEADER, _HEADER_END = 0x202, 0x250
_MAGIC = b"HdrS"
#: The first boot protocol that states where the payload is (Linux 2.6.26).
_PROTOCOL = 0x0208
_SIZE_BYTES = 4
#: The magic number in the 64-byte header of a flat kernel -> its architecture.
_FLAT_AT = 56
_FLAT = {b"ARM\x64": "aarch64", b"RSC\x05": "riscv64"}
_ZBOOT = b"zimg"
_SAYS_LINUX = b"Linux version "
_BANNER = re.compile(rb"Linux version (\S+) \(([^\n\0]*)\n?")
#: First bytes of a payload, the name of its compression, and its unpacker; None if ktrial has none.
_PACKED: tuple[tuple[bytes, str, Callable[[bytes], bytes] | None], ...] = (
    (b"\x1f\x8b", "gzip", packed.first_stream),
    (b"BZh", "bzip2", packed.first_stream),
    (b"\xfd7zXZ\0", "xz", packed.first_stream),
    (b"\x5d\0\0", "lzma", packed.first_stream),
    (b"\x28\xb5\x2f\xfd", "zstd", packed.first_stream),
    (lz4.MAGIC, "lz4", lz4.unpacked),
    (b"\x89LZO", "lzo", None),
)
_REPACK = "use a kernel that is compressed with zstd, gzip or xz"


class KernelImage(NamedTuple):
    """An image. `packing` is its compression, and `kernel` is the unpacked kernel."""

    architecture: str
    header_version: str | None
    packing: str
    kernel: bytes


def architecture(data: bytes, source: str) -> str:
    """Return the architecture of an image. Raise BadInput if it is not a kernel image."""
    if not _is_bzimage(data):
        return _machine(_unwrapped(data, source)[1], source)
    if len(data) < _HEADER_END:
        raise BadInput(
            f"truncated within its header, at byte {len(data)}", file=source, hint="copy or download the file again"
        )
    return "x86_64" if _is_64_bit(data) else "i386"


def bootable(data: bytes, source: str, wanted: str) -> bytes:
    """Return the image in the form that an emulator boots. Raise BadInput if guests of `wanted` cannot boot it."""
    is_setup = _is_bzimage(data)
    kernel = data if is_setup else _unwrapped(data, source)[1]
    found = architecture(data, source) if is_setup else _machine(kernel, source)
    if found != wanted:
        raise BadInput(
            f"cannot boot a kernel for {found} in a guest for {wanted}",
            file=source,
            hint=f"use a kernel for {wanted}",
        )
    if kernel.startswith(elf.MAGIC):
        _require_vmlinux(kernel, source, wanted)
    return kernel


def _require_vmlinux(kernel: bytes, source: str, wanted: str) -> None:
    """Raise BadInput for a program that is not a kernel, and for a kernel that QEMU cannot boot in this form."""
    if _SAYS_LINUX not in kernel:
        raise BadInput(
            "a program, not a kernel: it contains no Linux version",
            file=source,
            hint="use the vmlinux of a kernel build",
        )
    if wanted != "x86_64":
        raise BadInput(
            "QEMU cannot boot an arm64 vmlinux", file=source, hint="use arch/arm64/boot/Image of the same tree"
        )


def read_image(data: bytes, source: str) -> KernelImage:
    """Return the kernel inside an image. Raise BadInput if it cannot be unpacked completely."""
    if not _is_bzimage(data):
        packing, kernel = _unwrapped(data, source)
        return KernelImage(_machine(kernel, source), None, packing, kernel)
    machine, payload = architecture(data, source), _payload(data, source)
    if payload.startswith(elf.MAGIC):
        return KernelImage(machine, _header_version(data), "none", payload)
    return KernelImage(machine, _header_version(data), *_unpacked(payload, source))


def _is_bzimage(data: bytes) -> bool:
    return data[_HEADER : _HEADER + 4] == _MAGIC


def _is_64_bit(data: bytes) -> bool:
    """Return the header's XLF_KERNEL_64 (protocol 2.12 and later); assume 64 bits for older x86 images."""
    protocol, loads = struct.unpack_from("<H", data, 0x206)[0], struct.unpack_from("<H", data, 0x236)[0]
    return protocol < 0x020C or bool(loads & 1)


def _machine(kernel: bytes, source: str) -> str:
    """Return the architecture of an unwrapped kernel."""
    if kernel.startswith(elf.MAGIC):
        return elf.Elf(kernel, source).machine
    if (found := _FLAT.get(kernel[_FLAT_AT : _FLAT_AT + 4])) is not None:
        return found
    raise BadInput(
        f"not a kernel image: it begins with {kernel[:4].hex(' ') or 'nothing'}",
        file=source,
        hint="use a bzImage, Image or vmlinuz (/boot/vmlinuz-…), a vmlinux, or a kernel package",
    )


def _unwrapped(data: bytes, source: str) -> tuple[str, bytes]:
    """Return the compression of a kernel without a setup part, and the kernel: plain, packed, or in EFI zboot."""
    if data[:2] == b"MZ" and data[4:8] == _ZBOOT:
        offset, size = struct.unpack_from("<II", data[8:].ljust(8, b"\0"))
        if size == 0 or offset + size > len(data):
            raise _cut_off(offset + size, len(data), source)
        packing, kernel = _unpacked(data[offset : offset + size], source)
        return f"{packing}, EFI zboot", kernel
    if any(data.startswith(magic) for magic, _, _ in _PACKED):
        return _unpacked(data, source)
    return "none", data


def _unpacked(payload: bytes, source: str) -> tuple[str, bytes]:
    for magic, name, unpack in _PACKED:
        if payload.startswith(magic):
            if unpack is None:
                raise BadInput(f"cannot unpack its kernel: {name} is not supported", file=source, hint=_REPACK)
            try:
                return name, unpack(payload)
            except BadInput as error:
                raise BadInput(
                    f"cannot unpack its kernel: {error.message}", file=source, hint="build or download the kernel again"
                ) from None
    begin = payload[:6].hex(" ")
    raise BadInput(
        f"cannot unpack its kernel: damaged, or of an unknown compression ({begin})",
        file=source,
        hint="use an undamaged kernel that is compressed with zstd, gzip or xz",
    )


def _payload(data: bytes, source: str) -> bytes:
    (protocol,) = struct.unpack_from("<H", data, 0x206)
    offset, length = struct.unpack_from("<II", data, 0x248)
    if protocol < _PROTOCOL:
        raise BadInput(
            f"unsupported boot protocol {protocol >> 8}.{protocol & 255:02} (minimum 2.08)",
            file=source,
            hint="use a kernel of Linux 2.6.26 or later",
        )
    begin = ((data[0x1F1] or 4) + 1) * _SECTOR + offset
    if begin + length > len(data) or length <= _SIZE_BYTES:
        raise _cut_off(begin + length, len(data), source)
    return data[begin : begin + length]


def _cut_off(end: int, size: int, source: str) -> BadInput:
    why = "damaged: its kernel is empty"
    if end > size:
        why = f"truncated: {show_bytes(end - size)} of its kernel is missing"
    return BadInput(why, file=source, hint="copy or download the file again")


def _header_version(data: bytes) -> str | None:
    (pointer,) = struct.unpack_from("<H", data, 0x20E)
    begin = pointer + _SECTOR
    end = data.find(b"\0", begin, begin + 512)
    return data[begin:end].decode("latin-1") if pointer and end > begin else None


class Banner(NamedTuple):
    """The kernel's version banner and its parts. `build` is the build number with all text after it."""

    text: str
    release: str
    built_by: str | None
    compiler: str | None
    linker: str | None
    build: str


def read_banner(kernel: bytes, source: str) -> Banner:
    """Return the version banner. Raise BadInput if there is none."""
    found = [match for match in _BANNER.finditer(kernel) if b"%" not in match[0] and b") #" in match[0]]
    # A kernel may also contain a draft of the banner, without the build number.
    for match in sorted(found, key=lambda match: b") # " in match[0]):
        text = match[0].rstrip(b"\n").decode(errors="replace")
        head, _, build = text.rpartition(") #")
        groups = _groups(f"{head})")
        compiler, linker = groups[1] if len(groups) > 1 else None, None
        if compiler is not None and ", " in compiler:
            compiler, _, linker = compiler.rpartition(", ")
        release = match[1].decode(errors="replace")
        return Banner(text, release, groups[0] if groups else None, compiler, linker, f"#{build}")
    raise BadInput('no "Linux version …" in this image', file=source, hint="use a complete kernel image")


def _groups(text: str) -> list[str]:
    """Return the contents of the outermost parentheses."""
    found, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        if character == "(":
            begin = at + 1 if depth == 0 else begin
            depth += 1
        elif character == ")" and depth:
            depth -= 1
            if depth == 0:
                found.append(text[begin:at])
    return found
