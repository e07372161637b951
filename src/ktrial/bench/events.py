# SPDX-License-Identifier: Apache-2.0
"""What a measurement tells while it goes on, and its result."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ktrial.bench.record import RunRecord, Session, SessionSummary
from ktrial.kit.finding import Finding


class Began(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="began"):
    """The measurement begins. `missing` benchmarks are left out. `expected_s` is null when it cannot be told yet.

    `done` runs were made before it was interrupted; it goes on with the others.
    """

    session: Session
    where: str
    done: int
    benchmarks: tuple[str, ...]
    missing: tuple[Hole, ...]
    runs: int
    expected_s: float | None


class RunBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run-began"):
    """A run begins: the one at `place` of `runs`, whatever was interrupted or is made again before it.

    `left_s` is the time to the end of all, null when nothing can be told.
    `left_is_least` says that the time of some runs is not known yet and not in it.
    """

    run: int
    place: int
    runs: int
    round: int
    benchmark: str
    left_s: float | None
    left_is_least: bool


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="waiting"):
    """The next run waits for an idle machine; `used` is what is in use."""

    used: str


class Settles(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="settling"):
    """The next run waits for the machine to settle; `waiting` says for what, and how long already."""

    waiting: str


class BenchRunEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run"):
    """A run ended and is kept as `name`. `so_far` are the benchmark's summaries up to here."""

    record: RunRecord
    name: str
    so_far: tuple[SessionSummary, ...]


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that is missing from the results, wholly or in some runs: why, and the next step if known."""

    benchmark: str
    why: str
    next: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="ended"):
    """What was measured. `complete` of `wanted` benchmarks have all their runs; `holes` names the others.

    `findings` are doubts about what was true meanwhile.
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
