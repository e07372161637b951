# SPDX-License-Identifier: Apache-2.0
"""Kernels inside Debian, RPM and pacman packages, read without installing them."""

from __future__ import annotations

import re
import struct
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from ktrial.kernels.images import debian_package
from ktrial.kit.errors import BadInput
from ktrial.kit.files import why_unread
from ktrial.kit.formats import cpio, packed

_LIMIT_BYTES = 256 << 20
#: File names of pacman packages, with any compression.
_PACMAN = re.compile(r"\.pkg\.tar(?:\.(?:zst|xz|gz|bz2))?$")
_IMAGE = re.compile(r"boot/vmlinu[zx]-.+|(?:usr/)?lib/modules/[^/]+/vmlinuz")
_CONFIG = re.compile(r"boot/config-.+|(?:usr/)?lib/modules/[^/]+/config")
#: Exceptions of `tarfile` for a damaged archive.
DAMAGED = (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, RecursionError)
_PACKINGS = ("gzip", "xz", "lzma", "bzip2", "zstd")
#: Limits on the size of an unpacked package, and on the memory that its table of contents may take.
_WHOLE_LIMIT_BYTES = 4 << 30
_CONTENTS_LIMIT_BYTES = 32 << 20
_UNPACK = "unpack the package and name the kernel image in it"

#: An RPM package: a lead, two headers with a tag index, and a compressed cpio archive.
_RPM_MAGIC = b"\xed\xab\xee\xdb"
_RPM_LEAD_BYTES = 96
_RPM_HEADER_MAGIC = b"\x8e\xad\xe8\x01"
_RPM_HEADER = struct.Struct(">4s4xII")
_RPM_ENTRY = struct.Struct(">IIII")
_PAYLOAD_FORMAT, _PAYLOAD_PACKING = 1124, 1125
_RPM_STRING = 6
#: The compression of old packages, which don't name it.
_RPM_PACKING = "gzip"


class Held(NamedTuple):
    """A file of a package; `name` is its path in the package."""

    name: str
    content: bytes


class PackedKernel(NamedTuple):
    """The image in a package, and its configuration if the package has one."""

    image: Held
    config: Held | None


class Unpacked:
    """The unpacked content of a package as a forward-only file: it can skip ahead, but never go back."""

    def __init__(self, pieces: Iterator[bytes], path: Path) -> None:
        self._pieces, self._path = pieces, path
        self._rest = memoryview(b"")
        self._at = 0
        self._allowed = _CONTENTS_LIMIT_BYTES

    def tell(self) -> int:
        return self._at

    def allow(self, size: int) -> None:
        """Let `read` return `size` more bytes, the content of a file."""
        self._allowed += size

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes. Raise BadInput if the total exceeds the limit (see `allow`)."""
        self._allowed -= size
        if size < 0 or self._allowed < 0:
            why = f"its archive has a table of contents of more than {_CONTENTS_LIMIT_BYTES >> 20} MiB"
            raise BadInput(why, file=str(self._path), hint=_UNPACK)
        return self.take(size)

    def take(self, size: int) -> bytes:
        """Read up to `size` bytes, which do not count towards the limit."""
        return b"".join(self._take(size))

    def seek(self, place: int) -> int:
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
                why = f"its content is larger than {_WHOLE_LIMIT_BYTES >> 30} GiB"
                raise BadInput(why, file=str(self._path), hint=_UNPACK)
            yield part

    def _next(self) -> bytes | None:
        try:
            return next(self._pieces, None)
        except BadInput as error:
            raise BadInput(
                f"cannot read its files: {error.message}", file=str(self._path), hint="download the package again"
            ) from None


def is_package(path: Path) -> bool:
    """Return whether a file is a Debian, RPM or pacman package. Raise BadInput if it cannot be read."""
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError as error:
        raise BadInput(why_unread(error), file=str(path), hint="check the path and its permissions") from None
    return begin.startswith((debian_package.MAGIC, _RPM_MAGIC)) or _PACMAN.search(path.name) is not None


def kernel_of(path: Path, word: str) -> PackedKernel:
    image: Held | None = None
    config: Held | None = None
    try:
        for name, content in _files(path):
            if _IMAGE.fullmatch(name):
                image = image or Held(name, content)
            else:
                config = config or Held(name, content)
    except DAMAGED as error:
        raise unreadable_package(error, word) from None
    if image is None:
        hint = "use Debian's linux-image, Fedora's kernel-core or Arch's linux package"
        raise BadInput("no boot/vmlinuz-… or lib/modules/…/vmlinuz in this package", file=word, hint=hint)
    return PackedKernel(image, config)


def unreadable_package(error: Exception, source: str) -> BadInput:
    """Return the BadInput for an exception in `DAMAGED`. Its hint depends on whether the disk or the package is bad."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    is_of_disk = isinstance(error, OSError) and error.errno is not None
    hint = "check the disk and the permissions of the file" if is_of_disk else "download the package again"
    return BadInput(f"cannot read its files: {why}", file=source, hint=hint)


def _is_kernel_file(name: str) -> bool:
    return _IMAGE.fullmatch(_place(name)) is not None or _CONFIG.fullmatch(_place(name)) is not None


def _place(name: str) -> str:
    return name.removeprefix(".").lstrip("/")


def _files(path: Path) -> Iterator[Held]:
    with path.open("rb") as file:
        begin = file.read(8)
        if begin.startswith(_RPM_MAGIC):
            yield from _of_rpm(file, path)
        elif begin.startswith(debian_package.MAGIC):
            yield from _of_tar(*package_files(file, path), path)
        else:
            file.seek(0)
            yield from _of_tar(*_tar(file.read, path), path)


def _of_tar(archive: tarfile.TarFile, inside: Unpacked, path: Path) -> Iterator[Held]:
    """Yield kernel files. Stop after boot/: Debian packs it before the modules, which take long to unpack."""
    seen = False
    for entry in archive:
        name = _place(entry.name)
        if entry.isfile() and _is_kernel_file(name):
            seen = seen or name.startswith("boot/")
            if entry.size > _LIMIT_BYTES:
                raise BadInput(f"{name} is larger than {_LIMIT_BYTES >> 20} MiB", file=str(path), hint=_UNPACK)
            inside.allow(entry.size)
            content = archive.extractfile(entry)
            yield Held(name, content.read() if content is not None else b"")
        elif seen and not name.startswith("boot"):
            return


def _of_rpm(file: IO[bytes], path: Path) -> Iterator[Held]:
    file.seek(0)
    head = file.read(_CONTENTS_LIMIT_BYTES)
    found = payload(head, str(path))
    if found.packing not in _PACKINGS:
        known = "ktrial reads gzip, xz, lzma, bzip2 and zstd"
        raise BadInput(f"cannot unpack {found.packing!r}: {known}", file=str(path), hint=_UNPACK)
    file.seek(found.offset)
    inside = Unpacked(packed.streamed(file.read, found.packing), path)
    for name, content in cpio.files(inside.take, _is_kernel_file, _LIMIT_BYTES, str(path)):
        yield Held(_place(name), content)


def package_files(file: IO[bytes], path: Path) -> tuple[tarfile.TarFile, Unpacked]:
    """Return the tar archive of the files that a Debian package installs, and the stream that the archive reads.

    `file` is the open package.
    """
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


class Payload(NamedTuple):
    """The archive in an RPM package: its offset and its compression, which is gzip, xz, lzma, bzip2 or zstd."""

    offset: int
    packing: str


def payload(data: bytes, source: str) -> Payload:
    """Locate the archive of files in an RPM package. Raise BadInput if `data` is truncated or has no cpio archive."""
    at = _RPM_LEAD_BYTES
    _, size = _rpm_section(data, at, source)
    at += size + -size % 8  # the signature is padded to 8 bytes
    words, size = _rpm_section(data, at, source)
    form = words.get(_PAYLOAD_FORMAT, "cpio")
    if form != "cpio":
        raise BadInput(
            f"cannot read its files: expected a cpio archive, got {form!r}",
            file=source,
            hint="download the complete package, not a delta",
        )
    return Payload(at + size, words.get(_PAYLOAD_PACKING, _RPM_PACKING))


def _rpm_section(data: bytes, at: int, source: str) -> tuple[dict[int, str], int]:
    """Return the strings about the payload in a header, by tag, and the header's size."""
    begin = data[at : at + _RPM_HEADER.size]
    if len(begin) < _RPM_HEADER.size or not begin.startswith(_RPM_HEADER_MAGIC):
        raise _damaged_rpm(f"no RPM header at byte {at}", source)
    _, entries, size = _RPM_HEADER.unpack(begin)
    store = at + _RPM_HEADER.size + entries * _RPM_ENTRY.size
    end = store + size
    if end > len(data):
        raise _damaged_rpm(f"the RPM header at byte {at} is incomplete", source)
    words = {}
    for number in range(entries):
        tag, kind, offset, _ = _RPM_ENTRY.unpack_from(data, at + _RPM_HEADER.size + number * _RPM_ENTRY.size)
        if tag in (_PAYLOAD_FORMAT, _PAYLOAD_PACKING) and kind == _RPM_STRING:
            stop = data.find(b"\0", store + offset, end)
            words[tag] = data[store + offset : stop if stop >= 0 else end].decode("ascii", "replace")
    return words, end - at


def _damaged_rpm(why: str, source: str) -> BadInput:
    return BadInput(f"truncated or damaged: {why}", file=source, hint="download the package again")
