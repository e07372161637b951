# SPDX-License-Identifier: Apache-2.0
"""Response curves: if arms set one knob to several values, the effect of each value with its interval."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.trial_summary import ToldArm, ToldTrial
from ktrial.judge.model.words import effect_text
from ktrial.reports.charts.drawing import MARKS, Chart, Spec, Style, Table, ends_of, frame, label, linear, margin_band
from ktrial.reports.charts.forest import RATIO_LABEL, ForestRow, reach_of, ticks

PLACE = 3
_HEIGHT = 150
_BESIDE = 76
#: Values lie on a logarithmic axis if the ratio of the largest to the smallest exceeds this.
_LOG_FROM = 20.0
_FEWEST = 2


class ResponseStep(NamedTuple):
    """A tested value of a knob and its effect."""

    value: str
    row: ForestRow


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a chart for each knob that the trial tested with several values."""
    primary = next((one for one in comparison.outcomes if one.role == "primary"), None)
    if comparison.trial is None or primary is None:
        return
    for number, (knob, steps) in enumerate(_grids(comparison.trial, primary).items(), 1):
        yield Chart(
            name=f"response-{number}" if number > 1 else "response",
            title=f"{label(knob, 40)}, value by value",
            caption=f"Points are estimates against {label(comparison.control)} (the line), bars their intervals. The "
            "band is the margin; up is better.",
            spec=frame(style, knob, _body(knob, steps, primary, style)),
            table=_table(knob, steps, primary),
            marks=True,
        )


def _grids(trial: ToldTrial, primary: OutcomeComparison) -> dict[str, list[ResponseStep]]:
    """Return the values and effects of each knob; the key also names other settings in which arms differ."""
    rows = {one.arm: ForestRow(primary, one, one.effect) for one in primary.contrasts if one.effect is not None}
    alike: dict[frozenset[str], list[tuple[Mapping[str, str], ForestRow]]] = {}
    for arm in trial.arms:
        settings = _settings(arm)
        if settings and arm.arm in rows and rows[arm.arm].effect.scale == "log":
            alike.setdefault(frozenset(settings), []).append((settings, rows[arm.arm]))
    every = [settings for arms in alike.values() for settings, _ in arms]
    differ = {knob for settings in every for knob in settings if len({one.get(knob) for one in every}) > 1}
    return {
        name: _ordered(steps)
        for arms in alike.values()
        for name, steps in _curves(arms, differ)
        if len({step.value for step in steps}) == len(steps) >= _FEWEST
    }


def _curves(
    arms: Sequence[tuple[Mapping[str, str], ForestRow]], differ: Collection[str]
) -> Iterator[tuple[str, list[ResponseStep]]]:
    """Yield curves along the knob with the most values: one for each combination of values of the other knobs.

    All `arms` set the same knobs. Only knobs in `differ` make combinations.
    """
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
    """Return an arm's settings by knob, regardless of device; empty if a person set the arm or devices differ."""
    settings: dict[str, str] = {}
    for name, value in {} if arm.manual is not None else arm.sets.items():
        if settings.setdefault(name.partition("@")[0], value) != value:
            return {}
    return settings


def _numbers(steps: Sequence[ResponseStep]) -> list[float] | None:
    try:
        numbers = [float(step.value) for step in steps]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _ordered(steps: list[ResponseStep]) -> list[ResponseStep]:
    return steps if _numbers(steps) is None else sorted(steps, key=lambda step: float(step.value))


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
            **{
                name: max(-reach, min(reach, end))
                for name, end in zip(("low", "high"), ends_of(step.row.effect), strict=True)
            },
            "colour": style.palette.verdict(step.row.contrast.verdict),
            "mark": MARKS[step.row.contrast.verdict],
        }
        for place, step in enumerate(steps)
    ]
    x = _x(knob, steps, numbers)
    shown = {"values": ticks(reach, 2), "labelExpr": RATIO_LABEL, "title": None, "grid": False}
    y = linear(-reach, reach, shown)
    colour: Spec = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    at = {"field": "at"} | x
    return {
        "width": style.width - _BESIDE,
        "height": _HEIGHT,
        "data": {"values": values},
        "layer": [
            *margin_band(margin, y, style.palette),
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
                "encoding": {"x": at, "y": {"field": "estimate"} | y, "text": {"field": "mark"}, "color": colour},
            },
        ],
    }


def _line(at: Spec, y: Spec, style: Style) -> Spec:
    return {
        "mark": {"type": "line", "color": style.palette.muted, "strokeWidth": 1},
        "encoding": {"x": at, "y": {"field": "estimate"} | y},
    }


def _x(knob: str, steps: Sequence[ResponseStep], numbers: Sequence[float] | None) -> Spec:
    """Return the channel of the values: numbers at their places, words side by side."""
    values = [step.value for step in steps]
    if numbers is None:
        return linear(-0.5, len(steps) - 0.5, _axis(knob, values, range(len(steps))))
    low, high = min(numbers), max(numbers)
    axis = _axis(knob, values, numbers)
    if low > 0 and high / low > _LOG_FROM:
        room = (high / low) ** 0.06
        scale = {"type": "log", "domain": [low / room, high * room], "nice": False}
        return {"type": "quantitative", "scale": scale, "axis": axis}
    room = (high - low) * 0.06
    return linear(low - room, high + room, axis)


def _axis(knob: str, values: Sequence[str], places: Sequence[float]) -> Spec:
    """Return an axis with a tick at each value, labelled as the protocol writes it."""
    pairs = zip(places, values, strict=True)
    words = " ".join(f"datum.value == {json.dumps(place)} ? {json.dumps(label(value, 14))} :" for place, value in pairs)
    return {"title": label(knob, 40), "grid": False, "values": list(places), "labelExpr": f"{words} ''"}
