# SPDX-License-Identifier: Apache-2.0
"""Events of a measurement in progress, and its result."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ktrial.bench.record import RunRecord, Session, SessionSummary
from ktrial.kit.finding import Finding


class Began(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="began"):
    """The measurement begins, without the `missing` benchmarks.

    If it continues an interrupted measurement, `done` runs exist already. `expected_s` is null if unknown.
    """

    session: Session
    where: str
    done: int
    benchmarks: tuple[str, ...]
    missing: tuple[Hole, ...]
    runs: int
    expected_s: float | None


class RunBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run-began"):
    """A run begins. It has the number `run` in the session, and it is number `place` of `runs` planned runs.

    A run that is repeated at once keeps its `place`; the repetition of a void run gets a new place at the end.
    `left_s` is the time to the end of all runs, null if unknown. With `left_is_least`, that time excludes runs of
    unknown length.
    """

    run: int
    place: int
    runs: int
    round: int
    benchmark: str
    left_s: float | None
    left_is_least: bool


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="waiting"):
    """The next run waits for an idle machine; `used` says which session, terminal or programs use the machine."""

    used: str


class Settles(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="settling"):
    """The next run waits for the machine to settle; `waiting` says why, and for how long so far."""

    waiting: str


class BenchRunEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run"):
    """A run ended and is stored as `name`; `so_far` summarises the benchmark's runs until now."""

    record: RunRecord
    name: str
    so_far: tuple[SessionSummary, ...]


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark without results or with missing runs: why, and the next step if known."""

    benchmark: str
    why: str
    next: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="ended"):
    """The result of a measurement: `complete` of `wanted` benchmarks have all their runs, `holes` lists the others.

    `findings` are doubts about the conditions during the measurement.
    """

    session: Session
    where: str
    wanted: int
    complete: int
    holes: tuple[Hole, ...]
    interrupted: bool
    summaries: tuple[SessionSummary, ...]
    findings: tuple[Finding, ...] = ()


Event = Began | Waiting | Settles | RunBegan | BenchRunEnded | Result
Listener = Callable[[Event], None]
