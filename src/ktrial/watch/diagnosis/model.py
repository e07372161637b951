# SPDX-License-Identifier: Apache-2.0
"""What a recording was found to say: phases, stutters, causes against chance, and what could be tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

#: named: beyond chance, alone or on stutters that no other explains. with-another: falls together with a named one.
#: chance: no more than chance. idle: seen, never at work. unseen: nothing in the recording would show it.
Standing = Literal["named", "with-another", "chance", "idle", "unseen"]


class TimeRange(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate with its 95 % interval, None if there is too little to tell one."""

    estimate: float
    low: float | None = None
    high: float | None = None


class PhaseFound(msgspec.Struct, frozen=True, kw_only=True):
    """A phase and what fell into it."""

    name: str
    begin_s: float
    end_s: float
    stutters: int
    late_share: TimeRange
    per_hour: TimeRange


class Worst(msgspec.Struct, frozen=True, kw_only=True):
    """The stutter in which a cause was at work for longest, and what was seen of the cause then.

    `spans` is when the cause was at work around it.
    """

    begin_s: float
    duration_s: float
    seen: str
    spans: tuple[tuple[float, float], ...] = ()

    @property
    def around_s(self) -> float:
        """So much before and after it is told with it."""
        return max(2.0, 3 * self.duration_s)


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """How one cause stands: stutters that overlap it, how many would by chance, and the chance of so many.

    `by_phase` are those of each phase; `late_share` is their share of all the time that was late.
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
    """Stutters close together; `gap_s` since the end of the episode before it, None of the first."""

    begin_s: float
    end_s: float
    count: int
    gap_s: float | None = None


class Aggressor(msgspec.Struct, frozen=True, kw_only=True):
    """A process or group that grew before stutters: by how much in the window before each, and otherwise."""

    name: str
    what: Literal["memory", "page cache", "I/O"]
    before_bytes: float
    usual_bytes: float


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that acts on a named cause. `now` is None if it could not be read here."""

    cause: str
    knob: str
    value: str
    now: str | None
    why: str
    price: str
    evidence: tuple[str, ...]
    try_line: tuple[str, ...]


class ModeFound(msgspec.Struct, frozen=True, kw_only=True):
    """A heap of requests by how long they took. `state`: a power state whose exit it fits, and how long that takes."""

    at_s: float
    share: float
    state: int | None = None
    exit_s: float | None = None


class DeviceFound(msgspec.Struct, frozen=True, kw_only=True):
    """A block device: how long its requests took. `above_share` is of those that took longer than `limit_s`.

    `histogram` holds ends of bars in seconds and requests, empty bars left out; `exits` the power states that it may
    enter by itself and how long leaving each takes, by the drive's own word.
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
    """All events of one kind; times are None if no end was seen, `threads` those that were hit most often.

    `lost` events came from the same source and were not seen.
    """

    kind: str
    count: int
    longest_s: float | None
    longest_at_s: float | None
    together_s: float | None
    lost: int = 0
    threads: Mapping[str, int] = {}


class SeriesFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A series over the whole recording: mean with its interval, and peak; growth a second of a counter.

    `by_phase` is its mean in each phase, None if nothing was read in it.
    """

    name: str
    unit: str
    mean: float
    peak: float
    low: float | None = None
    high: float | None = None
    by_phase: tuple[TimeRange | None, ...] = ()


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """When a cause was at work: begin and end of each stretch; those with hardly a pause between them are one."""

    cause: str
    spans: tuple[tuple[float, float], ...]


class PressureLine(msgspec.Struct, frozen=True, kw_only=True):
    """The share of time in which some task waited: the highest of each of equal steps; None if nothing was read."""

    name: str
    step_s: float
    values: tuple[float | None, ...]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `named` is empty if none of the causes that could be seen stands out: none of these.

    `late` holds begin and length of the longest stutters, in the order of time.
    """

    name: str
    length_s: float
    frames: int
    frame_kind: str | None
    definition: str | None
    stutters: int
    late_share: TimeRange | None
    per_hour: TimeRange | None
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
