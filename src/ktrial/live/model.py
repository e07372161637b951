# SPDX-License-Identifier: Apache-2.0
"""Metrics of a live trial as the user writes them, their samples, and their values over a stretch of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from ktrial.kit.outcome import Direction, Outcome


class LiveMetric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A metric of live work. Its name may end in the unit, such as `p99_ms`."""

    name: str
    direction: Direction
    source: str


class Stretch(NamedTuple):
    """A stretch of time in milliseconds since 1970; the start is included, the end is not."""

    begin_ms: int
    end_ms: int

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.begin_ms) / 1000


class Sample(NamedTuple):
    """The value of a source at one moment, in the outcome's unit."""

    at_ms: int
    value: float


class StretchReading(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a metric over a stretch of time, or why there is none.

    `samples` is the number of readings behind the value. `low` and `high` bound the value if the source knows only the
    bucket that contains it. `version` is the version that was running, if the user named a label for it.
    """

    value: float | None
    why: str | None = None
    samples: int = 0
    low: float | None = None
    high: float | None = None
    version: str | None = None


class MetricSource(Protocol):
    """Reads one metric. `poll` is called about once every `poll_s` seconds, from one thread."""

    poll_s: float

    @property
    def outcome(self) -> Outcome: ...

    def begin(self) -> None:
        """Read the metric once. Raise BadInput or Refused, with the next step, if it can never be read."""

    def poll(self) -> Sequence[Sample]:
        """Read again; return the samples since the last call. An outage is not an error: it gives no samples."""

    def over(self, stretch: Stretch) -> StretchReading:
        """Return the reading for a stretch of time that has ended."""

    def end(self) -> None: ...
