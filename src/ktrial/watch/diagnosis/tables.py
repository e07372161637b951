# SPDX-License-Identifier: Apache-2.0
"""Tables of a diagnosis for the terminal and the HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.judge.model.interval import Interval
from ktrial.judge.model.words import p_text
from ktrial.kit.units import show_seconds, three_digits
from ktrial.watch.diagnosis.model import Diagnosis

CAUSES = ("cause", "stutters", "late time", "by chance", "p", "active", "named")
EPISODES = ("begins at", "lasts", "after a pause of", "stutters")
EVENTS = ("event", "seen", "longest", "at", "together", "most often in")
#: Maximum number of phases that have columns in tables.
_MOST_PHASES = 6


def range_text(one: Interval, factor: float, unit: str) -> str:
    sign = f" {unit}" if unit else ""
    if one.low is None or one.high is None:
        return f"{three_digits(one.estimate * factor)}{sign}"
    estimate, low, high = (three_digits(value * factor) for value in (one.estimate, one.low, one.high))
    return f"{estimate}{sign} ({low} to {high})"


def cause_rows(found: Diagnosis) -> list[list[str]]:
    return [
        [
            cause.name,
            str(cause.overlapping) if cause.p is not None else "-",
            "-" if cause.late_share is None else f"{cause.late_share:.0%}",
            f"{cause.expected:.1f}" if cause.p is not None else "-",
            p_text(cause.p_adjusted),
            f"{cause.active_share:.1%}",
            _standing(cause.standing, cause.with_cause, cause.p, found),
        ]
        for cause in found.causes
        if cause.standing not in {"idle", "unseen"}
    ]


def _standing(standing: str, with_cause: str | None, p: float | None, found: Diagnosis) -> str:
    """Return whether a cause is named: `yes`; `no`, with the named cause that it goes with; or `-` without a test."""
    if standing == "named":
        return "yes"
    if standing == "with-another":
        other = next((one.name for one in found.causes if one.id == with_cause), with_cause or "")
        return f"no: goes with {other}"
    return "no" if p is not None else "-"


def event_rows(found: Diagnosis) -> list[list[str]]:
    return [
        [
            one.kind,
            f"{one.count}, {one.lost} lost" if one.lost else str(one.count),
            "-" if one.longest_s is None else show_seconds(one.longest_s),
            "-" if one.longest_at_s is None else f"{one.longest_at_s:.1f} s",
            "-" if one.together_s is None else show_seconds(one.together_s),
            ", ".join(f"{name} {count / one.count:.0%}" for name, count in one.threads.items()) or "-",
        ]
        for one in found.events
    ]


def episode_rows(found: Diagnosis, most: int) -> list[list[str]]:
    """Return a row under EPISODES for each of the `most` largest episodes, in order of time."""
    fullest = sorted(found.episodes, key=lambda one: -one.count)[:most]
    return [
        [
            f"{one.begin_s:.0f} s",
            show_seconds(one.end_s - one.begin_s),
            "-" if one.gap_s is None else show_seconds(one.gap_s),
            str(one.count),
        ]
        for one in sorted(fullest, key=lambda one: one.begin_s)
    ]


def phase_names(found: Diagnosis) -> list[str]:
    """Return the names of the phases. Phases with the same name are distinguished by their start times."""
    names = [phase.name for phase in found.phases]
    return [
        phase.name if names.count(phase.name) == 1 else f"{phase.name} from {phase.begin_s:.0f} s"
        for phase in found.phases
    ]


def figure_rows(found: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """Return headers and a row for each series that a sign uses: mean, peak and mean per phase."""
    told = phase_names(found) if 1 < len(found.phases) <= _MOST_PHASES else []
    rows = []
    for one in found.figures:
        whole = range_text(Interval(estimate=one.mean, low=one.low, high=one.high), 1, "")
        parts = ["-" if part is None else range_text(part, 1, "") for part in one.by_phase] if told else []
        rows.append([one.name, one.unit, whole, three_digits(one.peak), *parts])
    return ["mean of", "unit", "whole", "peak", *told], rows


def phase_cause_rows(found: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """Return headers and each cause's overlapping stutters per phase; nothing for a single phase or for many phases."""
    if not 1 < len(found.phases) <= _MOST_PHASES:
        return [], []
    tested = [cause for cause in found.causes if cause.by_phase and cause.overlapping]
    rows = [[cause.name, *map(str, cause.by_phase)] for cause in tested]
    return ["stutters with", *phase_names(found)], rows


def beside_rows(found: Sequence[Diagnosis]) -> tuple[list[str], list[list[str]]]:
    """Return headers and the figures of several recordings side by side, with intervals over blocks of time."""
    rows = [
        ["stutters an hour", *("-" if one.per_hour is None else range_text(one.per_hour, 1, "") for one in found)],
        ["late time", *("-" if one.late_share is None else range_text(one.late_share, 100, "%") for one in found)],
    ]
    for device in dict.fromkeys(device.name for one in found for device in one.devices):
        rows += _device_rows(device, found)
    names = dict.fromkeys(figure.name for one in found for figure in one.figures)
    by_name = [{figure.name: figure for figure in one.figures} for one in found]
    for name in names:
        told = [figures.get(name) for figures in by_name]
        cells = [
            "-" if one is None else range_text(Interval(estimate=one.mean, low=one.low, high=one.high), 1, one.unit)
            for one in told
        ]
        rows.append([name, *cells])
    return ["mean of", *(one.name for one in found)], rows


def _device_rows(name: str, found: Sequence[Diagnosis]) -> list[list[str]]:
    """Return the share of slow requests and the 99th percentile of a device in each recording."""
    told = [next((device for device in one.devices if device.name == name), None) for one in found]
    limit = next(show_seconds(device.limit_s) for device in told if device is not None)
    return [
        [
            f"{name}: above {limit}",
            *("-" if one is None else f"{one.above_share:.2%} of {one.requests}" for one in told),
        ],
        [f"{name}: 99 %", *("-" if one is None or one.p99_s is None else show_seconds(one.p99_s) for one in told)],
    ]


def differing(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the rows whose cells differ, to keep a table short."""
    return [row for row in rows if len(set(row[1:])) > 1]
