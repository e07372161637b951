# SPDX-License-Identifier: Apache-2.0
"""Every run as a point in run order, so that drift is seen; below it the temperature at which each run began."""

from __future__ import annotations

from collections.abc import Iterator

from ktrial.domain.comparison import ArmValues, Comparison, OutcomeComparison
from ktrial.report.bench import show
from ktrial.report.charts.drawing import (
    Cast,
    Chart,
    Spec,
    Style,
    Table,
    ValueAxis,
    arm_colour,
    arm_shape,
    axis_title,
    cast_of,
    frame,
    label,
    spread_labels,
    value_axis,
)
from ktrial.report.charts.points import Selection, select
from ktrial.report.numbers import column

PLACE = 10
_HEIGHT = 170
_LABEL_ROOM = 84
_LINE = 14


def of_outcome(comparison: Comparison, outcome: OutcomeComparison, style: Style) -> Iterator[Chart]:
    """Points in order, the median of each arm as a line with the arm's name at its end."""
    cast = cast_of(comparison)
    selection = select(outcome, cast, style)
    if not selection.shown:
        return
    order = "in the order in which they were made" if selection.ordered else "arm by arm: their order is not known"
    yield Chart(
        name="runs",
        title="Every run",
        caption=f"Every run {order}; dashed lines are medians.{selection.note}{cast.note}",
        spec=frame(style, outcome.name, _body(outcome, selection, cast, style)),
        table=_table(outcome, selection, cast),
        marks=True,
        arm_column=1,
    )


def _table(outcome: OutcomeComparison, selection: Selection, cast: Cast) -> Table:
    kept = column((one.point.value for one in selection.shown), outcome.unit)
    warm = any(one.point.temperature_c is not None for one in selection.shown)
    blocks = any(one.point.block is not None for one in selection.shown)
    headers = ["place", "arm", kept.unit, "run"]
    headers += (["block"] if blocks else []) + (["°C at start"] if warm else [])
    rows = []
    for one in selection.shown:
        point = one.point
        row = [
            "-" if point.place is None else str(point.place),
            cast.arms[one.arm],
            kept.show(point.value),
            point.run,
        ]
        row += ([point.block or "-"] if blocks else []) + (
            ["-" if point.temperature_c is None else f"{point.temperature_c:.1f}"] if warm else []
        )
        rows.append(tuple(row))
    return Table(headers=tuple(headers), rows=tuple(rows), numeric=(0, 2, 5 if blocks else 4))


def _body(outcome: OutcomeComparison, selection: Selection, cast: Cast, style: Style) -> Spec:
    arms = [values for values in outcome.arms if values.arm in cast.arms and values.points]
    axis = value_axis(outcome, [one.point.value for one in selection.shown] + [values.median for values in arms])
    first, last = selection.shown[0].at, selection.shown[-1].at
    room = max(1.0, (last - first) * 0.02)
    x: Spec = {
        "type": "quantitative",
        "scale": {"domain": [first - room, last + room], "nice": False, "zero": False},
        "axis": {"title": "run" if selection.ordered else "run (order not known)", "grid": False, "tickMinStep": 1},
    }
    temperatures = [
        {"at": one.at, "warmth": one.point.temperature_c, "arm": one.arm}
        for one in selection.shown
        if one.point.temperature_c is not None
    ]
    panel = _values_panel(outcome, selection, cast, style, axis, x)
    if not temperatures:
        return panel
    panel["layer"][0]["encoding"]["x"] = x | {"field": "at", "axis": None}
    return {"vconcat": [panel, _temperature_panel(temperatures, x, cast, style)], "bounds": "flush", "spacing": 10}


def _values_panel(
    outcome: OutcomeComparison, selection: Selection, cast: Cast, style: Style, axis: ValueAxis, x: Spec
) -> Spec:
    y: Spec = {
        "type": "quantitative",
        "scale": axis.scale(),
        "axis": {"title": axis_title(outcome, axis), "tickCount": 5},
    }
    points = [{"at": one.at, "value": axis.at(one.point.value), "arm": one.arm} for one in selection.shown]
    many = len(points) > 150
    colour = arm_colour(cast, style)
    return {
        "width": style.width - _LABEL_ROOM - 60,
        "height": _HEIGHT,
        "data": {"values": points},
        "layer": [
            {
                "name": "values",
                "mark": {"type": "point", "filled": True, "size": 18 if many else 42, "opacity": 0.55 if many else 0.8},
                "encoding": {
                    "x": {"field": "at"} | x,
                    "y": {"field": "value"} | y,
                    "color": colour,
                    "shape": arm_shape(cast),
                },
            },
            *_medians(outcome, cast, axis, y, colour),
        ],
    }


def _medians(outcome: OutcomeComparison, cast: Cast, axis: ValueAxis, y: Spec, colour: Spec) -> list[Spec]:
    arms = [values for values in outcome.arms if values.arm in cast.arms and values.points]
    wanted = [axis.pixel(values.median, _HEIGHT) for values in arms]
    places = spread_labels(wanted, _LINE, 4, _HEIGHT - 4)
    medians = [_median(values, place, cast, axis, outcome) for values, place in zip(arms, places, strict=True)]
    return [
        {
            "data": {"values": medians},
            "mark": {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 1.6},
            "encoding": {"y": {"field": "median"} | y, "color": colour},
        },
        *(
            {
                "data": {"values": [one]},
                "mark": {
                    "type": "text",
                    "align": "left",
                    "dx": 6,
                    "x": "width",
                    "y": one["place"],
                    "fontWeight": "bold",
                },
                "encoding": {"text": {"field": "label"}, "color": colour},
            }
            for one in medians
        ),
    ]


def _median(values: ArmValues, place: float, cast: Cast, axis: ValueAxis, outcome: OutcomeComparison) -> Spec:
    return {
        "arm": cast.number(values.arm),
        "median": axis.at(values.median),
        "place": round(place, 1),
        "label": label(values.arm, 12),
        "shown": show(values.median, outcome.unit),
    }


def _temperature_panel(temperatures: list[Spec], x: Spec, cast: Cast, style: Style) -> Spec:
    return {
        "width": style.width - _LABEL_ROOM - 60,
        "height": 46,
        "data": {"values": temperatures},
        "mark": {"type": "point", "filled": True, "size": 10, "opacity": 0.7},
        "encoding": {
            "x": {"field": "at"} | x,
            "y": {
                "field": "warmth",
                "type": "quantitative",
                "scale": {"zero": False, "padding": 4},
                "axis": {"title": "°C at start", "tickCount": 2},
            },
            "color": arm_colour(cast, style),
        },
    }
