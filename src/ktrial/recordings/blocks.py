# SPDX-License-Identifier: Apache-2.0
"""Blocks of `ktrial.recording/1` for sources that the head reads, to append to the blocks of an agent."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from struct import Struct, pack
from typing import Literal

import msgspec

from ktrial.machine.sensors import Sensor

#: Header of every block (length, checksum) and of blocks of samples (group, rows, columns).
BLOCK = Struct("<II")
ROWS = Struct("<III")
#: First group number of the head; agents use small numbers.
FIRST_OWN_GROUP = 1 << 20
_WRAP = 2**64
_HALF = 2**63


class OwnSource(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a source that the head reads; `why` explains a failure or absence."""

    source: str
    state: Literal["active", "failed", "absent"]
    why: str | None = None
    period_ns: int | None = None
    taken: int = 0
    late_ns: int = 0
    cpu_ns: int = 0


def block(holds: bytes, content: bytes) -> bytes:
    packed = holds + zlib.compress(content)
    return BLOCK.pack(len(packed), zlib.crc32(packed)) + packed


def layout_block(group: int, source: str, columns: dict[str, Sensor]) -> bytes:
    """Return a block that defines the columns of a group from here on."""
    return block(b"L", msgspec.json.encode({"group": group, "source": source, "columns": columns}))


def rows_block(group: int, times_ns: Sequence[int], rows: Sequence[Sequence[int]]) -> bytes:
    """Return a block of samples, one row for each time, stored by column as differences."""
    columns = [list(times_ns), *(list(column) for column in zip(*rows, strict=True))]
    steps: list[int] = []
    for column in columns:
        before = 0
        for value in column:
            steps.append((value - before + _HALF) % _WRAP - _HALF)
            before = value
    head = ROWS.pack(group, len(times_ns), len(columns) - 1)
    return block(b"S", head + pack(f"<{len(steps)}q", *steps))


def source_block(source: OwnSource) -> bytes:
    """Return a block with the current state of a source. Readers use the last block of each source."""
    return block(b"N", msgspec.json.encode(source))
