# SPDX-License-Identifier: Apache-2.0
"""A Debian package (`.deb`): the `ar` archive that holds two packed `tar` archives."""

from __future__ import annotations

from typing import NamedTuple

from ktrial.kit.errors import BadInput

MAGIC = b"!<arch>\n"
#: Of each member: name, times and owner, size, end.
HEADER_BYTES = 60
_SIZE = slice(48, 58)
_END = b"`\n"


class ArchiveMember(NamedTuple):
    """A member of the archive: its name, where its bytes begin, how many they are."""

    name: str
    offset: int
    size: int

    @property
    def next(self) -> int:
        return self.offset + self.size + self.size % 2


def member(header: bytes, offset: int, source: str) -> ArchiveMember:
    """Return the member whose header this is; `offset` is where the header begins."""
    size = header[_SIZE].strip()
    if len(header) != HEADER_BYTES or not header.endswith(_END) or not size.isdigit():
        raise BadInput(
            f"at byte {offset} the header of a member of an ar archive is wanted",
            file=source,
            hint="it is cut off or damaged: download it anew",
        )
    name = header[:16].decode("latin-1").strip().rstrip("/")
    return ArchiveMember(name, offset + HEADER_BYTES, int(size))
