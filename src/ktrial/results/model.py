# SPDX-License-Identifier: Apache-2.0
"""The contents of a store as its readers see them, and doubts recomputed from its records."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from ktrial.bench.doubts import session_findings
from ktrial.bench.record import RunRecord, Session, variation
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction, Unit


def kept_findings(session: StoredSession, runs: Iterable[StoredRun]) -> tuple[Finding, ...]:
    """Return the findings that `bench` printed.

    Return none if the session does not come from `bench`, or if this ktrial cannot read its records.
    """
    if session.origin != "bench":
        return ()
    documents = [{**run.document, "session": session.document} for run in runs if run.document is not None]
    try:
        made = msgspec.convert(session.document, Session)
        records = msgspec.convert(documents, list[RunRecord])
    except msgspec.ValidationError:
        return ()
    return session_findings(records, made.gates, made.label or "this session")


#: The writer of a `running` run is alive; a run whose writer has gone becomes `interrupted`.
RunState = Literal["running", "ok", "failed", "void", "interrupted"]


class StoredMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One number: `value` in the base unit, `original` as in the source. `direction` is None if unknown."""

    outcome: str
    value: float
    unit: Unit
    direction: Direction | None
    original: str


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the runs of one command, or of one group of an imported file, have in common.

    `origin` is `bench`, `import:FORMAT`, `bundle` or `recordings`; `runs` counts the runs by state; `document` is the
    session of `ktrial.run/1`, or the facts from an importer.
    """

    session: str
    suite: str
    label: str | None
    origin: str
    kernel_release: str | None
    boot_id: str | None
    started_unix_ms: int
    runs: Mapping[RunState, int]
    document: Mapping[str, Any]


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `document` is its record without the session; None while it runs and if its writer was killed."""

    session: str
    number: int
    benchmark: str
    state: RunState
    warm_up: bool
    started_unix_ms: int
    measurements: tuple[StoredMeasurement, ...]
    raw: Mapping[str, str]
    document: Mapping[str, Any] | None


def state_of(record: RunRecord) -> RunState:
    """Return how a run ended; a repeated run is void."""
    if record.exit.interrupted:
        return "interrupted"
    if record.void or record.repeated:
        return "void"
    return "ok" if record.ok else "failed"


def stored_session(session: Session, started_unix_ms: int) -> StoredSession:
    return StoredSession(
        session=session.session,
        suite=session.suite,
        label=session.label,
        origin="bench",
        kernel_release=session.kernel_release,
        boot_id=session.boot_id,
        started_unix_ms=started_unix_ms,
        runs={},
        document=msgspec.to_builtins(session),
    )


def stored_run(record: RunRecord) -> StoredRun:
    document = msgspec.to_builtins(record)
    del document["session"]
    return StoredRun(
        session=record.session.session,
        number=record.run,
        benchmark=record.benchmark,
        state=state_of(record),
        warm_up=record.is_warm_up,
        started_unix_ms=record.started_unix_ms,
        measurements=msgspec.convert(document["measurements"], tuple[StoredMeasurement, ...]),
        raw={},
        document=document,
    )


class StoredSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of an outcome of a benchmark under one label, over all good runs that count."""

    benchmark: str
    outcome: str
    unit: Unit
    direction: Direction | None
    label: str | None
    n: int
    mean: float
    minimum: float
    maximum: float


class StoredSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of an outcome of a benchmark in one session, over all good runs.

    `cv` is None for a single run or a mean of 0.
    """

    benchmark: str
    outcome: str
    unit: Unit
    direction: Direction | None
    n: int
    median: float
    minimum: float
    maximum: float
    cv: float | None


class SessionRuns(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its runs in order; `date` is its beginning in ISO 8601."""

    session: StoredSession
    runs: tuple[StoredRun, ...]
    date: str | None = None


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Results in another tool's format; `left_out` says what this format cannot hold."""

    data: bytes
    left_out: tuple[str, ...]


def summaries(runs: Iterable[StoredRun]) -> tuple[StoredSummary, ...]:
    """Return a summary per benchmark and outcome, in the order of measuring; only good runs count, without warm-ups."""
    groups: dict[tuple[str, str], list[StoredMeasurement]] = {}
    for run in runs:
        for one in run.measurements if counts(run) else ():
            groups.setdefault((run.benchmark, one.outcome), []).append(one)
    return tuple(_summary(benchmark, group) for (benchmark, _), group in groups.items())


def counts(run: StoredRun) -> bool:
    return run.state == "ok" and not run.warm_up


def _summary(benchmark: str, group: list[StoredMeasurement]) -> StoredSummary:
    values = [one.value for one in group]
    return StoredSummary(
        benchmark=benchmark,
        outcome=group[0].outcome,
        unit=group[0].unit,
        direction=group[0].direction,
        n=len(values),
        median=statistics.median(values),
        minimum=min(values),
        maximum=max(values),
        cv=variation(values),
    )


def record_of(run: StoredRun, session: StoredSession) -> RunRecord | None:
    """Return the record of a run; None if it never ended. Raise ValidationError if this ktrial cannot read it."""
    if run.document is None:
        return None
    return msgspec.convert({**run.document, "session": session.document}, RunRecord)
