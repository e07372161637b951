# SPDX-License-Identifier: Apache-2.0
"""Compares run records with the log: a visit's events from its records, missing events, and contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.bench.doubts import readings_of
from ktrial.bench.record import RunRecord
from ktrial.judge.model.log import BlockDrawn, BlockVoided, Event, ReadingsTaken, RunEnded
from ktrial.kit.percentile import events_of
from ktrial.trial.protocol.live import LIVE

Cause = Literal["reading", "knob", "suspend", "period", "pause"]
#: Reason of a void run that was to wait for an idle machine but was disturbed by somebody.
INPUT = "input during the run"


def readings_event(records: Sequence[RunRecord]) -> ReadingsTaken | None:
    """Return the first readings of a visit; None for warm-ups, or if no run has readings."""
    for record in records:
        place = record.trial
        if place is not None and place.block is not None and (readings := readings_of(record)):
            return ReadingsTaken(block=place.block, arm=place.arm, readings=readings)
    return None


def run_event(block: int | None, arm: str, records: Sequence[RunRecord], failure: str | None) -> RunEnded:
    return RunEnded(
        run=records[-1].run,
        block=block,
        arm=arm,
        measurements={} if failure is not None else measurements_of(records),
        failure=failure,
        events=_events(records),
        identity=_identity(records),
        covariates=covariates_of(records) or msgspec.UNSET,
    )


def covariates_of(records: Iterable[RunRecord]) -> dict[str, float]:
    """Return the covariates of periods of live work. Leave out covariates without a value."""
    found = [record.details.get("covariates", {}) for record in records if record.tool == LIVE]
    return {name: value for one in found for name, value in one.items() if value is not None}


def measurements_of(records: Sequence[RunRecord]) -> dict[str, float]:
    return {f"{record.benchmark}.{kept.outcome}": kept.value for record in records for kept in record.measurements}


def _events(records: Sequence[RunRecord]) -> dict[str, int]:
    """Return the numbers of events behind the run's percentiles, if its records contain them."""
    return {
        f"{record.benchmark}.{outcome}": count for record in records for outcome, count in _event_counts(record).items()
    }


def _event_counts(record: RunRecord) -> Mapping[str, int]:
    """Return the numbers of events by outcome; a period of live work has them in its record."""
    if record.tool == LIVE:
        return dict(record.details.get("events", {}))
    return events_of(record.details, [kept.outcome for kept in record.measurements])


def _identity(records: Sequence[RunRecord]) -> dict[str, str]:
    """Return the properties that must be equal in all runs of a trial."""
    place = records[0].trial
    told = {"kernel": (place.kernel_release if place is not None else None) or ""}
    for record in records:
        told[f"{record.benchmark} version"] = record.tool_version or ""
        told[f"{record.benchmark} command"] = " ".join(record.argv)
        told[f"{record.benchmark} CPUs"] = ",".join(map(str, record.cpus or ()))
        if record.generator is not None:
            told[f"{record.benchmark} load generator"] = record.generator.identity
        if record.conditions is not None:
            governor = record.conditions.readings_before.get("governor")
            told["governor"] = str(governor) if governor is not None else ""
    return told


def cause_of(record: RunRecord) -> Cause:
    """Return the rule that made a run void. No rule depends on a measurement."""
    if any(one.level == "refuse" for one in record.findings) or any(why.startswith(INPUT) for why in record.void):
        return "reading"
    if any("slept" in why for why in record.void):
        return "suspend"
    return "period" if record.tool == LIVE else "knob"


def untold(log: Sequence[Event], records: Iterable[RunRecord], benchmarks: Sequence[str]) -> list[Event]:
    """Return events that the log lacks because ktrial was killed after it had stored their records.

    A visit counts if every benchmark has a record; ktrial repeats an interrupted visit.
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
            # A killed ktrial may have logged the readings, but not the end of the visit.
            found += [readings] if readings is not None and log[-1:] != [readings] else []
            found.append(event)
    return found


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


def visits_of(log: Sequence[Event], records: Sequence[RunRecord]) -> dict[int, Mapping[str, RunRecord]]:
    """Return the records of each run of the log, by benchmark. A run has the number of its last record."""
    found: dict[int, Mapping[str, RunRecord]] = {}
    ordered = sorted(records, key=lambda one: one.run)
    last = 0
    for event in log:
        if not isinstance(event, RunEnded):
            continue
        found[event.run] = {one.benchmark: one for one in ordered if last < one.run <= event.run and _of(one, event)}
        last = event.run
    return found


def _of(record: RunRecord, event: RunEnded) -> bool:
    place = record.trial
    return place is not None and (place.block, place.arm) == (event.block, event.arm) and not record.exit.interrupted


def contradicted(log: Sequence[Event], records: Sequence[RunRecord], protocol_sha256: str) -> Iterator[tuple[int, str]]:
    """Yield runs of the log that contradict the records, each with the reason."""
    for run, visit in visits_of(log, records).items():
        event = next(one for one in log if isinstance(one, RunEnded) and one.run == run)
        if not any(record.run == run for record in visit.values()):
            yield run, f"the log has a run of {event.arm} in block {event.block}, the store does not"
            continue
        for record in visit.values():
            if record.trial is not None and record.trial.protocol_sha256 != protocol_sha256:
                yield record.run, f"it was made for another protocol: {record.trial.protocol_sha256}"
        yield from ((run, told) for told in _measured_names(event, visit))


def _measured_names(event: RunEnded, visit: Mapping[str, RunRecord]) -> Iterator[str]:
    failed = next((one for one in visit.values() if one.failure is not None), None)
    if (failed is None) != (event.failure is None):
        recorded = "the run is good" if failed is None else failed.failure
        yield f"the log says: {event.failure or 'the run is good'}; the record says: {recorded}"
        return
    kept = {f"{one.benchmark}.{each.outcome}": each.value for one in visit.values() for each in one.measurements}
    for name in dict.fromkeys((*event.measurements, *kept)) if event.failure is None else ():
        if event.measurements.get(name) != kept.get(name):
            shown = ["nothing" if one is None else repr(one) for one in (event.measurements.get(name), kept.get(name))]
            yield f"the log has {name} = {shown[0]}, its record {shown[1]}"
    if event.covariates and dict(event.covariates) != covariates_of(visit.values()):
        yield "the covariates in the log differ from those in the record"
