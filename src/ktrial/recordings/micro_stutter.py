# SPDX-License-Identifier: Apache-2.0
"""Reader of the tables of the micro-stutter suite, which are CSV files whose first column is seconds since 1970.

The suite is not part of ktrial. It belongs to the case study `micro-stutter` in the sources of the catalog.

A column becomes the series `<file>.<column>`, or the usual series if the kernel or other readers have a name for it.
A table with several rows for each moment is split by device or process. In a table by CPU, only the rows for all CPUs
together count.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isnan, nan
from types import MappingProxyType

from ktrial.kit.formats.tidy_csv import Row, TidyTable, read_tidy_csv
from ktrial.kit.formats.tool_output import number, unreadable
from ktrial.recordings.frames.samples import is_telemetry
from ktrial.recordings.model import Frames, Recording, SeriesKind, Source, Usage
from ktrial.recordings.recording import Column, recording_of

_STEMS = ("mem", "vmstat", "psi", "io", "cpu", "freq", "vram", "proc", "xplane_telemetry")
#: The column that distinguishes the rows of one moment.
_LONG: Mapping[str, str] = MappingProxyType({"cpu": "cpu_id", "io": "device", "proc": "pid"})
_ALL = "all"
#: Plausible epoch seconds: 2001 to 2100.
_EPOCHS = (1e9, 4.1e9)
_MEMINFO: Mapping[str, str] = MappingProxyType(
    {
        "memfree": "memory.free",
        "free": "memory.free",
        "memavailable": "memory.available",
        "available": "memory.available",
        "used": "memory.used",
        "total": "memory.total",
        "dirty": "memory.dirty",
        "writeback": "memory.writeback",
        "swapused": "swap.used",
        "swapfree": "swap.free",
        "cached": "memory.cached",
        "buffers": "memory.buffers",
        "anonpages": "memory.anonymous",
    }
)
_UNITS = {"_kb": 1024.0, "_mb": 2.0**20, "_gb": 2.0**30, "_bytes": 1.0, "_kib": 1024.0, "_mib": 2.0**20}
#: The suite's short names, and the kernel's names.
_VMSTAT: Mapping[str, str] = MappingProxyType(
    {
        "wset_refault_anon": "workingset_refault_anon",
        "wset_refault_file": "workingset_refault_file",
        "tlb_shootdown": "nr_tlb_remote_flush",
    }
)
_CPU = {"user", "system", "iowait", "steal", "idle", "irq", "softirq", "guest"}
#: Columns for each device: series, unit, and factor.
_DISK: Mapping[str, tuple[str, str, float]] = MappingProxyType(
    {
        "await": ("await", "s", 1e-3),
        "r_await": ("r_await", "s", 1e-3),
        "w_await": ("w_await", "s", 1e-3),
        "avg_r_lat_ms": ("r_await", "s", 1e-3),
        "avg_w_lat_ms": ("w_await", "s", 1e-3),
        "r_per_s": ("reads", "1/s", 1.0),
        "w_per_s": ("writes", "1/s", 1.0),
        "rmb_per_s": ("read", "B/s", 2.0**20),
        "wmb_per_s": ("written", "B/s", 2.0**20),
        "io_util_pct": ("busy", "ratio", 0.01),
        "ios_in_progress": ("in_flight", "1", 1.0),
    }
)
_GPU: Mapping[str, tuple[str, str, float]] = MappingProxyType(
    {
        "gpu_util_pct": ("busy", "ratio", 0.01),
        "mem_used_mib": ("vram_used", "B", 2.0**20),
        "mem_total_mib": ("vram_total", "B", 2.0**20),
        "power_w": ("power", "W", 1.0),
    }
)
_NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?")


def is_suite_table(head: bytes, name: str) -> bool:
    """Return whether the first row, and the file's name or header, fit a table of the suite."""
    lines = head.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    first = lines[1].split(",")[0].strip() if len(lines) > 1 else ""
    known = _stem(name) is not None or is_telemetry(head)
    return known and re.fullmatch(r"\d{10}(\.\d+)?", first) is not None


def read_suite_table(data: bytes, source: str) -> Recording:
    """Return every column as a series; an empty cell is a missing value, never 0.

    Raise UnreadableOutput for other files.
    """
    stem = _stem(source) or source.rsplit("/", 1)[-1].rsplit(".", 1)[0].lower()
    table = read_tidy_csv(data, source)
    if len(table.columns) < 2:
        raise unreadable(source, 1, table.columns[0], "a table of times and values: it has one column")
    unix_s = [number(row.cells[0], source, row.line, "seconds since 1970") for row in table.rows]
    for row, one in zip(table.rows, unix_s, strict=True):
        if not _EPOCHS[0] <= one <= _EPOCHS[1]:
            raise unreadable(source, row.line, row.cells[0], "seconds since 1970, in the years 2001 to 2100")
    if is_telemetry(data):
        return _telemetry(table, unix_s, source)
    key = _LONG.get(stem)
    if key is None or key not in table.columns:
        columns, notes = _columns(stem, table, table.rows, source)
        return recording_of(source, f"suite {stem}", unix_s, unix_s, columns, notes=notes)
    groups = _groups(table, unix_s, table.columns.index(key))
    if stem == "proc":
        return _processes(table, groups, sorted(set(unix_s)), source)
    return _taken_apart(stem, table, groups, sorted(set(unix_s)), source)


def _stem(name: str) -> str | None:
    base = name.rsplit("/", 1)[-1].lower()
    return next((stem for stem in _STEMS if re.fullmatch(rf"(?:.*[-_.])?{stem}(?:[-_.].*)?\.csv", base)), None)


def _columns(
    stem: str, table: TidyTable, rows: Sequence[Row], source: str, name: str = _ALL
) -> tuple[list[Column], list[str]]:
    columns: list[Column] = []
    notes: list[str] = []
    unread: list[str] = []
    for place, title in enumerate(table.columns[1:], start=1):
        cells = [row.cells[place].strip() for row in rows]
        if title == _LONG.get(stem):
            continue
        if not any(map(_NUMBER.fullmatch, cells)):
            unread.append(title)
            continue
        values = [
            nan if not cell else number(cell, source, row.line, title) for cell, row in zip(cells, rows, strict=True)
        ]
        columns.append(_column(stem, title, values, notes, name))
    if unread:
        notes.append(f"{source}: columns without numbers left out: {', '.join(unread)}")
    return columns, notes


def _groups(table: TidyTable, unix_s: Sequence[float], place: int) -> dict[str, dict[float, Row]]:
    found: dict[str, dict[float, Row]] = {}
    for row, moment_s in zip(table.rows, unix_s, strict=True):
        found.setdefault(row.cells[place].strip(), {})[moment_s] = row
    return found


def _taken_apart(
    stem: str, table: TidyTable, groups: Mapping[str, Mapping[float, Row]], moments: Sequence[float], source: str
) -> Recording:
    """Return series of each device, or of all CPUs together, with missing values for absent devices."""
    if stem == "cpu" and _ALL not in groups:
        raise unreadable(source, None, "", f"a table with a row {_ALL!r} for all CPUs at each moment")
    columns: list[Column] = []
    notes: list[str] = []
    empty = Row(0, ("",) * len(table.columns))
    for name, by_moment in groups.items():
        if stem == "cpu" and name != _ALL:
            continue
        rows = [by_moment.get(moment, empty) for moment in moments]
        found, told = _columns(stem, table, rows, source, name)
        columns += found
        notes += told
    return recording_of(source, f"suite {stem}", moments, moments, columns, notes=tuple(dict.fromkeys(notes)))


def _processes(
    table: TidyTable, groups: Mapping[str, Mapping[float, Row]], moments: Sequence[float], source: str
) -> Recording:
    if "rss_mb" not in table.columns:
        raise unreadable(source, 1, ", ".join(table.columns), "a table of processes with a column rss_mb")
    memory = table.columns.index("rss_mb")
    named = table.columns.index("name") if "name" in table.columns else None
    usages = []
    for pid, by_moment in groups.items():
        rows = sorted(by_moment.items())
        values = [number(row.cells[memory], source, row.line, "rss_mb") * 2.0**20 for _, row in rows]
        usages.append(
            Usage(
                name=pid if named is None else rows[0][1].cells[named].strip() or pid,
                pid=int(pid) if pid.isdecimal() else None,
                times_s=array("d", (moment - moments[0] for moment, _ in rows)),
                memory_bytes=array("d", values),
            )
        )
    return Recording(
        name=source,
        begin_s=0.0,
        end_s=moments[-1] - moments[0],
        unix_at_zero_s=moments[0],
        sources=(Source(name="suite proc", state="active", seen=len(table.rows)),),
        usages=tuple(usages),
    )


def _telemetry(table: TidyTable, unix_s: Sequence[float], source: str) -> Recording:
    """Return the frame at each poll of X-Plane; each represents the frames since the previous poll."""
    place, paused = table.columns.index("frame_time_ms"), table.columns.index("paused")
    ends_s: list[float] = []
    durations_s: list[float] = []
    stands_for: list[float] = []
    before_s = unix_s[0]
    for row, moment_s in zip(table.rows, unix_s, strict=True):
        duration_s = number(row.cells[place], source, row.line, "frame_time_ms") / 1e3
        if moment_s < before_s:
            raise unreadable(source, row.line, row.cells[0], "later than the row before: are two logs in the file?")
        if duration_s and not number(row.cells[paused], source, row.line, "paused"):
            ends_s.append(moment_s - unix_s[0])
            durations_s.append(duration_s)
            stands_for.append(max(1.0, (moment_s - before_s) / duration_s))
        before_s = moment_s
    length_s = unix_s[-1] - unix_s[0]
    rate = f"{len(ends_s) / length_s:.3g} frames a second were sampled" if length_s else "a single frame was sampled"
    frames = Frames(
        kind="frame",
        source="frames",
        ends_s=array("d", ends_s),
        durations_s=array("d", durations_s),
        stands_for=array("d", stands_for),
    )
    return Recording(
        name=source,
        begin_s=0.0,
        end_s=length_s,
        unix_at_zero_s=unix_s[0],
        sources=(Source(name="frames", state="active", seen=len(ends_s)),),
        frames=frames if ends_s else None,
        notes=(f"{rate}: late frames in between are not counted, and the late time is an estimate",),
    )


def _column(stem: str, title: str, values: Sequence[float], notes: list[str], name: str) -> Column:
    low = re.sub(r"[^a-z0-9_.%/-]+", "_", title.strip().lower())
    unit = next((ending for ending in _UNITS if low.endswith(ending)), None)
    plain = low.removesuffix(unit) if unit else low
    if stem == "vmstat":
        return _of_vmstat(low, values, notes)
    if stem in {"io", "vram"} and low in (known := _DISK if stem == "io" else _GPU):
        what, base, factor = known[low]
        place = f"disks.{name}" if stem == "io" else "gpu.0"
        return Column(name=f"{place}.{what}", unit=base, kind="gauge", values=[v * factor for v in values])
    if stem == "mem" and plain.replace("_", "") in _MEMINFO:
        factor = _UNITS[unit] if unit else 1024.0
        series = _MEMINFO[plain.replace("_", "")]
        return Column(name=series, unit="B", kind="gauge", values=[v * factor for v in values])
    if stem == "cpu" and (share := {"usr": "user", "sys": "system"}.get(plain.strip("%"), plain.strip("%"))) in _CPU:
        return Column(name=f"cpu.{share}", unit="ratio", kind="gauge", values=[v / 100 for v in values])
    if stem == "psi" and (match := re.fullmatch(r"(mem|memory|cpu|io)_(some|full)(?:_avg)?(10|60|300)?", plain)):
        area = {"mem": "memory"}.get(match[1], match[1])
        over = f".avg{match[3]}" if match[3] in {"60", "300"} else ""
        series = f"pressure.{area}.{match[2]}{over}"
        return Column(name=series, unit="ratio", kind="gauge", values=[v / 100 for v in values])
    if stem == "freq" and (match := re.fullmatch(r"cpu(\d+)_mhz", plain)):
        return Column(name=f"frequency.policy{match[1]}", unit="Hz", kind="gauge", values=[v * 1e6 for v in values])
    return Column(
        name=f"{stem}.{plain}" if name == _ALL else f"{stem}.{name}.{plain}", unit="1", kind="gauge", values=values
    )


def _of_vmstat(title: str, values: Sequence[float], notes: list[str]) -> Column:
    """Return a counter of the kernel, or its growth per second, which the suite writes as `NAME_s`."""
    plain = title.removesuffix("_s")
    name = f"vmstat.{_VMSTAT.get(plain, plain)}"
    kind = _kind(plain, values, notes) if plain == title else "rate"
    return Column(name=name, unit="pages", kind=kind, values=values)


def _kind(name: str, values: Sequence[float], notes: list[str]) -> SeriesKind:
    if name.startswith("nr_"):
        return "gauge"
    known = [value for value in values if not isnan(value)]
    if any(after < before for before, after in pairwise(known)):
        notes.append(f"vmstat.{name} sometimes falls: interpreted as growth per second, not as a counter")
        return "rate"
    return "counter"
