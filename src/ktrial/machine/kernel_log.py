# SPDX-License-Identifier: Apache-2.0
r"""Lines that the kernel logged between two moments, and which of them may explain a measurement.

A record of `/dev/kmsg` is `PRIORITY,NUMBER,MICROSECONDS,FLAGS[,…];TEXT`, then lines ` KEY=VALUE`. The lower three bits
of the priority are the severity. Bytes other than printable ASCII appear as `\xNN`.
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
    """A record of the kernel's log; `at_us` is the log's clock, which stops while the machine sleeps."""

    number: int
    level: int
    at_us: int
    text: str


class KernelLog(msgspec.Struct, frozen=True, kw_only=True):
    """The log at one moment: oldest and newest record numbers, requested records, or why it is unreadable."""

    oldest: int | None = None
    newest: int | None = None
    records: tuple[KernelRecord, ...] = ()
    truncated: bool = False
    unreadable: str | None = None


class LogPattern(msgspec.Struct, frozen=True):
    """A pattern for log lines of one `kind`. If `kind` is None, the lines affect no measurement; `why` says why."""

    pattern: str
    kind: Kind | None = None
    why: str = ""


class KernelLine(msgspec.Struct, frozen=True):
    """A new line that may explain a measurement."""

    kind: Kind
    number: int
    at_us: int
    text: str


class KernelLogDelta(msgspec.Struct, frozen=True, kw_only=True):
    """New lines that may explain a measurement, the number of other lines, and why lines may be missing."""

    lines: tuple[KernelLine, ...] = ()
    passed_over: int = 0
    could_not_tell: str | None = None


def new_lines(before: KernelLog, after: KernelLog, patterns: Sequence[LogPattern]) -> KernelLogDelta:
    """Classify the lines logged between two moments; `after` holds the records since the newest record of `before`."""
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
        problem = "the kernel's log was overwritten: some of the new lines are lost"
    elif after.truncated:
        problem = "the kernel's log grew too fast to be read completely"
    lines = tuple(line for record in fresh if (line := _judge_line(record, patterns)) is not None)
    return KernelLogDelta(lines=lines, passed_over=len(fresh) - len(lines), could_not_tell=problem)


def _judge_line(record: KernelRecord, patterns: Iterable[LogPattern]) -> KernelLine | None:
    """Classify a line by the first matching pattern; without a match, by its severity. None if it is harmless."""
    for pattern in patterns:
        if re.search(pattern.pattern, record.text):
            return None if pattern.kind is None else _line(pattern.kind, record)
    if record.level <= _WARNING:
        return _line("error" if record.level <= _ERROR else "warning", record)
    return None


def _line(kind: Kind, record: KernelRecord) -> KernelLine:
    return KernelLine(kind, record.number, record.at_us, record.text)
