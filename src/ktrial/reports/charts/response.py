# SPDX-License-Identifier: Apache-2.0
"""Arms that are values of one knob, as a curve: the value against its effect with the interval."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.trial_summary import ToldArm, ToldTrial
from ktrial.judge.model.words import effect_text
from ktrial.reports.charts.drawing import MARKS, Chart, Spec, Style, Table, frame, label
from ktrial.reports.charts.forest import RATIO_LABEL, ForestRow, reach_of, ticks

PLACE = 3
_HEIGHT = 150
_BESIDE = 76
#: From this ratio of the largest to the smallest value on, values lie on a logarithmic axis.
_LOG_FROM = 20.0
_FEWEST = 2


class ResponseStep(NamedTuple):
    """One value that was tried, and what came of it."""

    value: str
    row: ForestRow


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a curve for each knob of which several values were tried."""
    primary = next((one for one in comparison.outcomes if one.role == "primary"), None)
    if comparison.trial is None or primary is None:
        return
    for number, (knob, steps) in enumerate(_grids(comparison.trial, primary).items(), 1):
        yield Chart(
            name=f"response-{number}" if number > 1 else "response",
            title=f"{label(knob, 40)}, value by value",
            caption=f"Points are estimates against {label(comparison.control)} (the line), bars their intervals, the "
            "band is the margin; upwards is better.",
            spec=frame(style, knob, _body(knob, steps, primary, style)),
            table=_table(knob, steps, primary),
            marks=True,
        )


def _grids(trial: ToldTrial, primary: OutcomeComparison) -> dict[str, list[ResponseStep]]:
    """Knob (and what else these arms set, where others differ in that) -> its values with their effects."""
    rows = {one.arm: ForestRow(primary, one, one.effect) for one in primary.contrasts if one.effect is not None}
    alike: dict[frozenset[str], list[tuple[Mapping[str, str], ForestRow]]] = {}
    for arm in trial.arms:
        settings = _settings(arm)
        if settings and arm.arm in rows and rows[arm.arm].effect.scale == "log":
            alike.setdefault(frozenset(settings), []).append((settings, rows[arm.arm]))
    every = [settings for arms in alike.values() for settings, _ in arms]
    differ = {knob for settings in every for knob in settings if len({one.get(knob) for one in every}) > 1}
    found: dict[str, list[ResponseStep]] = {}
    for arms in alike.values():
        for name, steps in _curves(arms, differ):
            if len({step.value for step in steps}) == len(steps) >= _FEWEST:
                found[name] = _ordered(steps)
    return found


def _curves(
    arms: Sequence[tuple[Mapping[str, str], ForestRow]], differ: Collection[str]
) -> Iterator[tuple[str, list[ResponseStep]]]:
    """Of arms that set the same knobs: the one of most values along a curve, one for each combination of the others."""
    counts = {knob: len({settings[knob] for settings, _ in arms}) for knob in arms[0][0]}
    along = max(counts, key=lambda knob: counts[knob])
    others = [knob for knob in counts if knob != along and knob in differ]
    curves: dict[tuple[str, ...], list[ResponseStep]] = {}
    for settings, row in arms:
        curves.setdefault(tuple(settings[knob] for knob in others), []).append(ResponseStep(settings[along], row))
    for values, steps in curves.items():
        beside = ", ".join(f"{knob} = {value}" for knob, value in zip(others, values, strict=True))
        yield (f"{along}, {beside}" if beside else along), steps


def _settings(arm: ToldArm) -> Mapping[str, str]:
    """What an arm sets; one knob of several devices counts once. Nothing if a person did it, or devices differ."""
    found: dict[str, str] = {}
    for name, value in {} if arm.manual is not None else arm.sets.items():
        if found.setdefault(name.partition("@")[0], value) != value:
            return {}
    return found


def _numbers(steps: Sequence[ResponseStep]) -> list[float] | None:
    try:
        found = [float(step.value) for step in steps]
    except ValueError:
        return None
    return found if all(map(math.isfinite, found)) else None


def _ordered(steps: list[ResponseStep]) -> list[ResponseStep]:
    numbers = _numbers(steps)
    return steps if numbers is None else [step for _, step in sorted(zip(numbers, steps, strict=True), key=_first)]


def _first(pair: tuple[float, ResponseStep]) -> float:
    return pair[0]


def _table(knob: str, steps: Sequence[ResponseStep], primary: OutcomeComparison) -> Table:
    rows = tuple(
        (
            step.value,
            step.row.contrast.arm,
            *effect_text(step.row.effect, primary.unit, primary.direction),
            step.row.contrast.verdict,
        )
        for step in steps
    )
    return Table(headers=(knob, "arm", "change", "interval", "verdict"), rows=rows, numeric=(2, 3))


def _body(knob: str, steps: Sequence[ResponseStep], primary: OutcomeComparison, style: Style) -> Spec:
    margin = math.log1p(primary.margin)
    reach = reach_of([step.row for step in steps], 1.5 * margin, 1e-4)
    numbers = _numbers(steps)
    values = [
        {
            "at": place if numbers is None else numbers[place],
            "estimate": step.row.effect.estimate,
            "low": _within(step.row.effect.low, step.row.effect.estimate, reach),
            "high": _within(step.row.effect.high, step.row.effect.estimate, reach),
            "colour": style.palette.verdict(step.row.contrast.verdict),
            "mark": MARKS[step.row.contrast.verdict],
        }
        for place, step in enumerate(steps)
    ]
    x = _x(knob, steps, numbers)
    y: Spec = {
        "type": "quantitative",
        "scale": {"domain": [-reach, reach], "nice": False, "zero": False},
        "axis": {"values": ticks(reach, 2), "labelExpr": RATIO_LABEL, "title": None, "grid": False},
    }
    colour: Spec = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    palette = style.palette
    at = {"field": "at"} | x
    return {
        "width": style.width - _BESIDE,
        "height": _HEIGHT,
        "data": {"values": values},
        "layer": [
            {
                "data": {"values": [{"low": -margin, "high": margin}]},
                "mark": {"type": "rect", "color": palette.band},
                "encoding": {"y": {"field": "low"} | y, "y2": {"field": "high"}},
            },
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "color": palette.muted},
                "encoding": {"y": {"datum": 0} | y},
            },
            *([_line(at, y, style)] if numbers is not None else []),
            {
                "mark": {"type": "rule", "strokeWidth": 2.5, "strokeCap": "round"},
                "encoding": {"x": at, "y": {"field": "low"} | y, "y2": {"field": "high"}, "color": colour},
            },
            {
                "name": "values",
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 70},
                "encoding": {"x": at, "y": {"field": "estimate"} | y, "color": colour},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 9, "fontWeight": "bold"},
                "encoding": {
                    "x": at,
                    "y": {"field": "estimate"} | y,
                    "text": {"field": "mark"},
                    "color": colour,
                },
            },
        ],
    }


def _line(at: Spec, y: Spec, style: Style) -> Spec:
    return {
        "mark": {"type": "line", "color": style.palette.muted, "strokeWidth": 1},
        "encoding": {"x": at, "y": {"field": "estimate"} | y},
    }


def _x(knob: str, steps: Sequence[ResponseStep], numbers: Sequence[float] | None) -> Spec:
    """Return numbers where they lie, words one beside the other."""
    if numbers is None:
        axis = _axis(knob, [step.value for step in steps], list(range(len(steps))))
        return {
            "type": "quantitative",
            "scale": {"domain": [-0.5, len(steps) - 0.5], "nice": False, "zero": False},
            "axis": axis,
        }
    low, high = min(numbers), max(numbers)
    axis = _axis(knob, [step.value for step in steps], list(numbers))
    if low > 0 and high / low > _LOG_FROM:
        room = (high / low) ** 0.06
        return {
            "type": "quantitative",
            "scale": {"type": "log", "domain": [low / room, high * room], "nice": False},
            "axis": axis,
        }
    room = (high - low) * 0.06
    return {
        "type": "quantitative",
        "scale": {"domain": [low - room, high + room], "nice": False, "zero": False},
        "axis": axis,
    }


def _axis(knob: str, values: Sequence[str], places: Sequence[float]) -> Spec:
    """Return a tick at each value, called as it was written."""
    pairs = zip(places, values, strict=True)
    words = " ".join(f"datum.value == {json.dumps(place)} ? {json.dumps(label(value, 14))} :" for place, value in pairs)
    return {"title": label(knob, 40), "grid": False, "values": list(places), "labelExpr": f"{words} ''"}


def _within(end: float | None, estimate: float, reach: float) -> float:
    return max(-reach, min(reach, estimate if end is None else end))
