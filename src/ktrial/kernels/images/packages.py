# SPDX-License-Identifier: Apache-2.0
"""Kernels in packages: of Debian, RPM and pacman, read without being installed."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from ktrial.kernels.images import debian_package, rpm_package
from ktrial.kit.errors import BadInput
from ktrial.kit.formats import cpio, packed

_LIMIT_BYTES = 256 << 20
#: What pacman's packages are called, however they are packed.
_PACMAN = re.compile(r"\.pkg\.tar(?:\.(?:zst|xz|gz|bz2))?$")
_IMAGE = re.compile(r"boot/vmlinu[zx]-.+|(?:usr/)?lib/modules/[^/]+/vmlinuz")
_CONFIG = re.compile(r"boot/config-.+|(?:usr/)?lib/modules/[^/]+/config")
#: What `tarfile` raises where an archive is damaged.
DAMAGED = (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, RecursionError)
_PACKINGS = ("gzip", "xz", "lzma", "bzip2", "zstd")
#: So much of a package is looked at, and so much memory its table of contents may take.
_WHOLE_LIMIT_BYTES = 4 << 30
_CONTENTS_LIMIT_BYTES = 32 << 20


class Held(NamedTuple):
    """A file of a package: its name there and its content."""

    name: str
    content: bytes


class PackedKernel(NamedTuple):
    """The image that a package holds, and its configuration where it holds one."""

    image: Held
    config: Held | None


class Unpacked:
    """What is inside a package, from its beginning to its end: it skips forward as a file does, and never goes back."""

    def __init__(self, pieces: Iterator[bytes], path: Path) -> None:
        self._pieces, self._path = pieces, path
        self._rest = memoryview(b"")
        self._at = 0
        self._allowed = _CONTENTS_LIMIT_BYTES

    def tell(self) -> int:
        """Return how much was read or skipped."""
        return self._at

    def allow(self, size: int) -> None:
        """So much will be read that is a file of the archive."""
        self._allowed += size

    def read(self, size: int) -> bytes:
        """So many bytes, fewer at the end: what tells of the files, and those that were allowed."""
        self._allowed -= size
        if size < 0 or self._allowed < 0:
            wanted = f"more than {_CONTENTS_LIMIT_BYTES >> 20} MiB that tell which files it holds"
            raise BadInput(f"its archive has {wanted}", file=str(self._path))
        return self.take(size)

    def take(self, size: int) -> bytes:
        """So many bytes, fewer at the end."""
        return b"".join(self._take(size))

    def seek(self, place: int) -> int:
        """Skip to a place further on."""
        if place < self._at:
            raise OSError("its parts are out of order")
        for _ in self._take(place - self._at):
            pass
        return self._at

    def _take(self, size: int) -> Iterator[memoryview]:
        while size > 0:
            if not self._rest:
                piece = self._next()
                if piece is None:
                    return
                self._rest = memoryview(piece)
            part, self._rest = self._rest[:size], self._rest[size:]
            size -= len(part)
            self._at += len(part)
            if self._at > _WHOLE_LIMIT_BYTES:
                raise BadInput(f"it holds more than {_WHOLE_LIMIT_BYTES >> 30} GiB", file=str(self._path))
            yield part

    def _next(self) -> bytes | None:
        try:
            return next(self._pieces, None)
        except BadInput as error:
            raise BadInput(
                f"its files cannot be read: {error.message}", file=str(self._path), hint="download it anew"
            ) from None


def is_package(path: Path) -> bool:
    """Return whether a file is a package that kernels come in."""
    with path.open("rb") as file:
        begin = file.read(8)
    return begin.startswith((debian_package.MAGIC, rpm_package.MAGIC)) or _PACMAN.search(path.name) is not None


def kernel_of(path: Path, word: str) -> PackedKernel:
    """Return the kernel that a package holds. Raises BadInput if it holds none, or cannot be read."""
    image: Held | None = None
    config: Held | None = None
    try:
        for name, content in _files(path):
            if _IMAGE.fullmatch(name):
                image = image or Held(name, content)
            else:
                config = config or Held(name, content)
    except DAMAGED as error:
        raise BadInput(f"its files cannot be read: {error}", file=word, hint="download it anew") from None
    if image is None:
        hint = "take a linux-image package of Debian, a kernel-core of Fedora, or Arch's linux"
        raise BadInput("there is no boot/vmlinuz-… nor lib/modules/…/vmlinuz in this package", file=word, hint=hint)
    return PackedKernel(image, config)


def _is_kernel_file(name: str) -> bool:
    return _IMAGE.fullmatch(_place(name)) is not None or _CONFIG.fullmatch(_place(name)) is not None


def _place(name: str) -> str:
    return name.removeprefix(".").lstrip("/")


def _files(path: Path) -> Iterator[Held]:
    with path.open("rb") as file:
        begin = file.read(8)
        if begin.startswith(rpm_package.MAGIC):
            yield from _of_rpm(file, path)
        elif begin.startswith(debian_package.MAGIC):
            yield from _of_tar(*package_files(file, path), path)
        else:
            file.seek(0)
            yield from _of_tar(*_tar(file.read, path), path)


def _of_tar(archive: tarfile.TarFile, inside: Unpacked, path: Path) -> Iterator[Held]:
    """Yield the boot files of Debian's packages lie together, before modules that take long to unpack."""
    seen = False
    for entry in archive:
        name = _place(entry.name)
        if entry.isfile() and _is_kernel_file(name):
            seen = seen or name.startswith("boot/")
            if entry.size > _LIMIT_BYTES:
                raise BadInput(f"{name} has more than {_LIMIT_BYTES >> 20} MiB", file=str(path))
            inside.allow(entry.size)
            content = archive.extractfile(entry)
            yield Held(name, content.read() if content is not None else b"")
        elif seen and not name.startswith("boot"):
            return


def _of_rpm(file: IO[bytes], path: Path) -> Iterator[Held]:
    file.seek(0)
    head = file.read(_CONTENTS_LIMIT_BYTES)
    found = rpm_package.payload(head, str(path))
    if found.packing not in _PACKINGS:
        known = "gzip, xz, lzma, bzip2 and zstd are read"
        raise BadInput(f"it is packed with {found.packing!r}: {known}", file=str(path))
    file.seek(found.offset)
    inside = Unpacked(packed.streamed(file.read, found.packing), path)
    for name, content in cpio.files(inside.take, _is_kernel_file, _LIMIT_BYTES, str(path)):
        yield Held(_place(name), content)


def package_files(file: IO[bytes], path: Path) -> tuple[tarfile.TarFile, Unpacked]:
    """Return the archive of the files within a package of Debian, which `file` was opened from."""
    at = len(debian_package.MAGIC)
    while True:
        file.seek(at)
        member = debian_package.member(file.read(debian_package.HEADER_BYTES), at, str(path))
        if member.name.startswith("data.tar"):
            break
        at = member.next
    file.seek(member.offset)
    end = member.offset + member.size
    return _tar(lambda size: file.read(min(size, end - file.tell())), path)


def _tar(read: Callable[[int], bytes], path: Path) -> tuple[tarfile.TarFile, Unpacked]:
    inside = Unpacked(packed.streamed(read), path)
    return tarfile.open(fileobj=cast("IO[bytes]", inside), mode="r:"), inside
