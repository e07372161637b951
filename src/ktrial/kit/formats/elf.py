# SPDX-License-Identifier: Apache-2.0
"""Reader of ELF files: machine, sections, program interpreter, notes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from mmap import mmap

MAGIC = b"\x7fELF"
_MACHINES = {
    3: "i386",
    8: "mips",
    20: "powerpc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
_INTERPRETER = 3
_NO_BITS = 8
#: Classes of files: 64-bit and 32-bit.
_WIDE, _NARROW = 2, 1


class Section(NamedTuple):
    """A section: its name, its type and where its bytes are."""

    name: str
    type: int
    offset: int
    size: int


class Elf:
    """An ELF file in memory. Raise BadInput if the data are not an ELF file, or are truncated."""

    def __init__(self, data: bytes | mmap, name: str) -> None:
        self._data, self._name = data, name
        if data[:4] != MAGIC or len(data) < 20 or data[4] not in (_NARROW, _WIDE) or data[5] not in (1, 2):
            raise BadInput(
                f"not an ELF file: it begins with {data[:4].hex(' ') or 'nothing'}",
                file=name,
                hint="name a program, a vmlinux or another ELF file",
            )
        self._wide = data[4] == _WIDE
        self._order = "<" if data[5] == 1 else ">"
        (machine,) = self._words("H", 18)
        self.machine = _MACHINES.get(machine, f"machine {machine}")
        shape = "HHIQQQIHHHHHH" if self._wide else "HHIIIIIHHHHHH"
        head = self._words(shape, 16)
        self._programs = head[4], head[8], head[9]
        self.sections = tuple(self._sections(head[5], head[10], head[11], head[12]))

    def _words(self, shape: str, offset: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(self._order + shape, self._data, offset)
        except (struct.error, OverflowError):
            raise BadInput(
                f"cannot read the ELF headers at byte {offset}: the file is truncated or damaged",
                file=self._name,
                hint="copy or build the file again",
            ) from None

    def _sections(self, offset: int, size: int, count: int, names_at: int) -> Iterator[Section]:
        if not count or not offset:
            return
        shape = "IIQQQQ" if self._wide else "IIIIII"
        heads = [self._words(shape, offset + index * size) for index in range(count)]
        if names_at >= count:
            raise BadInput(
                f"the ELF file lacks section {names_at}, which should hold the names of all sections",
                file=self._name,
                hint="copy or build the file again",
            )
        start = heads[names_at][4]
        for head in heads:
            begin = min(start + head[0], len(self._data))
            end = self._data.find(b"\0", begin, begin + 256)
            yield Section(self._data[begin : max(begin, end)].decode("latin-1"), head[1], head[4], head[5])

    def section(self, name: str) -> bytes | None:
        """Return the bytes of the first section of that name; None if there is none."""
        for section in self.sections:
            if section.name == name and section.type != _NO_BITS:
                return self._data[section.offset : section.offset + section.size]
        return None

    @property
    def interpreter(self) -> str | None:
        """Return the path of the loader that the program names; None if the program names none."""
        offset, size, count = self._programs
        for index in range(count):
            if self._wide:
                kind, _, begin, _, _, length = self._words("IIQQQQ", offset + index * size)
            else:
                kind, begin, _, _, length = self._words("IIIII", offset + index * size)
            if kind == _INTERPRETER:
                return self._data[begin : begin + length].rstrip(b"\0").decode(errors="replace")
        return None

    def note(self, section: str, owner: str, kind: int) -> bytes | None:
        """Return the content of the section's first note of this `owner` and `kind`; None if there is none."""
        return note_in(self.section(section) or b"", owner, kind, self._order)


def note_in(data: bytes, owner: str, kind: int, order: str) -> bytes | None:
    """Return the content of the first note of this `owner` and `kind`, or None. The byte `order` is `<` or `>`."""
    at = 0
    while at + 12 <= len(data):
        names, size, found = struct.unpack_from(order + "III", data, at)
        name = data[at + 12 : at + 12 + names].rstrip(b"\0")
        content = at + 12 + (names + 3) // 4 * 4
        if name == owner.encode() and found == kind:
            return data[content : content + size]
        at = content + (size + 3) // 4 * 4
    return None
