# SPDX-License-Identifier: Apache-2.0
"""Kernels in packages: of Debian, RPM and pacman, read without being installed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

import zstandard

from ktrial.domain.errors import BadInput
from ktrial.formats import cpio_archive, debian_package, rpm_package

_LIMIT_BYTES = 256 << 20
_PACKAGE_LIMIT_BYTES = 1 << 30
#: What pacman's packages are called, however they are packed.
_PACMAN = re.compile(r"\.pkg\.tar(?:\.(?:zst|xz|gz|bz2))?$")
_IMAGE = re.compile(r"boot/vmlinu[zx]-.+|(?:usr/)?lib/modules/[^/]+/vmlinuz")
_CONFIG = re.compile(r"boot/config-.+|(?:usr/)?lib/modules/[^/]+/config")
_DAMAGED = (tarfile.TarError, lzma.LZMAError, zlib.error, zstandard.ZstdError, EOFError, OSError)
_ZSTD = b"\x28\xb5\x2f\xfd"


class Held(NamedTuple):
    """A file of a package: its name there and its content."""

    name: str
    content: bytes


class PackedKernel(NamedTuple):
    """The image that a package holds, and its configuration where it holds one."""

    image: Held
    config: Held | None


def is_package(path: Path) -> bool:
    """Whether a file is a package that kernels come in."""
    with path.open("rb") as file:
        begin = file.read(8)
    return begin.startswith((debian_package.MAGIC, rpm_package.MAGIC)) or _PACMAN.search(path.name) is not None


def kernel_of(path: Path, word: str) -> PackedKernel:
    """The kernel that a package holds. Raises BadInput where it holds none, or cannot be read."""
    image: Held | None = None
    config: Held | None = None
    try:
        for name, content in _files(path):
            if _IMAGE.fullmatch(name):
                image = image or Held(name, content)
            else:
                config = config or Held(name, content)
    except _DAMAGED as error:
        raise BadInput(f"its files cannot be read: {error}", file=word, hint="download it anew") from None
    if image is None:
        hint = "take a linux-image package of Debian, a kernel-core of Fedora, or Arch's linux"
        raise BadInput("there is no boot/vmlinuz-… nor lib/modules/…/vmlinuz in this package", file=word, hint=hint)
    return PackedKernel(image, config)


def _wanted(name: str) -> bool:
    return _IMAGE.fullmatch(_place(name)) is not None or _CONFIG.fullmatch(_place(name)) is not None


def _place(name: str) -> str:
    return name.removeprefix(".").lstrip("/")


def _files(path: Path) -> Iterator[Held]:
    with path.open("rb") as file:
        begin = file.read(8)
        if begin.startswith(rpm_package.MAGIC):
            yield from _of_rpm(path)
        elif begin.startswith(debian_package.MAGIC):
            with package_files(file, path) as archive:
                yield from _of_tar(archive, path)
        else:
            file.seek(0)
            with _tar(file, packed_zstd=begin.startswith(_ZSTD)) as archive:
                yield from _of_tar(archive, path)


def _of_tar(archive: tarfile.TarFile, path: Path) -> Iterator[Held]:
    """The boot files of Debian's packages lie together, before modules that take long to unpack."""
    seen = False
    for entry in archive:
        name = _place(entry.name)
        if entry.isfile() and _wanted(name):
            seen = seen or name.startswith("boot/")
            if entry.size > _LIMIT_BYTES:
                raise BadInput(f"{name} has more than {_LIMIT_BYTES >> 20} MiB", file=str(path))
            content = archive.extractfile(entry)
            yield Held(name, content.read() if content is not None else b"")
        elif seen and not name.startswith("boot"):
            return


def _of_rpm(path: Path) -> Iterator[Held]:
    if path.stat().st_size > _PACKAGE_LIMIT_BYTES:
        raise BadInput(f"it has more than {_PACKAGE_LIMIT_BYTES >> 20} MiB", file=str(path))
    data = path.read_bytes()
    found = rpm_package.payload(data, str(path))
    with _unpacked(io.BytesIO(data[found.offset :]), found.packing, path) as stream:
        for name, content in cpio_archive.files(stream.read, _wanted, _LIMIT_BYTES, str(path)):
            yield Held(_place(name), content)


def _unpacked(packed: IO[bytes], packing: str, path: Path) -> IO[bytes]:
    if packing == "zstd":
        return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(packed))
    if packing in ("xz", "lzma"):
        return cast("IO[bytes]", lzma.open(packed))
    if packing == "gzip":
        return cast("IO[bytes]", gzip.open(packed))
    if packing == "bzip2":
        return cast("IO[bytes]", bz2.open(packed))
    raise BadInput(f"it is packed with {packing!r}: gzip, xz, lzma, bzip2 and zstd are read", file=str(path))


def package_files(file: IO[bytes], path: Path) -> tarfile.TarFile:
    """The archive of the files within a package of Debian, which `file` was opened from."""
    at = len(debian_package.MAGIC)
    while True:
        file.seek(at)
        member = debian_package.member(file.read(debian_package.HEADER_BYTES), at, str(path))
        if member.name.startswith("data.tar"):
            break
        at = member.next
    file.seek(member.offset)
    return _tar(file, packed_zstd=member.name.endswith(".zst"))


def _tar(file: IO[bytes], *, packed_zstd: bool) -> tarfile.TarFile:
    if packed_zstd:
        return tarfile.open(fileobj=zstandard.ZstdDecompressor().stream_reader(file), mode="r|")
    return tarfile.open(fileobj=file, mode="r|*")
