# SPDX-License-Identifier: Apache-2.0
"""Which run records the runs of a trial's log rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktrial.bench.record import RunRecord
from ktrial.judge.model.log import Event, RunEnded


def visits_of(log: Sequence[Event], records: Sequence[RunRecord]) -> dict[int, Mapping[str, RunRecord]]:
    """Return the records of each run of the log by benchmark. The log numbers a run by its last record."""
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
        yield f"the log says {event.failure or 'it is good'}, its record {failed.failure if failed else 'it is good'}"
        return
    kept = {f"{one.benchmark}.{each.outcome}": each.value for one in visit.values() for each in one.measurements}
    for name in dict.fromkeys((*event.measurements, *kept)) if event.failure is None else ():
        if event.measurements.get(name) != kept.get(name):
            shown = ["nothing" if one is None else repr(one) for one in (event.measurements.get(name), kept.get(name))]
            yield f"the log has {name} = {shown[0]}, its record {shown[1]}"
