# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a recording: phases, stutters, causes compared with chance, and proposals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.interval import Interval

#: named: beyond chance, alone or on stutters that no other cause explains. with-another: coincides with a named cause.
#: chance: not beyond chance. idle: observable, but never active. unseen: the recording could not show the cause.
Standing = Literal["named", "with-another", "chance", "idle", "unseen"]


class PhaseFound(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of the recording, and the stutters in it."""

    name: str
    begin_s: float
    end_s: float
    stutters: int
    late_share: Interval
    per_hour: Interval


class Worst(msgspec.Struct, frozen=True, kw_only=True):
    """The stutter in which a cause was active for longest. `seen` is the evidence of the cause.

    `spans` are stretches around the stutter in which the cause was active.
    """

    begin_s: float
    duration_s: float
    seen: str
    spans: tuple[tuple[float, float], ...] = ()

    @property
    def around_s(self) -> float:
        """The seconds that the picture shows before and after the stutter."""
        return max(2.0, 3 * self.duration_s)


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, the number of stutters that overlap it, and the p-value of the difference from chance.

    `by_phase` counts the overlapping stutters per phase; `late_share` is their share of all late time. By chance,
    `expected` stutters overlap the cause on average, and at most `expected_high` in 95 % of cases. `active_share` is
    the share of the recording in which the cause was active. `with_cause` is the named cause that explains most of the
    same stutters. `threads` counts the events during stutters for the threads hit most often.
    """

    id: str
    name: str
    what: str
    standing: Standing
    overlapping: int = 0
    by_phase: tuple[int, ...] = ()
    late_share: float | None = None
    expected: float = 0.0
    expected_high: float = 0.0
    p: float | None = None
    p_adjusted: float | None = None
    active_share: float = 0.0
    with_cause: str | None = None
    threads: Mapping[str, int] = {}
    worst: Worst | None = None


class EpisodeFound(msgspec.Struct, frozen=True, kw_only=True):
    """A group of stutters; `gap_s` is the time since the previous episode's end, None for the first episode."""

    begin_s: float
    end_s: float
    count: int
    gap_s: float | None = None


class Aggressor(msgspec.Struct, frozen=True, kw_only=True):
    """A process or group that grew more in the time before a stutter (`before_bytes`) than usual (`usual_bytes`)."""

    name: str
    what: Literal["memory", "page cache", "I/O"]
    before_bytes: float
    usual_bytes: float


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that acts on a named cause. `now` is None if the current value is unreadable."""

    cause: str
    knob: str
    value: str
    now: str | None
    why: str
    price: str
    evidence: tuple[str, ...]
    try_line: tuple[str, ...]


class ModeFound(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster of request latencies. `state` is the power state whose exit latency `exit_s` matches the cluster."""

    at_s: float
    share: float
    state: int | None = None
    exit_s: float | None = None


class DeviceFound(msgspec.Struct, frozen=True, kw_only=True):
    """A block device and its request latencies. `above_share` is the share of requests slower than `limit_s`.

    `histogram` contains the upper end and the count of each non-empty bar. `exits` lists the power states that the
    drive may enter on its own, with the exit latency that it states for each.
    """

    name: str
    requests: int
    bytes: int
    median_s: float | None
    p99_s: float | None
    longest_s: float | None
    limit_s: float
    above_share: float
    modes: tuple[ModeFound, ...]
    histogram: tuple[tuple[float, int], ...] = ()
    exits: tuple[tuple[int, float], ...] = ()


class EventsFound(msgspec.Struct, frozen=True, kw_only=True):
    """All events of one kind; times are None if no end was recorded.

    `threads` counts the events of the threads that were hit most often. `lost` counts the lost events of the same
    source.
    """

    kind: str
    count: int
    longest_s: float | None
    longest_at_s: float | None
    together_s: float | None
    lost: int = 0
    threads: Mapping[str, int] = {}


class SeriesFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The mean and the peak of a series; for a counter, of its growth per second.

    `low` and `high` are the interval of the mean. `by_phase` is the mean in each phase, None without samples.
    """

    name: str
    unit: str
    mean: float
    peak: float
    low: float | None = None
    high: float | None = None
    by_phase: tuple[Interval | None, ...] = ()


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """The stretches in which a cause was active, merged if a picture cannot separate them."""

    cause: str
    spans: tuple[tuple[float, float], ...]


class PressureLine(msgspec.Struct, frozen=True, kw_only=True):
    """The share of time in which some task waited. Each value is the highest in a step, None without samples."""

    name: str
    step_s: float
    values: tuple[float | None, ...]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole diagnosis. `named` is empty if no observable cause stands out.

    `definition` says which frames are late, and `told_by` lists the series that show the phases. `unexplained` counts
    the stutters without a named cause. Episodes begin every `recurrence_s` seconds; `recurrence_p` is the p-value of
    that regularity. `late` contains start and length of the longest stutters, in order of time.
    """

    name: str
    length_s: float
    frames: int
    frame_kind: str | None
    definition: str | None
    stutters: int
    late_share: Interval | None
    per_hour: Interval | None
    phases: tuple[PhaseFound, ...]
    told_by: tuple[str, ...]
    causes: tuple[Cause, ...]
    unexplained: int
    episodes: tuple[EpisodeFound, ...] = ()
    recurrence_s: float | None = None
    recurrence_p: float | None = None
    aggressors: tuple[Aggressor, ...] = ()
    figures: tuple[SeriesFigure, ...] = ()
    devices: tuple[DeviceFound, ...] = ()
    events: tuple[EventsFound, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    late: tuple[tuple[float, float], ...] = ()
    lanes: tuple[Lane, ...] = ()
    pressures: tuple[PressureLine, ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[Cause, ...]:
        """The causes that stand out, strongest first."""
        return tuple(cause for cause in self.causes if cause.standing == "named")
