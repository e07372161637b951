# SPDX-License-Identifier: Apache-2.0
"""What the conditions of a session's runs leave doubtful, as findings that are carried with its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ktrial.domain.conditions import Telemetry
from ktrial.domain.finding import Finding, FindingLevel
from ktrial.domain.gate import GATES, GateFinding, GateLimits, Readings, judge_groups
from ktrial.domain.run import RunRecord

#: Above this share of void runs the others may be a choice of the lucky ones.
MOST_VOID = 0.2
#: Rules that judge a run against the first one; what the others find, they find in all runs together.
_AGAINST_FIRST = frozenset(("distance", "ratio"))


def finding_of(found: GateFinding) -> Finding:
    """What a gate found; what it could not tell is good to know."""
    level = "note" if found.level == "could-not-tell" else found.level
    return Finding(kind=found.gate, level=level, sentence=found.sentence, values=found.values)


def readings_of(record: RunRecord) -> Readings:
    """All readings of a run that gates judge; none where nobody looked."""
    found = record.conditions
    return {} if found is None else {**found.readings_before, **found.readings_during}


def session_findings(records: Iterable[RunRecord], limits: Mapping[str, GateLimits], group: str) -> tuple[Finding, ...]:
    """Doubts about all runs of a session that were looked at; `group` is what they are called together."""
    runs = [one for one in records if not one.is_warm_up and not one.exit.interrupted]
    good = [one for one in runs if one.ok and one.conditions is not None]
    found = judge_groups({group: [readings_of(one) for one in good]}, limits) if good else ()
    return (
        *_against_first(good, group),
        *(finding_of(one) for one in found),
        *_voids(runs, group),
        *_unsettled(good, group),
        *_sensors(good, group),
    )


def _against_first(good: Sequence[RunRecord], group: str) -> Iterator[Finding]:
    """How many runs began otherwise than the first one, with the last of them as an example."""
    for gate in GATES.values():
        touched = [
            one
            for record in good
            for one in record.findings
            if gate.rule in _AGAINST_FIRST and one.gate == gate.name and one.level == "suspect"
        ]
        if touched:
            share = f"{len(touched)} of {len(good)} runs began otherwise than the first"
            sentence = f"{share}, the last: {touched[-1].sentence}"
            yield Finding(kind=gate.name, level="suspect", sentence=sentence, values={group: float(len(touched))})


def _voids(runs: Sequence[RunRecord], group: str) -> Iterator[Finding]:
    void = [one for one in runs if one.void]
    if void:
        level: FindingLevel = "suspect" if len(void) > MOST_VOID * len(runs) else "note"
        are = "is" if len(void) == 1 else "are"
        last = "; ".join(void[-1].void)
        sentence = f"{len(void)} of {len(runs)} runs {are} void and counted nowhere, the last: {last}"
        yield Finding(kind="void", level=level, sentence=sentence, values={group: float(len(void))})


def _unsettled(good: Sequence[RunRecord], group: str) -> Iterator[Finding]:
    left = [one.settled.left for one in good if one.settled is not None and one.settled.left]
    if left:
        sentence = (
            f"{len(left)} of {len(good)} runs began before the machine had settled, the last: {'; '.join(left[-1])}"
        )
        yield Finding(kind="settle", level="note", sentence=sentence, values={group: float(len(left))})


_TOLD: Mapping[str, tuple[str, Callable[[Telemetry], Iterable[str]]]] = {
    "sensor-lied": ("showed what cannot be", lambda told: told.lies),
    "sensor-gone": ("vanished during a run", lambda told: told.gone),
    "sensor-appeared": ("appeared during a run", lambda told: told.appeared),
}


def _sensors(good: Sequence[RunRecord], group: str) -> Iterator[Finding]:
    """What was wrong with sensors; their columns have no value then."""
    for kind, (what, names_in) in _TOLD.items():
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
