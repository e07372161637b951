# SPDX-License-Identifier: Apache-2.0
"""The files of the micro-stutter suite: tables whose first column is the epoch second, and lines of a reclaim tracer.

`mem.csv` and its like hold the kernel's own names or the suite's; a column becomes `<file>.<column>`, those of
/proc/vmstat and /proc/meminfo get their usual series. A tracer's line is
`15:26:13 pid=27901 comm=Main Thread reclaim_us=4173 nr_reclaimed=343`: names may hold blanks and `=`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import isnan, nan

from ktrial.domain.recording import Event, Recording, SeriesKind, Source
from ktrial.formats.recording import Column, recording_of
from ktrial.formats.tidy_csv import read_tidy_csv
from ktrial.formats.tool_output import number, numbered, unreadable

_STEMS = ("mem", "vmstat", "psi", "io", "cpu")
#: 2001 to 2100: what an epoch second of a recording looks like.
_EPOCHS = (1e9, 4.1e9)
_MEMINFO = {
    "memfree": "memory.free",
    "memavailable": "memory.available",
    "dirty": "memory.dirty",
    "writeback": "memory.writeback",
    "swapused": "swap.used",
    "cached": "memory.cached",
    "buffers": "memory.buffers",
    "anonpages": "memory.anonymous",
}
_UNITS = {"_kb": 1024.0, "_mb": 2.0**20, "_gb": 2.0**30, "_bytes": 1.0, "_kib": 1024.0, "_mib": 2.0**20}
_LINE = re.compile(
    r"(?P<at>\d\d:\d\d:\d\d) pid=(?P<pid>\d{1,10}) comm=(?P<thread>.*?) reclaim_us=(?P<us>\d{1,12})"
    r"(?: nr_reclaimed=(?P<pages>\d{1,15}))?",
    re.ASCII,
)
RECLAIM = "reclaim trace"
_DAY_S = 86400.0


def is_suite_table(head: bytes, name: str) -> bool:
    """Whether this is one of the suite's tables, by its name and its first row."""
    stem = _stem(name)
    lines = head.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    first = lines[1].split(",")[0].strip() if len(lines) > 1 else ""
    return stem is not None and re.fullmatch(r"\d{10}(\.\d+)?", first) is not None


def is_reclaim_lines(head: bytes) -> bool:
    """Whether a line of the tracer stands within the first ones; a tracer prints words of its own before them."""
    return any(_LINE.search(line) for line in head.decode("utf-8", "replace").split("\n")[:50])


def read_suite_table(data: bytes, source: str) -> Recording:
    """Every column as a series. Raises UnreadableOutput; an empty cell is a missing value, never 0."""
    stem = _stem(source) or source.rsplit("/", 1)[-1].rsplit(".", 1)[0].lower()
    table = read_tidy_csv(data, source)
    if len(table.columns) < 2:
        raise unreadable(source, 1, table.columns[0], "a table of times and values: it has one column")
    unix_s = [number(row.cells[0], source, row.line, "seconds since 1970") for row in table.rows]
    if not all(_EPOCHS[0] <= one <= _EPOCHS[1] for one in unix_s):
        raise unreadable(source, table.rows[0].line, table.rows[0].cells[0], "seconds since 1970 (2001 to 2100)")
    columns: list[Column] = []
    notes: list[str] = []
    unread: list[str] = []
    for place, title in enumerate(table.columns[1:], start=1):
        cells = [row.cells[place].strip() for row in table.rows]
        if not any(re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", cell) for cell in cells):
            unread.append(title)
            continue
        values = [
            nan if not cell else number(cell, source, row.line, title)
            for cell, row in zip(cells, table.rows, strict=True)
        ]
        columns.append(_column(stem, title, values, notes))
    if unread:
        notes.append(f"{source}: without numbers, left out: {', '.join(unread)}")
    return recording_of(source, f"suite {stem}", unix_s, unix_s, columns, notes=notes)


def read_reclaim_lines(data: bytes, source: str) -> Recording:
    """Events of direct reclaim on a clock of its own: seconds since midnight of the first line's day, in its zone."""
    events: list[Event] = []
    days, last = 0, -1.0
    for line, text in numbered(data, source):
        match = _LINE.fullmatch(text.strip())
        if match is None:
            if "reclaim_us" in text or "pid=" in text:
                raise unreadable(source, line, text, "HH:MM:SS pid=N comm=NAME reclaim_us=N nr_reclaimed=N")
            continue
        hour, minute, second = map(int, match["at"].split(":"))
        if hour > 23 or minute > 59 or second > 60:
            raise unreadable(source, line, match["at"], "a time of day")
        moment = hour * 3600.0 + minute * 60 + second
        days += last - moment > _DAY_S / 2
        last = moment
        duration_s = int(match["us"]) / 1e6
        pages = None if match["pages"] is None else float(match["pages"])
        events.append(
            Event(
                kind="direct-reclaim",
                source=RECLAIM,
                begin_s=moment + days * _DAY_S - duration_s,
                duration_s=duration_s,
                pid=int(match["pid"]),
                thread=match["thread"],
                amount=pages,
            )
        )
    if not events:
        raise unreadable(source, None, "its text", "lines of a reclaim tracer: none matches, which is not 'no reclaim'")
    events.sort(key=lambda event: event.begin_s)
    return Recording(
        name=source,
        begin_s=events[0].begin_s,
        end_s=max(event.begin_s + (event.duration_s or 0.0) for event in events),
        clock_error_s=1.0,
        sources=(Source(name=RECLAIM, state="active", seen=len(events)),),
        events=tuple(events),
        notes=("reclaim lines tell whole seconds of a day: moments are sure to within 1 s",),
    )


def _stem(name: str) -> str | None:
    base = name.rsplit("/", 1)[-1].lower()
    return next((stem for stem in _STEMS if re.fullmatch(rf"(?:.*[-_.])?{stem}(?:[-_.].*)?\.csv", base)), None)


def _column(stem: str, title: str, values: Sequence[float], notes: list[str]) -> Column:
    low = re.sub(r"[^a-z0-9_.%/-]+", "_", title.strip().lower())
    unit = next((ending for ending in _UNITS if low.endswith(ending)), None)
    plain = low.removesuffix(unit) if unit else low
    if plain.replace("_", "") in _MEMINFO:
        factor = _UNITS[unit] if unit else 1024.0
        return Column(
            name=_MEMINFO[plain.replace("_", "")], unit="B", kind="gauge", values=[v * factor for v in values]
        )
    if stem == "vmstat":
        return Column(name=f"vmstat.{plain}", unit="pages", kind=_kind(plain, values, notes), values=values)
    if stem == "cpu" and plain.strip("%") in {"user", "usr", "sys", "system", "iowait", "steal", "idle"}:
        known = {"usr": "user", "sys": "system"}
        bare = plain.strip("%")
        return Column(name=f"cpu.{known.get(bare, bare)}", unit="ratio", kind="gauge", values=[v / 100 for v in values])
    if stem == "psi" and (match := re.fullmatch(r"(mem|memory|cpu|io)_(some|full)(_avg10)?", plain)):
        area = {"mem": "memory"}.get(match[1], match[1])
        return Column(name=f"pressure.{area}.{match[2]}", unit="ratio", kind="gauge", values=[v / 100 for v in values])
    if stem == "io" and plain in {"w_await", "r_await", "await"}:
        return Column(name=f"disks.all.{plain}", unit="s", kind="gauge", values=[v / 1000 for v in values])
    return Column(name=f"{stem}.{plain}", unit="1", kind="gauge", values=values)


def _kind(name: str, values: Sequence[float], notes: list[str]) -> SeriesKind:
    if name.startswith("nr_"):
        return "gauge"
    known = [value for value in values if not isnan(value)]
    if any(after < before for before, after in pairwise(known)):
        notes.append(f"vmstat.{name} falls at times: taken as growth a second, not as a counter")
        return "rate"
    return "counter"
