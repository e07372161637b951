# SPDX-License-Identifier: Apache-2.0
"""Run records and the log: a visit's events from its records, missing events, and contradictions between both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ktrial.bench.doubts import readings_of
from ktrial.bench.record import RunRecord
from ktrial.judge.model.log import ReadingsTaken, RunEnded
from ktrial.kit.percentile import events_of

Cause = Literal["reading", "knob", "suspend"]


def readings_event(records: Sequence[RunRecord]) -> ReadingsTaken | None:
    """Return the readings of the first run of a visit that has any; warm-ups have none."""
    for record in records:
        place = record.trial
        if place is not None and place.block is not None and (readings := readings_of(record)):
            return ReadingsTaken(block=place.block, arm=place.arm, readings=readings)
    return None


def run_event(block: int | None, arm: str, records: Sequence[RunRecord], failure: str | None) -> RunEnded:
    """Return a visit's log event from the records of its benchmarks."""
    return RunEnded(
        run=records[-1].run,
        block=block,
        arm=arm,
        measurements={} if failure is not None else measurements_of(records),
        failure=failure,
        events=_events(records),
        identity=_identity(records),
    )


def measurements_of(records: Sequence[RunRecord]) -> dict[str, float]:
    """Return all measurements of a visit by `benchmark.outcome`."""
    return {f"{record.benchmark}.{kept.outcome}": kept.value for record in records for kept in record.measurements}


def _events(records: Sequence[RunRecord]) -> dict[str, int]:
    """Return how many events the percentiles of a run rest on, if its record says so."""
    return {
        f"{record.benchmark}.{outcome}": count
        for record in records
        for outcome, count in events_of(record.details, [kept.outcome for kept in record.measurements]).items()
    }


def _identity(records: Sequence[RunRecord]) -> dict[str, str]:
    """Return what must be equal in all runs of a trial."""
    place = records[0].trial
    told = {"kernel": (place.kernel_release if place is not None else None) or ""}
    for record in records:
        told[f"{record.benchmark} version"] = record.tool_version or ""
        told[f"{record.benchmark} command"] = " ".join(record.argv)
        told[f"{record.benchmark} CPUs"] = ",".join(map(str, record.cpus or ()))
        if record.conditions is not None:
            governor = record.conditions.readings_before.get("governor")
            told["governor"] = str(governor) if governor is not None else ""
    return told


def cause_of(record: RunRecord) -> Cause:
    """Return which rule voided a run; no rule looks at a measurement."""
    if any(one.level == "refuse" for one in record.findings):
        return "reading"
    return "suspend" if any("slept" in why for why in record.void) else "knob"
