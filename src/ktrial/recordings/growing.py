# SPDX-License-Identifier: Apache-2.0
"""Wake-ups and events of a growing recording, from the latest blocks."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from ktrial.kit.formats.tool_output import unreadable
from ktrial.recordings.ktrial_blocks import MAGIC, BlockLayout, Blocks, contents, numbers
from ktrial.recordings.watching import TracedEvent

_LATE = "wakeup.late"
#: The agent's reason if events were not requested.
_NOT_ASKED = "not asked for"
_LATEST_NS = 3_600_000_000_000


class Grown(msgspec.Struct, frozen=True, kw_only=True):
    """New data: end and duration of each wake-up on the monotonic clock, and events."""

    ends_ns: tuple[int, ...] = ()
    durations_ns: tuple[int, ...] = ()
    events: tuple[TracedEvent, ...] = ()


class GrowingRecording:
    """Decodes whole blocks from an agent, and keeps only their layouts."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._began = False

    @property
    def started_ns(self) -> int | None:
        """The monotonic time when the recording began; None until its header has arrived."""
        return None if self._blocks.head is None else self._blocks.head.started_ns

    @property
    def why_untraced(self) -> str | None:
        """Why requested events are not traced; otherwise None, and also None until the header has arrived."""
        why = None if self._blocks.head is None else self._blocks.head.absent.get("trace")
        return None if why == _NOT_ASKED else why

    def feed(self, data: bytes) -> Grown:
        """Return the content of these blocks. Raise UnreadableOutput if they are malformed."""
        at = 0 if self._began or not data.startswith(MAGIC) else len(MAGIC)
        self._began = True
        blocks = self._blocks
        try:
            for holds, content in contents(data, at):
                blocks.take(holds, content)
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            raise unreadable("the recording", None, "", f"valid blocks of a recording ({error})") from None
        events, blocks.events = tuple(blocks.events), []
        rows = [part for parts in blocks.rows.values() for part in parts if part[0].source == "wakeup"]
        blocks.rows.clear()
        ends_ns, durations_ns = self._wake_ups(rows)
        return Grown(ends_ns=ends_ns, durations_ns=durations_ns, events=events)

    def _wake_ups(self, rows: Sequence[tuple[BlockLayout, bytes]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        period_ns = None if self._blocks.head is None else self._blocks.head.period_ns.get("wakeup")
        if period_ns is None:
            return (), ()
        ends: list[int] = []
        durations: list[int] = []
        for layout, content in rows:
            place = list(layout.columns).index(_LATE) + 1 if _LATE in layout.columns else 0
            table = numbers(content).tolist()
            if not place:
                continue
            for due_ns, late_ns in zip(table[0], table[place], strict=True):
                if 0 <= late_ns < _LATEST_NS:
                    ends.append(due_ns + late_ns)
                    durations.append(period_ns + late_ns)
        return tuple(ends), tuple(durations)
