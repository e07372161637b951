# SPDX-License-Identifier: Apache-2.0
"""Output of `perf bench` in its default format: sched pipe, sched messaging, mem memcpy, futex hash, futex wake.

ktrial refuses the simple format, whose numbers have no unit: some are seconds, others bytes per second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from ktrial.kit.formats.tool_output import Quantity, ended_lines, number, quantity, unreadable, whole

_BANNER = re.compile(r"# Running '?([a-z0-9_-]+/[a-z0-9_-]+)'? benchmark")
_TOTAL = re.compile(r"\s*Total time:\s*(\S+) \[?sec\]?")
_RATE = re.compile(r"\s*(\S+?)d? (bytes|KB|MB|GB)/sec", re.IGNORECASE)
_FUNCTION = re.compile(r"# function '([^']+)'")
_COPIED = re.compile(r"# Copying (\S+) bytes")
_HASHING = re.compile(r"Run summary \[PID \d+\]: (\S+) threads, each operating on")
_AVERAGED = re.compile(r"Averaged (\S+) operations/sec \(\+-\s*(\S+)%\), total secs = (\S+)")
_THREAD = re.compile(r"\[thread\s+(\d+)\].*\[ (\S+) ops/sec \]")
_WOKEUP = re.compile(r"Wokeup (\S+) of (\S+) threads in (\S+) ms \(\+-\s*(\S+)%\)")
#: perf's KB, MB and GB are powers of 1024.
_BYTE_UNITS: Mapping[str, str] = {"bytes": "B/s", "kb": "KiB/s", "mb": "MiB/s", "gb": "GiB/s"}


class PipeRun(msgspec.Struct, frozen=True, kw_only=True):
    """`sched/pipe`: time per operation, operations per second. An operation is a round trip with two wake-ups."""

    operations: int
    total: Quantity
    per_operation: Quantity
    rate: Quantity


class MessagingRun(msgspec.Struct, frozen=True, kw_only=True):
    """`sched/messaging`: wall time; `tasks` is "processes" or "threads"."""

    groups: int
    task_count: int
    tasks: str
    total: Quantity


class MemoryRun(msgspec.Struct, frozen=True, kw_only=True):
    """`mem/memcpy` and `mem/memset`: throughput of each implementation, in the order printed.

    Some versions print no `sizes`.
    """

    name: str
    throughput: Mapping[str, Quantity]
    sizes: frozenset[str] = frozenset()


class FutexHashRun(msgspec.Struct, frozen=True, kw_only=True):
    """`futex/hash`: operations per second. `average` covers `count` threads; `threads` is empty if not printed."""

    average: Quantity
    spread_percent: float
    seconds: int
    threads: tuple[Quantity, ...]
    count: int | None = None


class FutexWakeRun(msgspec.Struct, frozen=True, kw_only=True):
    """`futex/wake`: time to wake all threads, a mean over the tool's own repetitions."""

    woken: int
    threads: int
    time: Quantity
    spread_percent: float


def read_pipe(data: bytes, source: str = "stdout") -> PipeRun:
    found: dict[str, Quantity] = {}
    operations: int | None = None
    for line, text in _lines(data, source, "sched/pipe"):
        if match := re.match(r"# Executed (\S+) pipe operations between two (\w+)", text):
            operations = whole(match[1], source, line, "operations")
        elif match := _TOTAL.match(text):
            found["total"] = quantity(match[1], "s", source, line, "the total time")
        elif match := re.match(r"\s*(\S+) usecs/op", text):
            found["per_operation"] = quantity(match[1], "us", source, line, "microseconds per operation")
        elif match := re.match(r"\s*(\S+) ops/sec", text):
            found["rate"] = quantity(match[1], "1/s", source, line, "operations per second")
    missing = {"total", "per_operation", "rate"} - set(found)
    if operations is None or missing:
        raise _incomplete(source, "sched pipe", sorted(missing) or ["operations"])
    return PipeRun(
        operations=operations, total=found["total"], per_operation=found["per_operation"], rate=found["rate"]
    )


def read_messaging(data: bytes, source: str = "stdout") -> MessagingRun:
    groups: tuple[int, int, str] | None = None
    total: Quantity | None = None
    for line, text in _lines(data, source, "sched/messaging"):
        if match := re.match(r"# (\S+) groups == (\S+) (processes|threads) run", text):
            counts = whole(match[1], source, line, "groups"), whole(match[2], source, line, "tasks")
            groups = (*counts, match[3])
        elif match := _TOTAL.match(text):
            total = quantity(match[1], "s", source, line, "the total time")
    if groups is None or total is None:
        raise _incomplete(source, "sched messaging", ["Total time" if groups else "groups"])
    return MessagingRun(groups=groups[0], task_count=groups[1], tasks=groups[2], total=total)


def read_memory(data: bytes, source: str = "stdout") -> MemoryRun:
    """Parse the output of `perf bench mem memcpy` (or memset), with a block for each implementation."""
    name = ""
    function: str | None = None
    throughput: dict[str, Quantity] = {}
    sizes: set[str] = set()
    for line, text in _lines(data, source, "mem/"):
        if match := _BANNER.match(text):
            name = match[1]
        elif match := _FUNCTION.match(text):
            function = match[1]
            if function in throughput:
                raise unreadable(source, line, text, "the only result of this implementation")
        elif match := _COPIED.match(text):
            sizes.add(match[1])
        elif match := _RATE.fullmatch(text.rstrip()):
            if function is None or function in throughput:
                raise unreadable(source, line, text, "the first throughput below the name of a function")
            unit = _BYTE_UNITS[match[2].lower()]
            throughput[function] = quantity(match[1], unit, source, line, "a throughput")
        elif not text.startswith("#") and text.strip():
            raise unreadable(source, line, text, "a throughput with its unit")
    if not throughput or function not in throughput:
        raise _incomplete(source, "mem", [f"throughput of {function}" if function else "function"])
    return MemoryRun(name=name, throughput=throughput, sizes=frozenset(sizes))


def read_futex_hash(data: bytes, source: str = "stdout") -> FutexHashRun:
    threads: list[Quantity] = []
    average: tuple[Quantity, float, int] | None = None
    count: int | None = None
    for line, text in _lines(data, source, "futex/hash"):
        if match := _THREAD.match(text):
            threads.append(quantity(match[2], "1/s", source, line, "a thread's operations per second"))
        elif match := _HASHING.match(text):
            count = whole(match[1], source, line, "threads")
        elif match := _AVERAGED.match(text):
            average = (
                quantity(match[1], "1/s", source, line, "operations per second"),
                number(match[2], source, line, "the spread in percent"),
                whole(match[3], source, line, "seconds"),
            )
    if average is None:
        raise _incomplete(source, "futex hash", ["Averaged … operations/sec"])
    return FutexHashRun(
        average=average[0], spread_percent=average[1], seconds=average[2], threads=tuple(threads), count=count
    )


def read_futex_wake(data: bytes, source: str = "stdout") -> FutexWakeRun:
    for line, text in _lines(data, source, "futex/wake"):
        if match := _WOKEUP.match(text):
            return FutexWakeRun(
                woken=whole(match[1], source, line, "woken threads"),
                threads=whole(match[2], source, line, "threads"),
                time=quantity(match[3], "ms", source, line, "the time to wake"),
                spread_percent=number(match[4], source, line, "the spread in percent"),
            )
    raise _incomplete(source, "futex wake", ["Wokeup … threads in … ms (+-…)"])


def _lines(data: bytes, source: str, wanted: str) -> Iterator[tuple[int, str]]:
    """Yield the lines from the banner on. Raise UnreadableOutput if the banner is missing or another benchmark's."""
    first: str | None = None
    opened = False
    for line, text in ended_lines(data, source):
        first = text if first is None else first
        if not opened and (match := _BANNER.match(text)):
            if not match[1].startswith(wanted):
                raise unreadable(source, line, match[1], f"the benchmark {wanted}")
            opened = True
        if opened:
            yield line, text
    if not opened:
        raise unreadable(source, 1, first or "", "the banner of perf bench's default format (# Running '…' benchmark:)")


def _incomplete(source: str, name: str, missing: list[str]) -> Exception:
    return unreadable(source, None, "", f"complete output of perf bench {name}: it lacks {', '.join(missing)}")
