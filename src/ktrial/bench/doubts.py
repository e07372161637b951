# SPDX-License-Identifier: Apache-2.0
"""Doubts about a session or an arm, from the conditions of its runs, as findings for its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ktrial.bench.record import RunRecord
from ktrial.kit.finding import Finding, FindingLevel
from ktrial.machine.gates import GATES, GateLimits, Readings, group_findings
from ktrial.machine.run_conditions import Telemetry

#: Above this share of void runs, the remaining ones may be a lucky selection.
MOST_VOID = 0.2
#: Rules that compare a run with the first one; the other rules judge all runs together.
_AGAINST_FIRST = frozenset(("distance", "ratio"))


def void_finding(group: str, void: int, runs: int, last: str | None = None) -> Finding | None:
    """Return a finding about a group's void runs; None if no run is void. `last` says why the last void run is void."""
    if not void:
        return None
    level: FindingLevel = "suspect" if void > MOST_VOID * runs else "note"
    are = "is" if void == 1 else "are"
    why = f"of {runs} runs of {group} {are} void and not counted"
    sentence = f"{void} {why}" if last is None else f"{void} {why}, the last: {last}"
    return Finding(kind="void", level=level, sentence=sentence, values={group: float(void)})


def readings_of(record: RunRecord) -> Readings:
    """Return the readings that the gates judge in a run."""
    found = record.conditions
    return {} if found is None else {**found.readings_before, **found.readings_during}


def session_findings(records: Iterable[RunRecord], limits: Mapping[str, GateLimits], group: str) -> tuple[Finding, ...]:
    """Return doubts about the runs of a session. The findings call the session `group`."""
    runs = [one for one in records if not one.is_warm_up and not one.exit.interrupted]
    good = [one for one in runs if one.ok and one.conditions is not None]
    void = [one for one in runs if one.void]
    told = void_finding(group, len(void), len(runs), "; ".join(void[-1].void) if void else None)
    return (
        *_against_first(good, group),
        *(group_findings({group: [readings_of(one) for one in good]}, limits) if good else ()),
        *([] if told is None else [told]),
        *_unsettled(good, group),
        *_sensors(good, group),
    )


def _against_first(good: Sequence[RunRecord], group: str) -> Iterator[Finding]:
    """Yield a finding for each gate that saw runs begin in another state than the first run."""
    for gate in GATES.values():
        touched = [
            one
            for record in good
            for one in record.findings
            if gate.rule in _AGAINST_FIRST and one.gate == gate.name and one.level == "suspect"
        ]
        if touched:
            share = f"{len(touched)} of {len(good)} runs began in another state than the first"
            sentence = f"{share}, the last: {touched[-1].sentence}"
            yield Finding(kind=gate.name, level="suspect", sentence=sentence, values={group: float(len(touched))})


def _unsettled(good: Sequence[RunRecord], group: str) -> Iterator[Finding]:
    left = [one.settled.left for one in good if one.settled is not None and one.settled.left]
    if left:
        sentence = (
            f"{len(left)} of {len(good)} runs began before the machine had settled, the last: {'; '.join(left[-1])}"
        )
        yield Finding(kind="settle", level="note", sentence=sentence, values={group: float(len(left))})


_SENSOR_FAULTS: Mapping[str, tuple[str, Callable[[Telemetry], Iterable[str]]]] = {
    "sensor-lied": ("showed impossible values", lambda telemetry: telemetry.lies),
    "sensor-gone": ("vanished during a run", lambda telemetry: telemetry.gone),
    "sensor-appeared": ("appeared during a run", lambda telemetry: telemetry.appeared),
}


def _sensors(good: Sequence[RunRecord], group: str) -> Iterator[Finding]:
    """Yield findings about sensors that showed impossible values, vanished or appeared, and about lost samples."""
    for kind, (what, names_in) in _SENSOR_FAULTS.items():
        names = [
            set(names_in(one.conditions.telemetry)) if one.conditions and one.conditions.telemetry else set[str]()
            for one in good
        ]
        touched = sum(bool(one) for one in names)
        if touched:
            listed = ", ".join(sorted(set[str]().union(*names)))
            sentence = f"{listed} {what} ({touched} of {len(good)} runs)"
            yield Finding(kind=kind, level="note", sentence=sentence, values={group: float(touched)})
    lost = [one.conditions.lost for one in good if one.conditions is not None and one.conditions.lost]
    if lost:
        sentence = f"the samples of {len(lost)} of {len(good)} runs were lost: {lost[-1]}"
        yield Finding(kind="samples-lost", level="note", sentence=sentence, values={group: float(len(lost))})
