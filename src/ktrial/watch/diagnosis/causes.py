# SPDX-License-Identifier: Apache-2.0
"""Finds when each cause was active in a recording: by its events, or by series that exceed their limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from math import inf

import msgspec
import numpy as np

from ktrial.judge.stats.arrays import Array, Truth
from ktrial.judge.stats.coincidence import Activity, merged
from ktrial.recordings.model import Event, Recording, Series, rate_of
from ktrial.watch.diagnosis.symptoms import Happening, Sign, Symptom


class AtWork(msgspec.Struct, frozen=True, kw_only=True):
    """A cause's activity with its evidence and events; `activity` is None if the recording cannot show the cause."""

    symptom: Symptom
    activity: Activity | None
    shown_by: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()


def at_work(symptom: Symptom, recording: Recording) -> AtWork:
    """Return the activity of a cause. Events take precedence over series, because events have exact times."""
    slack_s = recording.clock_error_s + (recording.frames.clock_error_s if recording.frames is not None else 0.0)
    traced = _traced(symptom, recording)
    if traced:
        events = tuple(_events(symptom, recording))
        begins = np.array([event.begin_s for event in events])
        ends = np.array([event.begin_s + (event.duration_s or 0.0) for event in events])
        activity = merged(begins - slack_s, ends + slack_s + symptom.lag_s) if events else _never()
        return AtWork(symptom=symptom, activity=activity, shown_by=traced, events=events)
    parts = []
    names = []
    for sign in symptom.sign:
        for series in _matching(sign.series, recording):
            whole = None if sign.over is None else recording.series.get(_neighbour(series.name, sign.over))
            if sign.over is None or (whole is not None and len(whole.values) == len(series.values)):
                names.append(series.name)
                parts.append(_beyond(sign, series, whole, symptom.lag_s))
    if not parts:
        return AtWork(symptom=symptom, activity=None)
    begins, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    return AtWork(symptom=symptom, activity=merged(begins, ends), shown_by=tuple(dict.fromkeys(names)))


def _never() -> Activity:
    return Activity(np.empty(0), np.empty(0))


def _traced(symptom: Symptom, recording: Recording) -> tuple[str, ...]:
    """Return the symptom's kinds of events that an active source traced."""
    wanted = {kind for one in symptom.happening for kind in one.events}
    active = {source.name for source in recording.sources if source.state == "active"}
    listened = {name.removeprefix("trace.") for name in active}
    listened |= {event.kind for event in recording.events if event.source in active}
    listened |= {
        name.removeprefix("trace.").removesuffix(".count")
        for name, series in recording.series.items()
        if name.startswith("trace.") and name.endswith(".count") and series.source in active
    }
    return tuple(sorted(wanted & listened))


def _events(symptom: Symptom, recording: Recording) -> Iterable[Event]:
    for one in symptom.happening:
        events: Iterable[Event] = (event for event in recording.events if event.kind in one.events)
        together = events if one.together_s is None else _runs(events, one.together_s)
        told = [event for event in together if (event.duration_s or 0.0) >= one.least_s]
        yield from _of_victims(told) if _is_crowded(one, told, recording) else told


def _is_crowded(one: Happening, events: Sequence[Event], recording: Recording) -> bool:
    """Return whether events hit some thread nearly always.

    In that case only events of the frame thread are evidence.
    """
    if one.victims_above is None or not events:
        return False
    begins = np.array([event.begin_s for event in events])
    activity = merged(begins, begins + np.array([event.duration_s or 0.0 for event in events]))
    return float((activity.ends_s - activity.begins_s).sum()) > one.victims_above * recording.length_s


def _of_victims(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events of the frame thread, or all events if that thread is unknown."""
    known = any(event.victim is not None for event in events)
    return [event for event in events if event.victim] if known else events


def _runs(events: Iterable[Event], gap_s: float) -> Iterable[Event]:
    """Merge events of one thread that are at most `gap_s` apart, and add their durations.

    A thread that needs a lot of memory reclaims some again and again, for a few microseconds each time.
    """
    open_runs: dict[tuple[str, int | None], tuple[Event, float]] = {}
    found = []
    for event in events:
        key = (event.kind, event.pid)
        end_s = event.begin_s + (event.duration_s or 0.0)
        first, until_s = open_runs.get(key, (event, -inf))
        if event.begin_s - until_s <= gap_s:
            took_s = (first.duration_s or 0.0) + (event.duration_s or 0.0)
            open_runs[key] = (msgspec.structs.replace(first, duration_s=took_s), end_s)
            continue
        if key in open_runs:
            found.append(first)
        open_runs[key] = (event, end_s)
    return sorted((*found, *(first for first, _ in open_runs.values())), key=lambda event: event.begin_s)


def _matching(patterns: Sequence[str], recording: Recording) -> list[Series]:
    return [
        series for name, series in recording.series.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def _neighbour(name: str, last: str) -> str:
    return f"{name.rpartition('.')[0]}.{last}"


def _beyond(sign: Sign, series: Series, whole: Series | None, lag_s: float) -> tuple[Array, Array]:
    times_s, values = rate_of(series)
    if whole is not None:
        total = rate_of(whole)[1]
        values = np.divide(values, total, out=np.full(len(values), np.nan), where=total > 0)
    before_s = np.concatenate([times_s[:1], times_s[:-1]])
    if series.kind == "gauge":
        half_s = np.diff(times_s, append=times_s[-1:]) / 2
        begins, ends = (before_s + times_s) / 2, times_s + half_s
    else:
        begins, ends = before_s, times_s
    hit = _is_beyond(sign, values)
    return begins[hit], ends[hit] + lag_s


def _is_beyond(sign: Sign, values: Array) -> Truth:
    known = np.isfinite(values)
    if not known.any():
        return known
    usual = float(np.median(values[known]))
    filled = np.where(known, values, usual)
    if sign.above is not None:
        return np.asarray(known & (filled > sign.above))
    if sign.below is not None:
        return np.asarray(known & (filled < sign.below))
    if sign.times_usual is not None:
        return np.asarray(known & (filled > sign.times_usual * usual))
    return np.asarray(known & (filled < (sign.share_of_usual or 0.0) * usual))
