# SPDX-License-Identifier: Apache-2.0
"""Where a trial stands: its log, and runs that ended although the log was not told any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ktrial.domain.run import RunRecord
from ktrial.domain.trial_log import BlockDrawn, BlockVoided, Event, ReadingsTaken, RunEnded
from ktrial.services.trial_records import cause_of, readings_event, run_event


def untold(log: Sequence[Event], records: Iterable[RunRecord], benchmarks: Sequence[str]) -> list[Event]:
    """Events of visits whose records were kept and whose end is not in the log: the head was killed in between.

    A visit counts when every benchmark of it has its record; what was interrupted is made again.
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
    """Whether the log ends with them: the head was killed between them and the visit's end."""
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


def contradicted(log: Sequence[Event], records: Sequence[RunRecord]) -> list[str]:
    """Runs of the log that the records of the store do not give."""
    by_number = {record.run: record for record in records}
    found = []
    for event in log:
        if not isinstance(event, RunEnded):
            continue
        if event.run not in by_number:
            found.append(f"run {event.run} of the log is not in the store")
            continue
        for record in _visit_of(event.run, by_number) if event.failure is None else ():
            for kept in record.measurements:
                told = event.measurements.get(f"{record.benchmark}.{kept.outcome}")
                if told != kept.value:
                    found.append(f"run {record.run}: the log has {kept.outcome} = {told}, its record {kept.value}")
    return found


def _visit_of(last: int, by_number: Mapping[int, RunRecord]) -> list[RunRecord]:
    """The records of one visit, of which the last is known: one of each benchmark."""
    found = [by_number[last]]
    while (record := by_number.get(found[0].run - 1)) is not None:
        if record.trial != found[0].trial or record.benchmark in {one.benchmark for one in found}:
            break
        found.insert(0, record)
    return found
