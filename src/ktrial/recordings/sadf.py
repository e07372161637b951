# SPDX-License-Identifier: Apache-2.0
"""Reader of the JSON of sysstat's `sadf -j`: data of sar, with the rates per second that sadf computes."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from math import nan
from typing import Any

from ktrial.kit.formats.tool_output import (
    json_document,
    json_list,
    json_quantity,
    json_table,
    unreadable,
    unreadable_value,
)
from ktrial.recordings.model import Recording
from ktrial.recordings.recording import Column, recording_of

#: sadf's group and key -> series, unit, factor.
_PLAIN: Mapping[tuple[str, str], tuple[str, str, float]] = {
    ("paging", "pgscank"): ("vmstat.pgscan_kswapd", "1/s", 1),
    ("paging", "pgscand"): ("vmstat.pgscan_direct", "1/s", 1),
    ("paging", "pgsteal"): ("vmstat.pgsteal", "1/s", 1),
    ("paging", "majflt"): ("vmstat.pgmajfault", "1/s", 1),
    ("paging", "fault"): ("vmstat.pgfault", "1/s", 1),
    ("paging", "pgfree"): ("vmstat.pgfree", "1/s", 1),
    ("swap-pages", "pswpin"): ("vmstat.pswpin", "1/s", 1),
    ("swap-pages", "pswpout"): ("vmstat.pswpout", "1/s", 1),
    ("memory", "memfree"): ("memory.free", "B", 1024),
    ("memory", "avail"): ("memory.available", "B", 1024),
    ("memory", "dirty"): ("memory.dirty", "B", 1024),
    ("memory", "swpused"): ("swap.used", "B", 1024),
    ("queue", "runq-sz"): ("tasks.runnable", "count", 1),
    ("queue", "blocked"): ("tasks.blocked", "count", 1),
    ("psi-cpu", "some_avg10"): ("pressure.cpu.some", "ratio", 0.01),
    ("psi-mem", "some_avg10"): ("pressure.memory.some", "ratio", 0.01),
    ("psi-mem", "full_avg10"): ("pressure.memory.full", "ratio", 0.01),
    ("psi-io", "some_avg10"): ("pressure.io.some", "ratio", 0.01),
    ("psi-io", "full_avg10"): ("pressure.io.full", "ratio", 0.01),
}
_CPU = {"user": "cpu.user", "usr": "cpu.user", "system": "cpu.system", "sys": "cpu.system", "iowait": "cpu.iowait"}
_CPU |= {"steal": "cpu.steal", "idle": "cpu.idle"}
_DISK = {"await": ("disks.{}.await", "s", 0.001), "util-percent": ("disks.{}.busy", "ratio", 0.01)}
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)$", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)$", re.ASCII)
SourcePackage = Iterator[tuple[str, str, float]]


def is_sadf(head: bytes) -> bool:
    return re.match(rb'\s*\{\s*"sysstat"\s*:', head) is not None


def read_sadf(data: bytes, source: str = "sadf.json") -> Recording:
    """Return series of all known groups of the single host. Raise UnreadableOutput for other files."""
    sysstat = json_table(json_document(data, source).get("sysstat"), source, "sysstat")
    hosts = json_list(sysstat.get("hosts"), source, "hosts")
    if len(hosts) != 1:
        raise unreadable(source, None, "", f"a recording of one host: it has {len(hosts)} hosts")
    host = json_table(hosts[0], source, "a host")
    unix_s: list[float] = []
    columns: dict[str, tuple[str, dict[int, float]]] = {}
    for moment in json_list(host.get("statistics"), source, "statistics"):
        entry = json_table(moment, source, "a moment")
        if not entry.get("timestamp"):
            continue
        place = len(unix_s)
        unix_s.append(_unix(json_table(entry["timestamp"], source, "a timestamp"), source))
        for name, unit, value in _values(entry, source):
            columns.setdefault(name, (unit, {}))[1][place] = value
    made = [
        Column(
            name=name,
            unit=unit,
            kind="rate" if unit == "1/s" else "gauge",
            values=[values.get(place, nan) for place in range(len(unix_s))],
        )
        for name, (unit, values) in columns.items()
    ]
    told = {key: str(host[key]) for key in ("nodename", "release", "machine") if isinstance(host.get(key), str)}
    return recording_of(source, "sar", unix_s, unix_s, made, machine=told)


def _unix(stamp: Mapping[str, Any], source: str) -> float:
    day, time = _DATE.match(str(stamp.get("date"))), _TIME.match(str(stamp.get("time")))
    if day is None or time is None:
        raise unreadable_value(source, stamp, "a timestamp with date and time")
    parts = (*map(int, day.groups()), *map(int, time.groups()))
    year, month, date, hour, minute, second = parts
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= date <= 31 and hour < 24 and minute < 60 and second < 61):
        raise unreadable_value(source, stamp, "a valid date and time")
    return float(calendar.timegm(parts))


def _values(entry: Mapping[str, Any], source: str) -> SourcePackage:
    pressures = entry.get("psi")
    groups = {**entry, **pressures} if isinstance(pressures, dict) else entry
    for (group, key), (name, unit, factor) in _PLAIN.items():
        table = groups.get(group)
        if isinstance(table, dict) and key in table:
            yield name, unit, _number(table[key], source, f"{group}.{key}") * factor
    for row in _rows(entry.get("cpu-load"), source):
        if row.get("cpu") in {"all", "-1"}:
            yield from ((_CPU[key], "ratio", _number(row[key], source, key) / 100) for key in row if key in _CPU)
    for row in _rows(entry.get("disk"), source):
        device = str(row.get("disk-device"))
        for key, (name, unit, factor) in _DISK.items():
            if key in row:
                yield name.format(device), unit, _number(row[key], source, key) * factor


def _rows(value: object, source: str) -> list[dict[str, Any]]:
    return [] if value is None else [json_table(row, source, "a row") for row in json_list(value, source, "rows")]


def _number(value: object, source: str, wanted: str) -> float:
    return json_quantity(value, "count", source, wanted).value
