# SPDX-License-Identifier: Apache-2.0
"""The distribution of values: boxes for a few runs, histograms for many."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from ktrial.bench.numbers import column
from ktrial.judge.model.comparison import ArmValues, Comparison, OutcomeComparison
from ktrial.reports.charts.drawing import (
    Cast,
    Chart,
    Spec,
    Style,
    Table,
    ValueAxis,
    arm_colour,
    cast_of,
    frame,
    value_axis,
    value_channel,
)

PLACE = 12
#: Arms with at least this many values get a histogram instead of a box.
HISTOGRAM_FROM = 100
_LABEL_ROOM = 96
_MOST_BINS = 40


def of_outcome(comparison: Comparison, outcome: OutcomeComparison, style: Style) -> Iterator[Chart]:
    """Yield a chart with a box or a histogram for each arm, on a common axis."""
    cast = cast_of(comparison)
    arms = [values for values in outcome.arms if values.arm in cast.arms and len(values.points) >= 2]
    arms.sort(key=lambda values: cast.number(values.arm))
    if not arms:
        return
    axis = value_axis(outcome, [point.value for values in arms for point in values.points])
    if min(len(values.points) for values in arms) >= HISTOGRAM_FROM:
        title, what = "Distribution of values", "Share of each arm's runs by value."
        body = _histograms(outcome, arms, axis, cast, style)
    else:
        title = "Spread of values"
        what = (
            "Boxes hold the middle half of the runs; the line inside is the median. Thin lines reach to the extremes."
        )
        body = _boxes(outcome, arms, axis, cast, style)
    yield Chart(
        name="spread",
        title=title,
        caption=what + cast.note,
        spec=frame(style, outcome.name, body),
        table=_table(arms, outcome),
    )


def five_numbers(values: Sequence[float]) -> tuple[float, float, float, float, float]:
    """Return minimum, lower quartile, median, upper quartile and maximum (numpy's and R's default quartiles)."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return min(values), low, middle, high, max(values)


def _table(arms: Sequence[ArmValues], outcome: OutcomeComparison) -> Table:
    kept = column((values.median for values in arms), outcome.unit)
    rows = []
    for values in arms:
        five = five_numbers([point.value for point in values.points])
        rows.append((values.arm, str(values.n), *(kept.show(value) for value in five)))
    headers = ("arm", "n", f"minimum ({kept.unit})", "lower quartile", "median", "upper quartile", "maximum")
    return Table(headers=headers, rows=tuple(rows), numeric=tuple(range(1, len(headers))))


def _boxes(outcome: OutcomeComparison, arms: Sequence[ArmValues], axis: ValueAxis, cast: Cast, style: Style) -> Spec:
    values = []
    for one in arms:
        five = [axis.at(value) for value in five_numbers([point.value for point in one.points])]
        five_by_name = dict(zip(("low", "q1", "median", "q3", "high"), five, strict=True))
        values.append({"arm": cast.number(one.arm), "name": cast.name(one.arm)} | five_by_name)
    x = value_channel(outcome, axis)
    y: Spec = {"field": "arm", "type": "ordinal", "axis": None}
    colour = arm_colour(cast, style)
    return {
        "width": style.width - _LABEL_ROOM - 12,
        "height": {"step": 34},
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.4},
                "encoding": {"x": {"field": "low"} | x, "x2": {"field": "high"}, "y": y, "color": colour},
            },
            {
                "mark": {"type": "bar", "size": 16, "opacity": 1},
                "encoding": {"x": {"field": "q1"} | x, "x2": {"field": "q3"}, "y": y, "color": colour},
            },
            {
                "mark": {"type": "tick", "size": 16, "thickness": 2.5, "color": style.palette.background},
                "encoding": {"x": {"field": "median"} | x, "y": y},
            },
            {
                "mark": {"type": "text", "align": "right", "x": -8, "fontWeight": "bold"},
                "encoding": {"text": {"field": "name"}, "y": y, "color": colour},
            },
        ],
    }


def bins(values: Sequence[float], axis: ValueAxis) -> int:
    """Return the number of bins by the rule of Freedman and Diaconis, from 8 to 40."""
    placed = sorted(_position(value, axis) for value in values)
    _, low, _, high, _ = five_numbers(placed)
    width = 2 * (high - low) / len(placed) ** (1 / 3)
    return max(8, min(_MOST_BINS, math.ceil(1 / width) if width > 0 else _MOST_BINS))


def _position(value: float, axis: ValueAxis) -> float:
    """Return the place of a value on the axis, from 0 to 1."""
    return 1 - axis.pixel(value, 1.0)


def _edge(place: float, axis: ValueAxis) -> float:
    if axis.log:
        return math.exp(math.log(axis.low) + place * (math.log(axis.high) - math.log(axis.low)))
    return axis.low + place * (axis.high - axis.low)


def _histograms(
    outcome: OutcomeComparison, arms: Sequence[ArmValues], axis: ValueAxis, cast: Cast, style: Style
) -> Spec:
    count = max(bins([point.value for point in values.points], axis) for values in arms)
    x, panels, highest = value_channel(outcome, axis), [], 0.0
    for one in arms:
        counted = [0] * count
        for point in one.points:
            counted[min(count - 1, int(_position(point.value, axis) * count))] += 1
        shares = [number / len(one.points) for number in counted]
        highest = max(highest, *shares)
        values = [
            {
                "from": _edge(at / count, axis),
                "to": _edge((at + 1) / count, axis),
                "share": share,
                "arm": cast.number(one.arm),
                "zero": 0,
            }
            for at, share in enumerate(shares)
            if share
        ]
        panels.append(_histogram(cast.name(one.arm), values, x, cast, style))
    for panel in panels:
        panel["layer"][0]["encoding"]["y"]["scale"] = {"domain": [0, highest]}
    for panel in panels[:-1]:
        panel["layer"][0]["encoding"]["x"] = x | {"field": "from", "axis": {"labels": False, "title": None}}
    return {"vconcat": panels, "bounds": "flush", "spacing": 6}


def _histogram(name: str, values: list[Spec], x: Spec, cast: Cast, style: Style) -> Spec:
    colour = arm_colour(cast, style)
    share: Spec = {"field": "share", "type": "quantitative", "axis": None}
    return {
        "width": style.width - _LABEL_ROOM - 12,
        "height": 54,
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "rect", "opacity": 0.9},
                "encoding": {
                    "x": {"field": "from"} | x,
                    "x2": {"field": "to"},
                    "y": share,
                    "y2": {"field": "zero"},
                    "color": colour,
                },
            },
            {
                "data": {"values": [{"name": name, "arm": values[0]["arm"]}]},
                "mark": {"type": "text", "align": "right", "x": -8, "y": 30, "fontWeight": "bold"},
                "encoding": {"text": {"field": "name"}, "color": colour},
            },
        ],
    }
