# SPDX-License-Identifier: Apache-2.0
"""What an agent reports about a machine that it watches, and doubts about the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.kit.finding import Finding
from ktrial.recordings.model import Served

#: Tolerated differences to a counter because of its beginning and end: a number of events, and a share.
EDGE_EVENTS = 3
EDGE_SHARE = 0.02
#: Sources of a program, whose files disappear with it.
OF_PROGRAM = ("threads", "cgroup")
#: A larger share of missed samples is a doubt, not a note.
MISSED_SHARE = 0.01
#: A separate check of the pages that direct reclaim freed, so that no event can be lost unnoticed.
DIRECT_RECLAIM_PAGES = "direct-reclaim-pages"
#: Checks only that compaction was seen if pages were scanned, as the number of pages per pass is unknown.
COMPACTION_SCAN = "compaction-scan"
#: Kinds of event without a comparable kernel counter, and why.
UNCOUNTED = {
    "cgroup-reclaim": "memory.events also counts charges that could not wait, and omits reclaim requested by hand",
    "reclaim-throttle": "nothing counts these waits",
    "dirty-pause": "nothing counts these pauses",
    "run-delay": "a thread's counters disappear when it ends",
    "migration": "a thread's counters disappear when it ends",
    "file-fault": "pgmajfault counts all programs, and swap",
    "tlb-shootdown": "only kernels with CONFIG_DEBUG_TLBFLUSH count them; /proc/interrupts counts receivers",
    "thp-collapse": "thp_collapse_alloc also counts huge pages of files",
}
#: Tolerated difference in pages freed by reclaim that is in progress at an edge.
EDGE_PAGES = 4096
#: The most often that the kernel counts one stall: once for every pass over its lists, which restarts for up to three
#: reasons (do_try_to_free_pages() in mm/vmscan.c).
MOST_PASSES = 4


class TracedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that the agent reports.

    `victim` says whether the event delayed the frame thread, `watched` whether it hit a thread of the program.
    `idle_ns` is how long the device had been idle before, if that was long.
    """

    kind: str
    begin_ns: int
    length_ns: int | None = None
    cpu: int | None = None
    pid: int | None = None
    thread: str | None = None
    device: str | None = None
    amount: int | None = None
    detail: str | None = None
    victim: bool | None = None
    watched: bool | None = None
    idle_ns: int | None = None


class MachineView(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a watched machine.

    `cpu_ns` is the agent's CPU time, `bytes` the size of the recording so far. `lost` counts overwritten events, and
    is None without a tracer.
    """

    at_ns: int
    started_ns: int
    cpu_ns: int
    bytes: int
    lost: int | None
    columns: dict[str, int]
    events: tuple[TracedEvent, ...]

    @property
    def cost(self) -> float:
        return self.cpu_ns / max(1, self.at_ns - self.started_ns)


class HandedBlocks(msgspec.Struct, frozen=True):
    """Encoded blocks of a recording, as the agent sends them."""

    data: bytes


class EventCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The number of traced events of a kind compared with the kernel's counter.

    The agent counts events between two marks, and reads the counter directly before and after each mark. `counted` is
    the most that the counter can have grown between the marks, `counted_least` the least. `seen_most` includes events
    that the counter may or may not count.
    """

    what: str
    counter: str
    seen: int
    counted: int
    counted_least: int | None = None
    seen_most: int | None = None

    @property
    def agree(self) -> bool:
        """Whether events around the marks can explain any difference between the two counts."""
        if self.what == DIRECT_RECLAIM_PAGES:
            # Reclaim also frees slab pages, which this counter ignores.
            return self.seen >= self._least - max(EDGE_PAGES, EDGE_SHARE * self._least)
        if self.what == COMPACTION_SCAN:
            return self.seen > 0 or self._least == 0
        edge = max(EDGE_EVENTS, EDGE_SHARE * self.counted)
        least = self._least / MOST_PASSES if self.what == "direct-reclaim" else self._least
        most = self.seen if self.seen_most is None else self.seen_most
        return least - edge <= most and self.seen <= self.counted + edge

    @property
    def shown(self) -> str:
        return f"{self.seen}" if self.seen_most in (None, self.seen) else f"{self.seen} to {self.seen_most}"

    @property
    def told(self) -> str:
        return f"{self.counted}" if self._least == self.counted else f"{self._least} to {self.counted}"

    @property
    def _least(self) -> int:
        return self.counted if self.counted_least is None else self.counted_least


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """The number of events of a kind, and their durations."""

    count: int
    time_ns: int
    longest_ns: int


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Tracepoints that this kernel lacks, and the kinds of event that need them."""

    tracepoints: dict[str, str]
    kinds: tuple[str, ...]


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a block device, with a histogram of `(upper end in nanoseconds, requests)`."""

    requests: int
    bytes: int
    flushes: int
    histogram: tuple[tuple[int, int], ...]
    after_idle: tuple[tuple[int, int], ...] = ()


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """The result of tracing. `handed_out` counts events that the kernel delivered, `read` events that the agent read.

    `blind` says why the tracer did not see its own mark; `damage` describes the last of the `damaged` pages.
    """

    read: int
    handed_out: int
    lost: int
    strange: int
    damaged: int
    damage: str | None
    blind: str | None
    cut: dict[str, int]
    counts: dict[str, Count]
    checks: tuple[EventCheck, ...]
    absent: Missing
    clock_error_ns: int
    devices: dict[str, Device] = {}


class WatchEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a watch: its cost, the state of each source, and the result of tracing."""

    ended: Literal["done", "limit", "told"]
    started_ns: int
    wall_ns: int
    cpu_ns: int
    bytes: int
    sources: dict[str, dict[str, Any]]
    trace: Traced | None = None
    dropped: int = 0
    interrupts: dict[str, Served] | None = None
    interrupted: bool = False

    @property
    def cost(self) -> float:
        return self.cpu_ns / max(1, self.wall_ns)

    @property
    def bytes_per_hour(self) -> float:
        return self.bytes / max(1, self.wall_ns) * 3.6e12


def doubts(ended: WatchEnded, absent: Mapping[str, str]) -> tuple[Finding, ...]:
    found = []
    if ended.dropped:
        sentence = f"{ended.dropped} blocks of the recording were lost, because the disk or ktrial was too slow"
        found.append(_doubt("lost-blocks", sentence))
    if "trace" in absent:
        found.append(_note("no-trace", f"no events were traced: {absent['trace']}"))
    if "trace.threads" in absent:
        found.append(_note("no-threads", f"events have no threads: {absent['trace.threads']}"))
    found += _doubts_of_sources(ended.sources)
    if ended.trace is not None:
        found += _doubts_of_trace(ended.trace)
    return tuple(found)


def _doubts_of_sources(sources: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    found = []
    missed = {name: report["missed"] for name, report in sources.items() if report.get("missed")}
    if missed:
        told = ", ".join(f"{name} {count} of {count + sources[name]['taken']}" for name, count in missed.items())
        late_s = max(sources[name].get("late_ns", 0) for name in missed) / 1e9
        share = max(count / (count + sources[name]["taken"]) for name, count in missed.items())
        sentence = f"samples missed, because the machine was too busy (up to {late_s:.2f} s late): {told}"
        found.append((_doubt if share > MISSED_SHARE else _note)("missed-samples", sentence))
    for name, report in sources.items():
        if name in OF_PROGRAM:
            continue
        unread = [f"{path} disappeared: {gone['why']}" for path, gone in (report.get("gone") or {}).items()]
        if report.get("failures") and not unread:
            unread = [f"{report['failures']} reads failed"]
        unread += report.get("unopened") or []
        if unread:
            found.append(_note("unread-source", f"{name}: {'; '.join(unread)}"))
        slower_ns = report.get("longest_period_ns", 0)
        if slower_ns > report.get("period_ns", slower_ns):
            why = f"up to {slower_ns / 1e9:.1f} s apart, not {report['period_ns'] / 1e9:g} s, to limit overhead"
            found.append(_note("rarer-source", f"{name}: sampled {why}"))
    return found


def _doubts_of_trace(trace: Traced) -> list[Finding]:
    found = []
    if trace.blind is not None:
        found.append(_doubt("blind-tracer", trace.blind))
    if trace.damaged or trace.strange or trace.read != trace.handed_out:
        why = f": {trace.damage}" if trace.damage else ""
        found.append(
            _doubt(
                "unread-events",
                f"the kernel delivered {trace.handed_out} events and the agent read {trace.read}, {trace.strange} of "
                f"them unknown; {trace.damaged} pages were damaged{why}",
            )
        )
    if trace.lost:
        found.append(_doubt("lost-events", f"{trace.lost} events were overwritten before the agent read them"))
    for check in trace.checks:
        if not check.agree:
            found.append(
                _doubt(
                    "counter-disagrees",
                    f"{check.what}: {check.shown} events were traced, "
                    f"the kernel's {check.counter} counted {check.told}",
                )
            )
    if trace.absent.tracepoints:
        named = ", ".join(sorted(trace.absent.tracepoints))
        kinds = ", ".join(trace.absent.kinds)
        lost = f", and ktrial cannot trace {kinds}" if kinds else ""
        found.append(_note("missing-tracepoints", f"this kernel has no {named}{lost}"))
    return found + _unchecked(trace)


def _unchecked(trace: Traced) -> list[Finding]:
    """Return a note on the kinds of event that no kernel counter confirms, with reasons."""
    checked = {check.what.partition("@")[0] for check in trace.checks}
    alone = [kind for kind in trace.counts if kind not in checked]
    if not alone:
        return []
    told = "; ".join(f"{kind} ({UNCOUNTED.get(kind, 'this kernel does not count them')})" for kind in alone)
    return [_note("unchecked-counts", f"no kernel counter confirms the number of {told}")]


def _doubt(kind: str, sentence: str) -> Finding:
    return Finding(kind=kind, level="suspect", sentence=sentence)


def _note(kind: str, sentence: str) -> Finding:
    return Finding(kind=kind, level="note", sentence=sentence)
