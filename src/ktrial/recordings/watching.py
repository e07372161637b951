# SPDX-License-Identifier: Apache-2.0
"""What an agent tells of a machine that it watches, and what can be doubted about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.kit.finding import Finding
from ktrial.recordings.model import Served

#: The tracer may miss so many of a counter's steps at its beginning and end, and so large a share.
EDGE_EVENTS = 3
EDGE_SHARE = 0.02
#: Sources of a program, whose files go with it.
OF_PROGRAM = ("threads", "cgroup")
#: A larger share of samples that were left out of a source is no detail.
MISSED_SHARE = 0.01
#: Pages that direct reclaim freed, as a check by itself: no event of it can be lost unseen.
DIRECT_RECLAIM_PAGES = "direct-reclaim-pages"
#: Whether there was any pass of compaction where pages were looked at: how many a pass looks at is not known.
COMPACTION_SCAN = "compaction-scan"
#: Kinds of event that no counter of the kernel can be held against, and why.
UNCOUNTED = {
    "cgroup-reclaim": "memory.events counts charges that could not wait too, and not what is asked for by hand",
    "reclaim-throttle": "nothing counts these waits",
    "dirty-pause": "nothing counts these pauses",
    "run-delay": "each thread's counters go with it when it ends",
    "migration": "each thread's counters go with it when it ends",
    "file-fault": "pgmajfault counts those of all programs, and of swap",
    "tlb-shootdown": "only a kernel with CONFIG_DEBUG_TLBFLUSH does: /proc/interrupts counts those who got one",
    "thp-collapse": "thp_collapse_alloc counts huge pages of files too",
}
#: The same of pages that were freed, by whom had not ended at an edge.
EDGE_PAGES = 4096
#: How often the kernel counts a stall at most: for every pass over its lists, of which there may be one for each of
#: three reasons to begin anew (do_try_to_free_pages() in mm/vmscan.c).
MOST_PASSES = 4


class TracedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the agent tells it. `victim`: it hit the thread of the frames; `watched`: one of the program's.

    `idle_ns` is for how long a device had had no request, where that was long.
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
    """What is seen now. `cpu_ns` is what the agent has used; `lost` events were overwritten, null without a tracer."""

    at_ns: int
    started_ns: int
    cpu_ns: int
    bytes: int
    lost: int | None
    columns: dict[str, int]
    events: tuple[TracedEvent, ...]

    @property
    def cost(self) -> float:
        """Share of one CPU that the agent uses."""
        return self.cpu_ns / max(1, self.at_ns - self.started_ns)


class HandedBlocks(msgspec.Struct, frozen=True):
    """Blocks of the recording, as the agent handed them over."""

    data: bytes


class EventCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a kind that were seen beside the kernel's own counter.

    The counter was read directly before and after each mark between which events were counted: `counted` is the most
    that lies between the marks, `counted_least` the least. `seen_most` are all that it may have counted, where it
    leaves some of them out.
    """

    what: str
    counter: str
    seen: int
    counted: int
    counted_least: int | None = None
    seen_most: int | None = None

    @property
    def agree(self) -> bool:
        """Whether they differ by no more than what the edges can hide."""
        if self.what == DIRECT_RECLAIM_PAGES:
            # Freed are pages of slabs too, of which this counter knows nothing.
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
        """What the kernel counted, in words."""
        return f"{self.counted}" if self._least == self.counted else f"{self._least} to {self.counted}"

    @property
    def _least(self) -> int:
        return self.counted if self.counted_least is None else self.counted_least


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many events of a kind there were, and how long they took."""

    count: int
    time_ns: int
    longest_ns: int


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Tracepoints that this kernel does not have, and the kinds of event that cannot be told without them."""

    tracepoints: dict[str, str]
    kinds: tuple[str, ...]


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a block device, and `(end of a bar in nanoseconds, requests)` by how long they took."""

    requests: int
    bytes: int
    flushes: int
    histogram: tuple[tuple[int, int], ...]
    after_idle: tuple[tuple[int, int], ...] = ()


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """How the tracing went. `handed_out` is how many events the kernel says that it gave, `read` how many were read.

    `blind` says why the tracer did not see its own mark; `damage` what was wrong with the last page of `damaged`.
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
    """How a watch ended: its own cost, how each source went, and how the tracing did."""

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
        """Share of one CPU that the agent used."""
        return self.cpu_ns / max(1, self.wall_ns)

    @property
    def bytes_per_hour(self) -> float:
        """What an hour of it takes on the disk."""
        return self.bytes / max(1, self.wall_ns) * 3.6e12


def doubts(ended: WatchEnded, absent: Mapping[str, str]) -> tuple[Finding, ...]:
    found = []
    if ended.dropped:
        found.append(_doubt("lost-blocks", f"{ended.dropped} blocks were dropped: the disk or ktrial was too slow"))
    if "trace" in absent:
        found.append(_note("no-trace", f"no events were traced: {absent['trace']}"))
    if "trace.threads" in absent:
        found.append(_note("no-threads", f"no event is told by its thread: {absent['trace.threads']}"))
    found += _doubts_of_sources(ended.sources)
    if ended.trace is not None:
        found += _doubts_of_trace(ended.trace)
    return tuple(found)


def _doubts_of_sources(sources: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Return samples that were not taken when they were due, and files that could not be read."""
    found = []
    missed = {name: report["missed"] for name, report in sources.items() if report.get("missed")}
    if missed:
        told = ", ".join(f"{name} {count} of {count + sources[name]['taken']}" for name, count in missed.items())
        late_s = max(sources[name].get("late_ns", 0) for name in missed) / 1e9
        share = max(count / (count + sources[name]["taken"]) for name, count in missed.items())
        sentence = f"samples were left out, the machine was too busy to take them (up to {late_s:.2f} s late): {told}"
        found.append((_doubt if share > MISSED_SHARE else _note)("missed-samples", sentence))
    for name, report in sources.items():
        if name in OF_PROGRAM:
            continue
        unread = [f"{path} has gone: {gone['why']}" for path, gone in (report.get("gone") or {}).items()]
        if report.get("failures") and not unread:
            unread = [f"{report['failures']} times it could not be read or understood"]
        unread += report.get("unopened") or []
        if unread:
            found.append(_note("unread-source", f"{name}: {'; '.join(unread)}"))
        slower_ns = report.get("longest_period_ns", 0)
        if slower_ns > report.get("period_ns", slower_ns):
            why = f"up to {slower_ns / 1e9:.1f} s apart, not {report['period_ns'] / 1e9:g} s: more would cost too much"
            found.append(_note("rarer-source", f"{name}: looks were {why}"))
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
                f"the kernel handed out {trace.handed_out} events and {trace.read} were read, {trace.strange} of them "
                f"unknown; {trace.damaged} pages were damaged{why}",
            )
        )
    if trace.lost:
        found.append(_doubt("lost-events", f"{trace.lost} events were lost before they were read"))
    for check in trace.checks:
        if not check.agree:
            found.append(
                _doubt(
                    "counter-disagrees",
                    f"{check.what}: {check.shown} events were seen, the kernel's {check.counter} counted {check.told}",
                )
            )
    if trace.absent.tracepoints:
        named = ", ".join(sorted(trace.absent.tracepoints))
        kinds = ", ".join(trace.absent.kinds) or "nothing"
        found.append(_note("missing-tracepoints", f"this kernel has no {named}: {kinds} cannot be told"))
    return found + _unchecked(trace)


def _unchecked(trace: Traced) -> list[Finding]:
    """Kinds of event that were counted here alone, with the reason."""
    checked = {check.what.partition("@")[0] for check in trace.checks}
    alone = [kind for kind in trace.counts if kind not in checked]
    if not alone:
        return []
    told = "; ".join(f"{kind} ({UNCOUNTED.get(kind, 'this kernel does not count them')})" for kind in alone)
    return [_note("unchecked-counts", f"no counter of the kernel stands beside the number of {told}")]


def _doubt(kind: str, sentence: str) -> Finding:
    return Finding(kind=kind, level="suspect", sentence=sentence)


def _note(kind: str, sentence: str) -> Finding:
    return Finding(kind=kind, level="note", sentence=sentence)
