# SPDX-License-Identifier: Apache-2.0
"""Makes recordings in the agent's format from plain values."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

START_NS = 5_000_000_000
HEAD: dict[str, Any] = {
    "schema": "ktrial.recording/1",
    "started_ns": START_NS,
    "unix_at_zero_ns": 1_700_000_000_000_000_000,
    "clock_error_ns": 600,
    "period_ns": {"pressure": 100_000_000, "wakeup": 16_666_667, "clocks": 1_000_000_000, "trace": 100_000_000},
    "absent": {"gpu": "no graphics card tells anything in sysfs"},
    "kernel": "6.18.44",
    "cpus": 2,
}
TRACE: dict[str, Any] = {
    "read": 40,
    "handed_out": 40,
    "lost": 0,
    "strange": 0,
    "damaged": 0,
    "damage": None,
    "blind": None,
    "cut": {},
    "counts": {"direct-reclaim": {"count": 2, "time_ns": 9_000_000, "longest_ns": 5_000_000}},
    "checks": [{"what": "direct-reclaim", "counter": "vmstat.allocstall", "seen": 2, "counted": 2}],
    "absent": {"tracepoints": {}, "kinds": []},
    "clock_error_ns": 2000,
}
TAIL: dict[str, Any] = {
    "ended": "limit",
    "started_ns": START_NS,
    "wall_ns": 2_000_000_000,
    "cpu_ns": 10_000_000,
    "bytes": 1000,
    "sources": {"pressure": {"taken": 3, "late_ns": 100, "cpu_ns": 5000}},
    "trace": TRACE,
    "dropped": 0,
}


def block(holds: str, content: bytes | Mapping[str, Any]) -> bytes:
    """Return a block with its length and checksum."""
    text = content if isinstance(content, bytes) else msgspec.json.encode(content)
    packed = holds.encode() + zlib.compress(text)
    return struct.pack("<II", len(packed), zlib.crc32(packed)) + packed


def layout(group: int, source: str, columns: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the columns of a group."""
    return block("L", {"group": group, "source": source, "columns": columns})


def samples(group: int, times_ns: Sequence[int], columns: Sequence[Sequence[int]]) -> bytes:
    """Return rows of a group."""
    content = struct.pack("<III", group, len(times_ns), len(columns))
    for values in (times_ns, *columns):
        before = 0
        for value in values:
            step = (value - before + 2**63) % 2**64 - 2**63
            content += struct.pack("<q", step)
            before = value
    return block("S", content)


def events(*told: Mapping[str, Any]) -> bytes:
    """Return lines of events."""
    return block("E", b"\n".join(msgspec.json.encode(one) for one in told))


def recording(*blocks: bytes, head: Mapping[str, Any] = HEAD, tail: Mapping[str, Any] | None = TAIL) -> bytes:
    """Return a whole recording, or one without its end."""
    ends = [] if tail is None else [block("T", tail)]
    return b"".join((b"ktrial.recording/1\n", block("H", head), *blocks, *ends))
