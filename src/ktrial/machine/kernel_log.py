# SPDX-License-Identifier: Apache-2.0
r"""What the kernel logged between two moments, and which lines may explain a measurement.

Lines of `/dev/kmsg` are `PRIORITY,NUMBER,MICROSECONDS,FLAGS[,…];TEXT`, followed by lines ` KEY=VALUE` of the same
record. The lower three bits of the priority are the severity. Bytes other than printable ASCII appear as `\xNN`.
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
#: Severities of syslog: lower is worse.
_ERROR, _WARNING = 3, 4


class KernelRecord(msgspec.Struct, frozen=True):
    """One record of the kernel's log; `at_us` is its own clock, which stops while the machine sleeps."""

    number: int
    level: int
    at_us: int
    text: str


class KernelLog(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the log: its oldest and newest record number, the requested records, or why it is unreadable."""

    oldest: int | None = None
    newest: int | None = None
    records: tuple[KernelRecord, ...] = ()
    truncated: bool = False
    unreadable: str | None = None


class LogPattern(msgspec.Struct, frozen=True):
    """Matches lines of a kind, or (`kind` None) lines that don't affect a measurement; `why` explains that."""

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
    """New lines that matter, the number of ignored ones, and why there may have been more."""

    lines: tuple[KernelLine, ...] = ()
    passed_over: int = 0
    could_not_tell: str | None = None


def new_lines(before: KernelLog, after: KernelLog, patterns: Sequence[LogPattern]) -> KernelLogDelta:
    """Return what was logged between two looks. `after` holds the records newer than the newest of `before`."""
    unreadable = before.unreadable or after.unreadable
    if unreadable is not None:
        return KernelLogDelta(could_not_tell=f"cannot read the kernel's log: {unreadable}")
    if before.newest is not None and (after.newest is None or after.newest < before.newest):
        return KernelLogDelta(could_not_tell="the kernel's log restarted: the machine was rebooted")
    last = -1 if before.newest is None else before.newest
    fresh = [record for record in after.records if record.number > last]
    lost = after.oldest is not None and after.oldest > last + 1
    problem = None
    if lost:
        problem = "the kernel's log was overwritten: lines between the two looks are lost"
    elif after.truncated:
        problem = "the kernel's log grew too fast to be read completely"
    lines = tuple(line for record in fresh if (line := _judge_line(record, patterns)) is not None)
    return KernelLogDelta(lines=lines, passed_over=len(fresh) - len(lines), could_not_tell=problem)


def _judge_line(record: KernelRecord, patterns: Iterable[LogPattern]) -> KernelLine | None:
    """Classify a line by the first matching pattern, or else by its severity."""
    for pattern in patterns:
        if re.search(pattern.pattern, record.text):
            return None if pattern.kind is None else _line(pattern.kind, record)
    if record.level <= _WARNING:
        return _line("error" if record.level <= _ERROR else "warning", record)
    return None


def _line(kind: Kind, record: KernelRecord) -> KernelLine:
    return KernelLine(kind, record.number, record.at_us, record.text)
