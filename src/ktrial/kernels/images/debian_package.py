# SPDX-License-Identifier: Apache-2.0
"""Debian packages (`.deb`): an `ar` archive that contains two compressed `tar` archives."""

from __future__ import annotations

from typing import NamedTuple

from ktrial.kit.errors import BadInput

MAGIC = b"!<arch>\n"
#: A member's header: name, time, owner, size, end mark.
HEADER_BYTES = 60
_SIZE = slice(48, 58)
_END = b"`\n"


class ArchiveMember(NamedTuple):
    """A member of the archive, whose content begins at `offset`."""

    name: str
    offset: int
    size: int

    @property
    def next(self) -> int:
        return self.offset + self.size + self.size % 2


def member(header: bytes, offset: int, source: str) -> ArchiveMember:
    """Return the member that a header describes; `offset` is the header's place in the file."""
    size = header[_SIZE].strip()
    if len(header) != HEADER_BYTES or not header.endswith(_END) or not size.isdigit():
        raise BadInput(
            f"truncated or damaged: no ar member header at byte {offset}",
            file=source,
            hint="download the package again",
        )
    name = header[:16].decode("latin-1").strip().rstrip("/")
    return ArchiveMember(name, offset + HEADER_BYTES, int(size))
