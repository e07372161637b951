# SPDX-License-Identifier: Apache-2.0
"""Reader of the output of `vmstat N`, a row every N seconds. The first row is the mean since boot and is left out.

With `-t` each row has a time in an unknown zone; without it, the user must give the interval.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping

from ktrial.kit.errors import BadInput
from ktrial.kit.formats.tool_output import number, numbered, unreadable
from ktrial.recordings.model import Recording, SeriesKind
from ktrial.recordings.recording import Column, recording_of

_NEEDED = frozenset(("r", "b", "swpd", "free", "si", "so", "bi", "bo", "us", "sy", "id", "wa"))
#: Column -> series, unit, kind, factor.
_KNOWN: Mapping[str, tuple[str, str, SeriesKind, float]] = {
    "r": ("tasks.runnable", "count", "gauge", 1),
    "b": ("tasks.blocked", "count", "gauge", 1),
    "swpd": ("swap.used", "B", "gauge", 1024),
    "free": ("memory.free", "B", "gauge", 1024),
    "buff": ("memory.buffers", "B", "gauge", 1024),
    "cache": ("memory.cached", "B", "gauge", 1024),
    "si": ("swap.in", "B/s", "rate", 1024),
    "so": ("swap.out", "B/s", "rate", 1024),
    "bi": ("block.read", "B/s", "rate", 1024),
    "bo": ("block.written", "B/s", "rate", 1024),
    "in": ("cpu.interrupts", "1/s", "rate", 1),
    "cs": ("cpu.switches", "1/s", "rate", 1),
    "us": ("cpu.user", "ratio", "gauge", 0.01),
    "sy": ("cpu.system", "ratio", "gauge", 0.01),
    "id": ("cpu.idle", "ratio", "gauge", 0.01),
    "wa": ("cpu.iowait", "ratio", "gauge", 0.01),
    "st": ("cpu.steal", "ratio", "gauge", 0.01),
    "gu": ("cpu.guest", "ratio", "gauge", 0.01),
}
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)$", re.ASCII)


def is_vmstat(head: bytes) -> bool:
    return any(set(line.split()) >= _NEEDED for line in head.decode("utf-8", "replace").split("\n")[:5])


def read_vmstat(data: bytes, source: str = "vmstat", interval_s: float | None = None) -> Recording:
    """Return series of all known columns.

    Raise UnreadableOutput for other text, and BadInput if there are neither times nor an interval.
    """
    names: list[str] | None = None
    rows: list[list[float]] = []
    unix_s: list[float] = []
    skip = False
    for line, text in numbered(data, source):
        words = text.split()
        if set(words) >= _NEEDED:
            fresh = [word for word in words if word in _KNOWN]
            if names is not None and fresh != names:
                raise unreadable(source, line, text, "a header with the same columns as above")
            skip, names = names is None, fresh
            continue
        if names is None or not words or not words[0].isdecimal():
            if names is not None and words and not text.lstrip().startswith(("procs", "-")):
                raise unreadable(source, line, text, "a row of vmstat")
            continue
        stamp = _STAMP.search(text)
        cells = words[: len(words) - 2] if stamp else words
        if len(cells) != len(names):
            raise unreadable(source, line, text, f"a row of {len(names)} cells")
        if skip:
            skip = False
            continue
        rows.append([number(cell, source, line, names[place]) for place, cell in enumerate(cells)])
        if stamp:
            unix_s.append(_unix(stamp, source, line))
    if names is None:
        raise unreadable(source, None, "", "output of vmstat: it has no header")
    return _recording(source, names, rows, unix_s, interval_s)


def _unix(stamp: re.Match[str], source: str, line: int) -> float:
    year, month, day, hour, minute, second = map(int, stamp.groups())
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61 and year >= 1970):
        raise unreadable(source, line, stamp[0], "a valid date and time")
    return float(calendar.timegm((year, month, day, hour, minute, second)))


def _recording(
    source: str, names: list[str], rows: list[list[float]], unix_s: list[float], interval_s: float | None
) -> Recording:
    if not rows:
        raise unreadable(source, None, "", "a recording of vmstat: it has no row after the mean since boot")
    notes = ["vmstat: the first row is the mean since boot and left out"]
    if unix_s and len(unix_s) == len(rows):
        times_s = unix_s
        notes.append("vmstat -t: interpreted as UTC, because the output does not state its zone")
    elif interval_s is None:
        raise BadInput(
            "cannot read vmstat output, because the rows have no times",
            file=source,
            hint="name the time between two rows, for example  --interval 1s",
        )
    else:
        times_s = [place * interval_s for place in range(len(rows))]
    columns = [
        Column(name=name, unit=unit, kind=kind, values=[row[place] * factor for row in rows])
        for place, (name, unit, kind, factor) in enumerate(_KNOWN[column] for column in names)
    ]
    return recording_of(source, "vmstat", unix_s if times_s is unix_s else None, times_s, columns, notes=notes)
