# SPDX-License-Identifier: Apache-2.0
"""One outcome over the sessions of a store, and the changes of its level."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from ktrial.compare.arms import Arm, ComparedRun
from ktrial.compare.history.model import Differs, History, LevelChange, Moment
from ktrial.compare.runs import from_store
from ktrial.compare.series import ComparedSeries, find_series, series_of
from ktrial.compare.sources import is_of_trial
from ktrial.judge.model.verdict import NEEDED, Effect
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.outcome import Direction
from ktrial.results.model import StoredSession
from ktrial.results.ports import ReadResults

By = Literal["session", "kernel"]
#: The name of a moment with an unknown kernel.
_UNKNOWN = "?"


def history(wanted: str, results: ReadResults, *, label: str | None, by: By) -> History:
    sessions = {one.session: one for one in _sessions_with(results, label)}
    every = [Arm(name=name, sources=(name,), runs=tuple(_runs(session, results))) for name, session in sessions.items()]
    arms = [arm for arm in every if not arm.runs or not is_of_trial([arm])]
    found = series_of(arms)
    if not found:
        nothing = f"no run{'' if label is None else f' labelled {label!r}'} has a measurement"
        why = f"{nothing} (sessions of trials don't count)" if len(arms) < len(every) else nothing
        raise BadInput(why, hint="run `ktrial runs` to list the sessions")
    series = find_series(wanted, found.values())
    if series.mixed is not None:
        raise BadInput(
            f"cannot follow {series.name}, because {series.mixed}", hint="select sessions of one kind with --label"
        )
    moments = tuple(_moments(series, sessions, by))
    changes, doubts = _changes(moments, series.direction)
    return History(
        outcome=series.name,
        unit=series.unit,
        direction=series.direction,
        label=label,
        by=by,
        moments=moments,
        changes=tuple(changes),
        needed=NEEDED,
        notes=(*_notes(moments), *_of_trials(len(every) - len(arms)), *_of_imports(moments, sessions), *doubts),
    )


def _of_trials(left_out: int) -> Iterator[str]:
    if left_out:
        yield f"{left_out} sessions of trials left out: their arms are different configurations"


def _of_imports(moments: Sequence[Moment], sessions: Mapping[str, StoredSession]) -> Iterator[str]:
    used = [name for moment in moments for name in moment.sessions]
    imported = sum(sessions[name].origin.startswith("import:") for name in used)
    if imported:
        yield f"{imported} of {len(used)} sessions were imported from files: they show the time of the import"


def _sessions_with(results: ReadResults, label: str | None) -> list[StoredSession]:
    every = sorted(results.sessions(), key=lambda one: (one.started_unix_ms, one.session))
    if label is None:
        return every
    labels = list(dict.fromkeys(one.label for one in every if one.label is not None))
    if label not in labels:
        raise UnknownName(
            "label", label, labels, hint=f"use one of: {', '.join(labels)}" if labels else "leave out --label"
        )
    return [one for one in every if one.label == label]


def _runs(session: StoredSession, results: ReadResults) -> Iterator[ComparedRun]:
    for run in results.runs(session.session):
        made = from_store(session, run)
        if made is not None:
            yield made


def _moments(series: ComparedSeries, sessions: Mapping[str, StoredSession], by: By) -> Iterator[Moment]:
    """Yield a moment for each session, or for each kernel in order of its first session."""
    groups: dict[str, list[str]] = {}
    for name in series.runs:
        kernel = _facts_of(sessions[name], series).get("kernel", _UNKNOWN)
        groups.setdefault(name if by == "session" else kernel, []).append(name)
    for group, names in groups.items():
        values = [[value for _, value in series.runs[name]] for name in names]
        every = [value for some in values for value in some]
        known = [_facts_of(sessions[name], series) for name in names]
        keys = dict.fromkeys(key for one in known for key in one)
        told = {key: {one[key] for one in known if key in one} for key in keys}
        yield Moment(
            name=group,
            sessions=tuple(names),
            started_unix_ms=sessions[names[0]].started_unix_ms,
            runs=len(every),
            median=statistics.median(statistics.median(some) for some in values),
            minimum=min(every),
            maximum=max(every),
            known={key: some.pop() for key, some in told.items() if len(some) == 1},
        )


def _facts_of(session: StoredSession, series: ComparedSeries) -> dict[str, str]:
    """Return the known properties of a session, and the properties that all its runs share."""
    runs = [run for run, _ in series.runs[session.session]]
    keys = sorted({key for run in runs for key in run.known})
    told = {key: {run.known.get(key) for run in runs} for key in keys}
    known = {key: next(iter(some)) for key, some in told.items() if len(some) == 1}
    given = {"label": session.label, "kernel": session.kernel_release, "boot": session.boot_id}
    versions = {"ktrial": session.document.get("ktrial_version")}
    return {key: str(value) for key, value in {**known, **given, **versions}.items() if value is not None}


def _changes(moments: Sequence[Moment], direction: Direction | None) -> tuple[list[LevelChange], list[str]]:
    import numpy as np

    from ktrial.judge.stats.change_points import change_points
    from ktrial.judge.stats.diagnostics import autocorrelation
    from ktrial.judge.stats.unpaired import hodges_lehmann

    medians = np.array([one.median for one in moments])
    positive = bool(np.all(medians > 0))
    scores = (np.log(medians) if positive else medians) * (-1 if direction == "lower" else 1)
    points = change_points(scores)
    bounds = [0, *(point.place for point in points), len(moments)]
    found = []
    for number, point in enumerate(points):
        before, after = scores[bounds[number] : point.place], scores[point.place : bounds[number + 2]]
        middle, low, high = hodges_lehmann(before[np.newaxis], after[np.newaxis], 0.05)
        effect = Effect(
            estimate=float(middle[0]),
            low=None if low is None else float(low[0]),
            high=None if high is None else float(high[0]),
            scale="log" if positive else "difference",
            method="Hodges-Lehmann of the levels, exact interval",
        )
        found.append(
            LevelChange(
                place=point.place + 1,
                name=moments[point.place].name,
                before=len(before),
                after=len(after),
                p=point.p,
                effect=effect,
                differs=tuple(_differs(moments[point.place - 1].known, moments[point.place].known)),
            )
        )
    levels = np.split(scores, bounds[1:-1])
    check = autocorrelation(np.concatenate([level - np.median(level) for level in levels]))
    if check is None or check.holds:
        return found, []
    return found, [f"{check.sentence}: some of the changes may be false alarms"]


def _differs(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Differs]:
    """Yield the properties that differ between the last moment before the change and the first after it."""
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) != after.get(key):
            yield Differs(name=key, before=before.get(key), after=after.get(key))


def _notes(moments: Sequence[Moment]) -> Iterator[str]:
    if len(moments) < NEEDED:
        yield f"{len(moments)} moments are too few to find changes of level (minimum {NEEDED})"
    machines = {one.known["cpu"] for one in moments if "cpu" in one.known}
    if len(machines) > 1:
        yield f"measured on several machines: {', '.join(sorted(machines))}"
