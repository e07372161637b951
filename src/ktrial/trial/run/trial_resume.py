# SPDX-License-Identifier: Apache-2.0
"""Where a trial stands: its log, and runs that ended although the log was not told any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ktrial.bench.record import RunRecord
from ktrial.judge.model.log import BlockDrawn, BlockVoided, Event, ReadingsTaken, RunEnded
from ktrial.trial.run.records import cause_of, readings_event, run_event


def untold(log: Sequence[Event], records: Iterable[RunRecord], benchmarks: Sequence[str]) -> list[Event]:
    """Return the events of visits that are stored but missing in the log, because ktrial was killed in between.

    A visit counts if every benchmark has a record; an interrupted one is made again.
    """
    last = max((event.run for event in log if isinstance(event, RunEnded)), default=0)
    drawn = {event.block for event in log if isinstance(event, BlockDrawn)}
    voided = {event.block for event in log if isinstance(event, BlockVoided)}
    visits: list[list[RunRecord]] = []
    for record in records:
        place = record.trial
        if record.run <= last or place is None or place.block not in drawn or place.block in voided:
            continue
        fresh = not visits or visits[-1][-1].trial != place or record.benchmark == benchmarks[0]
        if fresh:
            visits.append([])
        visits[-1].append(record)
    found: list[Event] = []
    for visit in visits:
        event = _event(visit, benchmarks)
        if event is not None:
            readings = readings_event(visit)
            found += [readings] if readings is not None and not _was_told(log, readings) else []
            found.append(event)
    return found


def _was_told(log: Sequence[Event], readings: ReadingsTaken) -> bool:
    """Return whether the log ends with them: the head was killed between them and the visit's end."""
    return bool(log) and log[-1] == readings


def _event(visit: Sequence[RunRecord], benchmarks: Sequence[str]) -> Event | None:
    place = visit[-1].trial
    assert place is not None, "only runs of trials are looked at"
    if any(record.exit.interrupted for record in visit):
        return None
    if visit[-1].void and place.block is not None:
        reason = "; ".join(visit[-1].void)
        return BlockVoided(block=place.block, arm=place.arm, cause=cause_of(visit[-1]), reason=reason)
    if [record.benchmark for record in visit] != list(benchmarks):
        return None
    failure = next((f"{one.benchmark}: {one.failure}" for one in visit if one.failure is not None), None)
    return run_event(place.block, place.arm, visit, failure)
