# SPDX-License-Identifier: Apache-2.0
"""Output of sysbench 1.0 and 1.1: the tests threads, cpu, memory and mutex.

sysbench rounds the latency percentile to steps of 1.8 %, so runs with the same value are not necessarily equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.formats.tool_output import Quantity, ended_lines, number, quantity, unreadable, whole

_VERSION = re.compile(r"sysbench (\d+\.\d+\S*)")
_TOTAL_OPERATIONS = re.compile(r"Total operations:\s*(\S+) \(\s*(\S+) per second\)")
_TRANSFERRED = re.compile(r"(\S+) MiB transferred \((\S+) MiB/sec\)")
_PERCENTILE = re.compile(r"\s*(\d+)th percentile:\s*(.*)")
#: Beginning of the last line of the latencies, after which nothing is read.
_LAST = "sum:"
_SETTING = re.compile(r"\s*(Prime numbers limit|block size|operation): (\S+)\s*")


class SysbenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; `settings` are as sysbench prints them.

    `events_per_second`, `operations_per_second` and `transferred` are None in tests that do not print them.
    `percentile_latency` is the latency of an event at `percentile`; both are None if the run has no percentile.
    """

    version: str | None
    threads: int | None
    total_time: Quantity
    events: int
    latency_min: Quantity
    latency_avg: Quantity
    latency_max: Quantity
    percentile: int | None = None
    percentile_latency: Quantity | None = None
    events_per_second: Quantity | None = None
    operations_per_second: Quantity | None = None
    transferred: Quantity | None = None
    settings: Mapping[str, str] = {}


def read_sysbench(data: bytes, source: str = "stdout") -> SysbenchRun:
    """Parse sysbench's stdout. Raise UnreadableOutput if totals or latencies are missing."""
    found: dict[str, Quantity] = {}
    counts: dict[str, int] = {}
    settings: dict[str, str] = {}
    version: str | None = None
    percentile: int | None = None
    section = ""
    ended = False
    for line, text in ended_lines(data, source):
        if version is None and (match := _VERSION.match(text)):
            version = match[1]
        elif text and not text[0].isspace() and text.endswith(":"):
            section = text
        elif match := _SETTING.fullmatch(text):
            settings[match[1]] = match[2]
        elif match := _PERCENTILE.fullmatch(text):
            percentile = whole(match[1], source, line, "a percentile")
            _keep(found, "percentile", quantity(match[2], "ms", source, line, "milliseconds"), source, line)
        else:
            ended = ended or (section.startswith("Latency") and text.lstrip().startswith(_LAST))
            _read_memory(text, found, source, line)
            _read_label(text, section, (found, counts), source, line)
    run = _whole_run(found, counts, version, percentile, source)
    if not ended:
        raise unreadable(source, None, "", f"complete output of sysbench: the line {_LAST!r} is missing")
    return msgspec.structs.replace(run, settings=settings)


def _read_memory(text: str, found: dict[str, Quantity], source: str, line: int) -> None:
    if match := _TOTAL_OPERATIONS.match(text):
        _keep(found, "operations", quantity(match[2], "1/s", source, line, "operations per second"), source, line)
    elif match := _TRANSFERRED.match(text):
        _keep(found, "transferred", quantity(match[2], "MiB/s", source, line, "MiB per second"), source, line)


def _read_label(
    text: str, section: str, found: tuple[dict[str, Quantity], dict[str, int]], source: str, line: int
) -> None:
    label, _, value = (part.strip() for part in text.partition(":"))
    quantities, counts = found
    if label == "Number of threads":
        counts["threads"] = whole(value, source, line, "threads")
    elif label == "total number of events":
        counts["events"] = whole(value, source, line, "events")
    elif label in {"total time", "time elapsed"} and value:
        time = quantity(value.removesuffix("s"), "s", source, line, "seconds")
        _keep(quantities, "total_time", time, source, line)
    elif label in {"events per second", "eps", "events/s (eps)"}:
        _keep(quantities, "eps", quantity(value, "1/s", source, line, "events per second"), source, line)
    elif section.startswith("Latency") and label in {"min", "avg", "max"}:
        if not section.startswith("Latency (ms)"):
            raise unreadable(source, line, section, "a list of latencies in milliseconds")
        _keep(quantities, label, quantity(value, "ms", source, line, "milliseconds"), source, line)
    elif section.startswith("Latency") and label == "sum":
        number(value, source, line, "milliseconds")


def _keep(found: dict[str, Quantity], name: str, value: Quantity, source: str, line: int) -> None:
    if name in found:
        raise unreadable(source, line, value.original, f"the only value of {name} in the run")
    found[name] = value


def _whole_run(
    found: dict[str, Quantity], counts: dict[str, int], version: str | None, percentile: int | None, source: str
) -> SysbenchRun:
    missing = sorted({"total_time", "min", "avg", "max"} - set(found)) + sorted({"events"} - set(counts))
    if missing:
        raise unreadable(source, None, "", f"complete output of sysbench: it lacks {', '.join(missing)}")
    return SysbenchRun(
        version=version,
        threads=counts.get("threads"),
        total_time=found["total_time"],
        events=counts["events"],
        latency_min=found["min"],
        latency_avg=found["avg"],
        latency_max=found["max"],
        percentile=percentile,
        percentile_latency=found.get("percentile"),
        events_per_second=found.get("eps"),
        operations_per_second=found.get("operations"),
        transferred=found.get("transferred"),
    )
