# SPDX-License-Identifier: Apache-2.0
"""What a live trial reads: metrics as the user writes them, samples, and what a stretch of time says of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from ktrial.kit.outcome import Direction, Outcome


class LiveMetric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of live work: its name, whose end is the unit as in `--metric` of a command, and where it is read."""

    name: str
    direction: Direction
    source: str


class Stretch(NamedTuple):
    """A stretch of time in milliseconds since 1970, with its begin and without its end."""

    begin_ms: int
    end_ms: int

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.begin_ms) / 1000


class Sample(NamedTuple):
    """What a source read at a time, in the outcome's unit."""

    at_ms: int
    value: float


class StretchReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a source says of a stretch of time: a value, or why there is none.

    `samples` is how many readings the value rests on. `low` and `high` bound the value if the source knows it only to
    within a bucket. `version` is the label that names what ran, if one was asked for.
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
        """Read it once. Raise BadInput or Refused, with the next step, for what can never work."""

    def poll(self) -> Sequence[Sample]:
        """Read again; return the samples since the last call. An outage is no error: it gives no samples."""

    def over(self, stretch: Stretch) -> StretchReading:
        """Return what a stretch of time that is over says."""

    def end(self) -> None: ...
