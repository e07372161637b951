# SPDX-License-Identifier: Apache-2.0
"""Output of cyclictest (rt-tests): its JSON file, its histogram, or plain lines, one for each thread.

Latencies are whole microseconds. The histogram does not show latencies beyond its length; they count as larger than
every bin. A run ends when one thread has completed its cycles, so the other threads may have fewer samples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.formats.tool_output import (
    Quantity,
    decode_output,
    json_document,
    json_quantity,
    json_table,
    json_whole,
    numbered,
    quantity,
    unreadable,
    whole,
)

_HELD = re.compile(r"# /dev/cpu_dma_latency set to (\d+)us")
_THREAD = re.compile(
    r"T:\s*(\d+) \(\s*\d+\) P:\s*(\d+) I:\s*(\d+) C:\s*(\S+) Min:\s*(\S+) Act:\s*(\S+) Avg:\s*(\S+) Max:\s*(\S+)"
)
_ROW = re.compile(r"(\d+)((?:\s+\S+)+)")
_SUMMARY = re.compile(r"# (Total|Min Latencies|Avg Latencies|Max Latencies|Histogram Overflows):(.*)")


class CyclicThread(msgspec.Struct, frozen=True, kw_only=True):
    """One measuring thread. `histogram_us` may be empty; `beyond` counts latencies larger than its largest bin."""

    cycles: int
    minimum: Quantity
    average: Quantity
    maximum: Quantity
    histogram_us: Mapping[int, int] = {}
    beyond: int = 0


class CyclictestRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; `dma_latency_us` is the value that cyclictest set in /dev/cpu_dma_latency, None if not printed."""

    threads: tuple[CyclicThread, ...]
    version: str | None = None
    dma_latency_us: int | None = None
    kernel: str | None = None

    @property
    def histogram_us(self) -> dict[int, int]:
        """The sum of the histograms of all threads."""
        merged: dict[int, int] = {}
        for thread in self.threads:
            for key, count in thread.histogram_us.items():
                merged[key] = merged.get(key, 0) + count
        return merged

    @property
    def beyond(self) -> int:
        """Number of latencies, of all threads, that are larger than the largest bin."""
        return sum(thread.beyond for thread in self.threads)


def read_cyclictest(data: bytes, source: str) -> CyclictestRun:
    """Parse JSON if the data begin with `{`, a histogram if they contain `# Histogram`, otherwise plain lines."""
    text = decode_output(data, source)
    if text.lstrip().startswith("{"):
        return read_json(data, source)
    if "# Histogram" in text:
        return read_histogram(data, source)
    return read_plain(data, source)


def read_json(data: bytes, source: str) -> CyclictestRun:
    """Parse the file of `--json`, in which two keys have a colon inside their quotes."""
    document = json_document(data, source)
    if not document.get("thread"):
        raise unreadable(source, None, "", "output of cyclictest: it has no 'thread'")
    threads = json_table(document["thread"], source, "'thread'")
    status = document.get("return_code", 0)
    if status != 0:
        raise unreadable(source, None, "", f"a successful run: its return_code is {status!r}")
    declared = document.get("num_threads", len(threads))
    if declared != len(threads):
        raise unreadable(
            source,
            None,
            "",
            f"consistent output of cyclictest: it declares {declared!r} threads and has {len(threads)}",
        )
    version = document.get("rt_test_version:", document.get("rt_test_version"))
    info = document.get("sysinfo")
    return CyclictestRun(
        threads=tuple(_json_thread(name, value, source) for name, value in threads.items()),
        version=version if isinstance(version, str) else None,
        kernel=str(info["release"]) if isinstance(info, dict) and "release" in info else None,
    )


def _json_thread(name: str, value: object, source: str) -> CyclicThread:
    table = json_table(value, source, f"thread {name}")
    missing = {"cycles", "min", "max", "avg"} - set(table)
    if missing:
        raise unreadable(
            source, None, "", f"complete output of cyclictest: thread {name} lacks {', '.join(sorted(missing))}"
        )
    histogram = {
        whole(key, source, None, "a latency"): json_whole(count, source, "a count")
        for key, count in json_table(table.get("histogram", {}), source, "a histogram").items()
    }
    cycles = json_whole(table["cycles"], source, "cycles")
    beyond = cycles - sum(histogram.values()) if histogram else 0
    if beyond < 0:
        raise unreadable(
            source,
            None,
            "",
            f"consistent output of cyclictest: thread {name} has {cycles} cycles and more samples in its histogram",
        )
    return CyclicThread(
        cycles=cycles,
        minimum=json_quantity(table["min"], "us", source, "min"),
        average=json_quantity(table["avg"], "us", source, "avg"),
        maximum=json_quantity(table["max"], "us", source, "max"),
        histogram_us=histogram,
        beyond=beyond,
    )


def read_plain(data: bytes, source: str) -> CyclictestRun:
    """Parse lines `T: 0 (…) P: … Max: …`; the last line of each thread counts."""
    threads: dict[int, CyclicThread] = {}
    held: int | None = None
    for line, text in numbered(data, source):
        if match := _HELD.match(text):
            held = int(match[1])
        elif match := _THREAD.match(text):
            threads[int(match[1])] = CyclicThread(
                cycles=whole(match[4], source, line, "cycles"),
                minimum=quantity(match[5], "us", source, line, "microseconds"),
                average=quantity(match[7], "us", source, line, "microseconds"),
                maximum=quantity(match[8], "us", source, line, "microseconds"),
            )
        elif text.startswith("T:"):
            raise unreadable(source, line, text, "a thread's line with cycles, minimum, average and maximum")
    if not threads:
        raise unreadable(source, None, "", "output of cyclictest: it has no thread line (T: …)")
    return CyclictestRun(threads=tuple(threads[key] for key in sorted(threads)), dma_latency_us=held)


def read_histogram(data: bytes, source: str) -> CyclictestRun:
    """Parse the table of `-h` (one column per thread) or `-H` (which adds a column of sums)."""
    rows: dict[int, list[int]] = {}
    summary: dict[str, list[int]] = {}
    held: int | None = None
    for line, text in numbered(data, source):
        if match := _HELD.match(text):
            held = int(match[1])
        elif match := _SUMMARY.match(text):
            summary[match[1]] = [whole(item, source, line, match[1]) for item in match[2].split()]
        elif match := _ROW.fullmatch(text):
            key = int(match[1])
            if key in rows:
                raise unreadable(source, line, text, "the only row of this latency")
            rows[key] = [whole(item, source, line, "a count") for item in match[2].split()]
        elif text.strip() and not text.startswith("#"):
            raise unreadable(source, line, text, "a row of the histogram")
    missing = {"Total", "Min Latencies", "Avg Latencies", "Max Latencies", "Histogram Overflows"} - set(summary)
    if missing:
        raise unreadable(source, None, "", f"complete output of cyclictest: it lacks {', '.join(sorted(missing))}")
    count = len(summary["Min Latencies"])
    if not count or any(len(values) not in {count, count + 1} for values in [*rows.values(), *summary.values()]):
        raise unreadable(source, None, "", "complete output of cyclictest: its rows have different numbers of columns")
    threads = tuple(_column(index, rows, summary, source) for index in range(count))
    return CyclictestRun(threads=threads, dma_latency_us=held)


def _column(index: int, rows: Mapping[int, list[int]], summary: Mapping[str, list[int]], source: str) -> CyclicThread:
    histogram = {key: values[index] for key, values in rows.items() if values[index]}
    total, beyond = summary["Total"][index], summary["Histogram Overflows"][index]
    if sum(histogram.values()) != total:
        raise unreadable(source, None, f"Total {total}", f"the sum of its column, {sum(histogram.values())}")

    def latency(name: str) -> Quantity:
        return quantity(str(summary[name][index]), "us", source, None, name)

    return CyclicThread(
        cycles=total + beyond,
        minimum=latency("Min Latencies"),
        average=latency("Avg Latencies"),
        maximum=latency("Max Latencies"),
        histogram_us=histogram,
        beyond=beyond,
    )
