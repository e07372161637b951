# SPDX-License-Identifier: Apache-2.0
"""The blocks of `ktrial.recording/1` and their content, up to the first damaged block."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.kit.formats.tool_output import unreadable
from ktrial.kit.json_strict import decode_as
from ktrial.machine.sensors import Sensor
from ktrial.recordings.blocks import BLOCK, ROWS, OwnSource
from ktrial.recordings.latency import PowerState
from ktrial.recordings.model import GroupLimits
from ktrial.recordings.usage import LOOK, UsageLook
from ktrial.recordings.watching import TracedEvent, WatchEnded

if TYPE_CHECKING:
    import numpy as np

MAGIC = b"ktrial.recording/1\n"
#: Larger block contents are damage.
_MOST_BYTES = 1 << 28
_EVENT = msgspec.json.Decoder(TracedEvent)


class Sleeper(msgspec.Struct):
    """The power states of a disk's controller. `apst` means that the controller enters them on its own."""

    apst: bool | None = None
    power_states: tuple[PowerState, ...] | None = None


class Head(msgspec.Struct):
    """The header of a recording: everything known at its beginning."""

    started_ns: int
    unix_at_zero_ns: int
    clock_error_ns: int
    period_ns: dict[str, int]
    absent: dict[str, str]
    kernel: str | None = None
    architecture: str | None = None
    cpus: int | None = None
    boot_id: str | None = None
    process: int | None = None
    command: tuple[str, ...] | None = None
    frame_thread: int | None = None
    nvme: dict[str, Sleeper] = {}
    groups: tuple[GroupLimits, ...] = ()


class BlockLayout(msgspec.Struct):
    """The columns of a group, valid for the following blocks of samples."""

    group: int
    source: str
    columns: dict[str, Sensor]


class Blocks:
    """The collected content of a recording's blocks."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.tail: WatchEnded | None = None
        self.layouts: dict[int, BlockLayout] = {}
        self.rows: dict[int, list[tuple[BlockLayout, bytes]]] = {}
        self.events: list[TracedEvent] = []
        self.looks: list[UsageLook] = []
        self.own: dict[str, OwnSource] = {}
        self.cut: str | None = None

    def take(self, holds: bytes, content: bytes) -> None:
        """Add a block; `holds` is the letter of its kind. Raise ValueError or MsgspecError for malformed content."""
        if holds == b"H":
            self.head = decode_as(content, Head)
        elif holds == b"L":
            layout = decode_as(content, BlockLayout)
            self.layouts[layout.group] = layout
        elif holds == b"S":
            group, rows, width = ROWS.unpack_from(content) if len(content) >= ROWS.size else (0, 0, 0)
            known = self.layouts.get(group)
            if known is None or width != len(known.columns) or len(content) != ROWS.size + rows * (width + 1) * 8:
                raise ValueError(f"samples do not match the columns that the file declares for group {group}")
            self.rows.setdefault(group, []).append((known, content))
        elif holds == b"E":
            self.events += [decode_as(line, _EVENT) for line in content.split(b"\n")]
        elif holds == b"U":
            self.looks += [decode_as(line, LOOK) for line in content.split(b"\n")]
        elif holds == b"N":
            own = decode_as(content, OwnSource)
            self.own[own.source] = own
        elif holds == b"T":
            self.tail = decode_as(content, WatchEnded)


def read_blocks(data: bytes, name: str) -> Blocks:
    """Return all blocks up to the first damaged block; `cut` describes the damage."""
    blocks = Blocks()
    try:
        for holds, content in contents(data, len(MAGIC)):
            blocks.take(holds, content)
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        # The start of the next block cannot be found after a damaged one.
        blocks.cut = f"{name} is cut off or damaged: {error}"
    return blocks


def head_of(data: bytes, name: str = "the recording") -> Head:
    """Return the header of a recording. Raise UnreadableOutput if it is unreadable."""
    head = read_blocks(data, name).head if data.startswith(MAGIC) else None
    if head is None:
        raise unreadable(name, None, "", "a recording: its header is missing")
    return head


def contents(data: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the letter and the content of each block from byte `at` on.

    Raise ValueError or zlib.error for a damaged block.
    """
    while at < len(data):
        if at + BLOCK.size > len(data):
            raise ValueError(f"the block at byte {at} is incomplete")
        length, checksum = BLOCK.unpack_from(data, at)
        packed = data[at + BLOCK.size : at + BLOCK.size + length]
        if not length:
            raise ValueError(f"the block at byte {at} is empty")
        if len(packed) < length:
            raise ValueError(f"the block at byte {at} has only {len(packed)} of its {length} bytes")
        if zlib.crc32(packed) != checksum:
            raise ValueError(f"the checksum of the block at byte {at} is wrong")
        opened = zlib.decompressobj()
        content = opened.decompress(packed[1:], _MOST_BYTES)
        if not opened.eof:
            raise ValueError(f"the block at byte {at} is incomplete, or unpacks to more than {_MOST_BYTES >> 20} MiB")
        yield packed[:1], content
        at += BLOCK.size + length


def numbers(content: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the times and the columns of a block of samples, each as a row of numbers, from the stored differences."""
    import numpy as np

    _, rows, width = ROWS.unpack_from(content)
    steps = np.frombuffer(content, "<i8", offset=ROWS.size).reshape(width + 1, rows)
    return np.cumsum(steps, axis=1, dtype=np.int64)
