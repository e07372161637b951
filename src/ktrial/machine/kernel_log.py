# SPDX-License-Identifier: Apache-2.0
r"""What the kernel said between two moments, and which of it may explain a number.

Lines of `/dev/kmsg` are `PRIORITY,NUMBER,MICROSECONDS,FLAGS[,…];TEXT`, then lines ` KEY=VALUE` that belong to the
record. The lower three bits of the priority are the severity. Bytes that are not printable ASCII stand as `\xNN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from ktrial.kit.errors import UnreadableOutput

SOURCE = "/dev/kmsg"
_RECORD = re.compile(r"(\d{1,6}),(\d{1,20}),(\d{1,20}),[^;]*;(.*)")
_ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")
_SEVERITY = 7


def read_kmsg(data: bytes) -> tuple[KernelRecord, ...]:
    """Return the records in order; none of an empty log. Raises UnreadableOutput for what is no record."""
    records: list[KernelRecord] = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        if not line or (line.startswith(" ") and records):
            continue
        found = _RECORD.fullmatch(line)
        if found is None:
            raise UnreadableOutput(SOURCE, number, line[:80], "a record PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT")
        priority, sequence, at_us, text = found.groups()
        records.append(KernelRecord(int(sequence), int(priority) & _SEVERITY, int(at_us), _plain(text)))
    return tuple(records)


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode("utf-8", "replace"), text)


Kind = Literal["oom-kill", "hung-task", "stall", "throttling", "io-error", "warning", "error"]
#: Severities of syslog: below `_WARNING` is worse.
_ERROR, _WARNING = 3, 4


class KernelRecord(msgspec.Struct, frozen=True):
    """One record of the kernel's log; `at_us` is its own clock, which stands still while the machine sleeps."""

    number: int
    level: int
    at_us: int
    text: str


class KernelLog(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the log: which numbers are there, and the records that were asked for, or why it cannot be read."""

    oldest: int | None = None
    newest: int | None = None
    records: tuple[KernelRecord, ...] = ()
    truncated: bool = False
    unreadable: str | None = None


class LogPattern(msgspec.Struct, frozen=True):
    """Lines that are of a kind, or (`kind` None) that say nothing about a measurement; `why` is the reason for that."""

    pattern: str
    kind: Kind | None = None
    why: str = ""


class KernelLine(msgspec.Struct, frozen=True):
    """A new line that matters."""

    kind: Kind
    number: int
    at_us: int
    text: str


class KernelLogDelta(msgspec.Struct, frozen=True, kw_only=True):
    """New lines that matter, the number of those that were passed over, and why there may have been more."""

    lines: tuple[KernelLine, ...] = ()
    passed_over: int = 0
    could_not_tell: str | None = None


def new_lines(before: KernelLog, after: KernelLog, patterns: Sequence[LogPattern]) -> KernelLogDelta:
    """Return what came between two looks. `after` holds the records newer than the newest of `before`."""
    unreadable = before.unreadable or after.unreadable
    if unreadable is not None:
        return KernelLogDelta(could_not_tell=f"the kernel's log cannot be read: {unreadable}")
    if _began_anew(before, after):
        return KernelLogDelta(could_not_tell="the log began anew: the machine was restarted")
    last = -1 if before.newest is None else before.newest
    fresh = [record for record in after.records if record.number > last]
    lost = after.oldest is not None and after.oldest > last + 1
    told = None
    if lost:
        told = "the log was overwritten: lines between the two looks are lost"
    elif after.truncated:
        told = "the log grew by more than can be looked through"
    lines = tuple(line for record in fresh if (line := _judge_line(record, patterns)) is not None)
    return KernelLogDelta(lines=lines, passed_over=len(fresh) - len(lines), could_not_tell=told)


def _began_anew(before: KernelLog, after: KernelLog) -> bool:
    if before.newest is None:
        return False
    return after.newest is None or after.newest < before.newest


def _judge_line(record: KernelRecord, patterns: Iterable[LogPattern]) -> KernelLine | None:
    """Return the first pattern that fits decides; without one the severity does."""
    for pattern in patterns:
        if re.search(pattern.pattern, record.text):
            return None if pattern.kind is None else _line(pattern.kind, record)
    if record.level <= _WARNING:
        return _line("error" if record.level <= _ERROR else "warning", record)
    return None


def _line(kind: Kind, record: KernelRecord) -> KernelLine:
    return KernelLine(kind, record.number, record.at_us, record.text)
