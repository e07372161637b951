# SPDX-License-Identifier: Apache-2.0
"""Events that the agent traces: `events:reclaim[?of=NAME|PID]`, `events:run-delay?of=NAME|PID`, `events:block`.

A separate agent watches as root and reports once a second until the source ends.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from ktrial.agent.session import AgentSession, Progress
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.json_bytes import read_bytes
from ktrial.kit.outcome import Unit
from ktrial.live.model import LiveMetric
from ktrial.live.sources.polled import CounterSource, CounterValues, growth
from ktrial.live.sources.web import IdleSource, NotRead
from ktrial.live.sources.world import LiveWorld, bad_metric, measured_outcome, split_options
from ktrial.machine.ports import Clock, Machine
from ktrial.recordings.growing import GrowingRecording
from ktrial.recordings.watching import MachineView
from ktrial.watch.record.watch import LONGEST_S

#: The traced events of each kind.
_TRACED: dict[str, tuple[str, ...]] = {
    "reclaim": ("direct-reclaim", "cgroup-reclaim"),
    "run-delay": ("run-delay",),
    "block": ("block-io",),
}
_UNITS: dict[str, Unit] = {"reclaim": "ratio", "run-delay": "ratio", "block": "s"}
_HERTZ, _SPILL_S = 2.0, 1.0
#: Seconds to wait for the first report, and nanoseconds of silence after which the agent counts as lost.
_FIRST_S, _SILENT_NS = 10.0, 5_000_000_000
_END_S = 5.0
_MOST_PID = 1 << 22


def traced_of(metric: LiveMetric) -> tuple[str, str | None]:
    """Return the kind of events and the process, if the metric names a process.

    Raise BadInput for an unknown kind or option.
    """
    what, options = split_options(metric, ("of",))
    of = options.get("of")
    if what not in _TRACED:
        raise bad_metric(metric, f"unknown events {what!r}", f"use one of: {', '.join(_TRACED)}")
    if of is not None and not re.fullmatch(r"[^/\0\n]{1,64}", of):
        raise bad_metric(metric, f"{of!r} does not name a process", "for example  ?of=postgres, or ?of=1234")
    if what == "run-delay" and of is None:
        raise bad_metric(metric, "run-delay needs a process", "for example  events:run-delay?of=postgres")
    if what == "block" and of is not None:
        raise bad_metric(
            metric, "block events cannot be counted for one process", "leave out of=, or measure pid:1234?io"
        )
    measured_outcome(metric, _UNITS[what])
    return what, of


def find_process(machine: Machine, of: str) -> int:
    """Return the process with this number or name; if several match, the parent of the others.

    Raise NotRead if there is no single process.
    """
    if of.isdecimal() and 0 < int(of) <= _MOST_PID:
        return int(of)
    pattern = "/proc/*/comm"
    names = machine.read(machine.list([pattern])[pattern])
    pids = [int(path.split("/")[2]) for path, one in names.items() if one and one.text == of and path[6].isdigit()]
    stats = machine.read([f"/proc/{pid}/stat" for pid in pids])
    parents = {}
    for pid in pids:
        one = stats.get(f"/proc/{pid}/stat")
        fields = (one.text or "").rpartition(")")[2].split() if one else []
        parents[pid] = fields[1] if len(fields) > 1 else ""
    first = [pid for pid, parent in parents.items() if parent not in map(str, parents)]
    if not first:
        raise NotRead(f"no process is called {of}", hint="start the process, or name one that `ps -e` lists")
    if len(first) > 1:
        listed = ", ".join(map(str, sorted(first)[:8]))
        raise NotRead(
            f"{len(first)} processes are called {of}: {listed}",
            hint=f"name one process by its number, for example  of={min(first)}",
        )
    return first[0]


class EventStream:
    """Counts traced events in a thread; calling the stream returns the latest counts."""

    def __init__(self, session: AgentSession, clock: Clock, what: str, process: int | None) -> None:
        self._session = session
        self._clock = clock
        self._what = what
        self._process = process
        self._growing = GrowingRecording()
        self._lock = threading.Lock()
        self._counts: CounterValues | None = None
        self._watched_s = 0.0
        self._seen_ns = 0
        self._ended: str | None = None
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="events", daemon=True)

    def start(self) -> None:
        """Start the agent's watch, and wait for its first report. Raise AgentError if the agent cannot watch."""
        kinds = _TRACED[self._what]
        fields: dict[str, Any] = {
            "limit_s": LONGEST_S,
            "only": True,
            "sources": {"trace": _HERTZ},
            "events": list(kinds),
            "spill_s": _SPILL_S,
            "show": [f"trace.{kind}.{end}" for kind in kinds for end in ("count", "time")],
        }
        self._session.send("watch", **fields, **({} if self._process is None else {"process": self._process}))
        self._session.receive_begun("watch")
        self._seen_ns = self._clock.monotonic_ns()
        self._thread.start()
        self._first.wait(_FIRST_S)

    def __call__(self, _: Machine) -> CounterValues:
        """Return the counts of the latest report. Raise NotRead if the watch has ended or is silent."""
        with self._lock:
            if self._ended is not None:
                raise NotRead(self._ended, hint="choose another --metric (docs/live-sources.md)")
            if self._counts is None or self._clock.monotonic_ns() - self._seen_ns > _SILENT_NS:
                raise NotRead(
                    "the agent that traces events does not report",
                    hint="check that the measured machine answers and is not overloaded",
                )
            return self._counts

    def stop(self) -> None:
        if self._thread.is_alive():
            self._session.hang_up()
            self._thread.join(_END_S)
        if not self._thread.is_alive():
            self._session.close()

    def _follow(self) -> None:
        why = "the process ended, and with it the watch of its events"
        try:
            while isinstance(line := self._session.receive_next("watch"), Progress):
                self._take(line)
        except (KtrialError, msgspec.ValidationError, ValueError) as error:
            why = str(error)
        with self._lock:
            self._ended = self._ended or why
        self._first.set()

    def _take(self, line: Progress) -> None:
        if line.chunk is not None:
            events = self._growing.feed(read_bytes(line.chunk)).events
            kinds = _TRACED[self._what]
            self._watched_s += sum((one.length_ns or 0) / 1e9 for one in events if one.watched and one.kind in kinds)
        if line.seen is None:
            return
        view = msgspec.convert(line.seen, MachineView)
        with self._lock:
            self._seen_ns = self._clock.monotonic_ns()
            self._counts, self._ended = None, self._why_blind(view)
            if self._ended is None:
                self._counts = self._count(view)
        self._first.set()

    def _why_blind(self, view: MachineView) -> str | None:
        if view.lost is None:
            return f"events are not traced: {self._growing.why_untraced or 'tracefs is not available'}"
        known = [kind for kind in _TRACED[self._what] if f"trace.{kind}.time" in view.columns]
        if not known:
            return f"this kernel or container does not show {' or '.join(_TRACED[self._what])}"
        return None

    def _count(self, view: MachineView) -> CounterValues:
        columns = view.columns
        kinds = _TRACED[self._what]
        times = {kind: columns.get(f"trace.{kind}.time", 0) / 1e9 for kind in kinds}
        if self._what == "reclaim" and self._process is not None:
            times = {"watched": self._watched_s}
        counts = {f"{kind} count": float(columns.get(f"trace.{kind}.count", 0)) for kind in kinds}
        # A different number of lost events starts a new epoch, and no rate spans two epochs.
        return CounterValues({**times, **(counts if self._what == "block" else {})}, str(view.lost))


class EventsSource(CounterSource):
    """Reads the time that traced events take per second, or the mean time of a request to a block device."""

    def __init__(self, metric: LiveMetric, world: LiveWorld) -> None:
        self._what, self._of = traced_of(metric)
        super().__init__(metric, measured_outcome(metric, _UNITS[self._what]), world, self._latest)
        self._stream: EventStream | None = None

    def _latest(self, machine: Machine) -> CounterValues:
        if self._stream is None:
            raise NotRead("events were not traced", hint="run ktrial as a user who may become root")
        return self._stream(machine)

    def _begin(self) -> None:
        if self._world.open_root is None:
            raise BadInput(
                f"--metric {self.metric.source!r}: only root can trace events",
                hint="run ktrial as a user who may become root"
                + (", or measure pid:1234?delay" if self._what == "run-delay" else ""),
            )
        process = None if self._of is None else find_process(self._world.machine(), self._of)
        self._stream = EventStream(self._world.open_root(), self._world.clock, self._what, process)
        try:
            self._stream.start()
            super()._begin()
        except BaseException:
            self.end()
            raise

    def rate(self, readings: Sequence[CounterValues], length_ms: int) -> float:
        if len({one.epoch for one in readings}) > 1:
            raise NotRead(
                "events were lost, because the machine was too busy to trace them",
                hint="measure pid:1234?delay instead, which traces nothing"
                if self._what == "run-delay"
                else "reduce the load, or measure something else",
            )
        if self._what != "block":
            return super().rate(readings, length_ms)
        grown = growth(readings, together=False)
        if grown["block-io count"] <= 0:
            raise IdleSource("no request reached a block device", hint="start work that reads or writes a disk")
        return grown["block-io"] / grown["block-io count"]

    def end(self) -> None:
        if self._stream is not None:
            self._stream.stop()
            self._stream = None
