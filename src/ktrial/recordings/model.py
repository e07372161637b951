# SPDX-License-Identifier: Apache-2.0
"""A recording of a machine over time: series, events, frames, gaps and the reliability of its sources.

All times are seconds on one clock that never steps; `unix_at_zero_s` is its zero as Unix time, if known.
Values are in `array("d")`, which numpy reads without a copy. Missing values are NaN and never become 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from math import isfinite, isnan, nan
from typing import Literal

import msgspec
import numpy as np

from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.phases import Phases, find_phases
from ktrial.recordings.latency import Latencies


def phases_of(recording: Recording) -> Phases:
    """Return the phases found in the rates of reclaim, allocation and faults."""
    told = [(name, *rate_of(series)) for name, series in recording.series.items() if is_telling(name)]
    return find_phases(told, recording.begin_s, recording.end_s)


def rate_of(series: Series) -> tuple[Array, Array]:
    """Return the times and values of a series; for a counter, the values are its growth per second."""
    values = series.values if series.kind == "gauge" else rates(series)
    return np.asarray(series.times_s), np.asarray(values)


#: Series whose rates distinguish the phases.
TELLING = ("vmstat.pgscan_*", "vmstat.pgsteal_*", "vmstat.pgalloc_*", "vmstat.pgfault", "vmstat.pgmajfault")


Values = array  # of "d"
SourceState = Literal["active", "failed", "absent"]
#: counter: grows, and restarts from 0 at a boot. gauge: a level. rate: growth per second since the previous sample, as
#: other tools print it.
SeriesKind = Literal["counter", "gauge", "rate"]
GapKind = Literal["suspend", "clock-step", "missing", "cut-off"]


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where samples or events come from.

    `why` explains why the source failed or is absent. `lost` counts events that were lost unread. `wanted_hz` is the
    requested rate, `achieved_hz` the actual one. `cost_cpu_s` is the CPU time of reading the source.
    """

    name: str
    state: SourceState
    why: str | None = None
    wanted_hz: float | None = None
    achieved_hz: float | None = None
    late_s: float | None = None
    cost_cpu_s: float | None = None
    seen: int | None = None
    lost: int = 0

    def __post_init__(self) -> None:
        if (self.state == "active") != (self.why is None):
            raise ValueError(f"the source {self.name} is {self.state}, which does not fit the reason {self.why!r}")
        if self.lost < 0:
            raise ValueError(f"the source {self.name} cannot have lost {self.lost} events")


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity over time, named as in the catalog of symptoms (`vmstat.allocstall`, `disks.nvme0n1.await`).

    Series of one source share one `times_s` array. `label` is the kernel's name, such as the control group or the
    interrupt's device.
    """

    name: str
    source: str
    unit: str
    kind: SeriesKind
    times_s: Values[float]
    values: Values[float]
    label: str | None = None

    def __post_init__(self) -> None:
        if len(self.times_s) != len(self.values):
            raise ValueError(f"{self.name} has {len(self.values)} values for {len(self.times_s)} moments")
        if any(isnan(time_s) for time_s in self.times_s):
            raise ValueError(f"{self.name} has a moment that is not a number")


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An event with a duration; `kind` is as in the catalog of symptoms (`direct-reclaim`, `block-io`).

    `duration_s` is None if the end was not recorded. `victim` states whether the event delayed the frame thread of the
    watched program; None if unknown. `amount` is the event's own count: pages, bytes or microseconds.
    """

    kind: str
    source: str
    begin_s: float
    duration_s: float | None = None
    cpu: int | None = None
    pid: int | None = None
    thread: str | None = None
    device: str | None = None
    victim: bool | None = None
    amount: float | None = None
    detail: str | None = None


class Frames(msgspec.Struct, frozen=True, kw_only=True):
    """Frames, or wake-ups, of one program: each ended at `ends_s` and took `durations_s`.

    `clock_error_s` is the possible offset between the clocks of the frames and of the series. `stands_for` says how
    many frames each sampled frame represents.
    """

    kind: Literal["frame", "wake-up", "request"]
    source: str
    ends_s: Values[float]
    durations_s: Values[float]
    clock_error_s: float = 0.0
    stands_for: Values[float] | None = None

    def __post_init__(self) -> None:
        if len(self.ends_s) != len(self.durations_s):
            raise ValueError(f"the {self.kind}s have {len(self.ends_s)} ends, but {len(self.durations_s)} durations")
        if self.stands_for is not None and len(self.stands_for) != len(self.ends_s):
            raise ValueError(f"the {self.kind}s have {len(self.ends_s)} ends, but {len(self.stands_for)} weights")
        if not all(isfinite(duration_s) and duration_s >= 0 for duration_s in self.durations_s):
            raise ValueError(f"a {self.kind} has a duration that is below 0 or not finite")
        if any(after < before for before, after in pairwise(self.ends_s)):
            raise ValueError(f"the {self.kind}s are not in order of time")


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch without data, or in which a clock stepped; the two sides are evaluated separately."""

    kind: GapKind
    begin_s: float
    end_s: float
    why: str


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The memory and I/O of a process or a control group over time."""

    name: str
    pid: int | None = None
    cgroup: str | None = None
    times_s: Values[float]
    memory_bytes: Values[float] | None = None
    cache_bytes: Values[float] | None = None
    io_bytes: Values[float] | None = None


class GroupLimits(msgspec.Struct, frozen=True, kw_only=True):
    """A control group and its limits at the beginning, as the kernel shows them; None for a missing file."""

    path: str
    memory_high: str | None = msgspec.field(default=None, name="memory.high")
    memory_max: str | None = msgspec.field(default=None, name="memory.max")
    cpu_max: str | None = msgspec.field(default=None, name="cpu.max")


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """How often each CPU, by number, handled an interrupt; `label` is the kernel's name for the interrupt."""

    label: str
    cpus: Mapping[str, int]


class CrossCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The number of traced events compared with the kernel's counter for the same thing."""

    what: str
    seen: int
    counted: int
    agree: bool


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A whole recording from `begin_s` to `end_s`; `ended` says whether it is complete.

    `labels` are names given by people (arm, workload); `machine` holds facts at that time (`memory_bytes`, `cpus`,
    `kernel`). `command` is the watched command, empty for the whole machine. `groups` are the program's control group
    and the groups above it, nearest first; `interrupts` are the most frequent interrupts, None if not counted.
    """

    name: str
    begin_s: float
    end_s: float
    unix_at_zero_s: float | None = None
    clock_error_s: float = 0.0
    ended: Literal["whole", "cut-off"] = "whole"
    command: tuple[str, ...] = ()
    frame_thread: str | None = None
    sources: tuple[Source, ...] = ()
    series: Mapping[str, Series] = {}
    events: Sequence[Event] = ()
    frames: Frames | None = None
    usages: tuple[Usage, ...] = ()
    latencies: Mapping[str, Latencies] = {}
    gaps: tuple[Gap, ...] = ()
    checks: tuple[CrossCheck, ...] = ()
    groups: tuple[GroupLimits, ...] = ()
    interrupts: Mapping[str, Served] | None = None
    labels: Mapping[str, str] = {}
    machine: Mapping[str, str | int | float] = {}
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.end_s >= self.begin_s:
            raise ValueError(f"the recording ends at {self.end_s} s, but begins at {self.begin_s} s")
        known = {source.name for source in self.sources}
        if len(known) != len(self.sources):
            raise ValueError("two sources have the same name")
        named = {*(series.source for series in self.series.values()), *(event.source for event in self.events)}
        if self.frames is not None:
            named.add(self.frames.source)
        if named - known:
            raise ValueError(f"the source {min(named - known)} is missing: there are only {', '.join(sorted(known))}")
        wrong = [name for name, series in self.series.items() if series.name != name]
        if wrong:
            raise ValueError(f"the series {self.series[wrong[0]].name} has the key {wrong[0]}, expected its name")

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s

    def source(self, name: str) -> Source | None:
        return next((source for source in self.sources if source.name == name), None)


def rates(series: Series, bits: int = 64) -> Values[float]:
    """Return the growth per second up to each moment; NaN at the first moment and where a counter fell.

    Return a series of rates unchanged. A counter of 32 `bits` that fell from its upper half has wrapped around.
    """
    if series.kind == "rate":
        return series.values
    found = array("d", [nan]) if len(series.values) else array("d")
    moments = zip(pairwise(series.times_s), pairwise(series.values), strict=True)
    for (before_s, after_s), (before, after) in moments:
        step = after - before
        if series.kind == "counter" and step < 0:
            step = step + 2.0**32 if bits == 32 and before >= 2.0**31 else nan
        found.append(step / (after_s - before_s) if after_s > before_s else nan)
    return found


def is_telling(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in TELLING)
