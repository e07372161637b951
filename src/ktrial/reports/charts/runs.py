# SPDX-License-Identifier: Apache-2.0
"""Every run as a point in run order, which shows drift; below, once per benchmark, the conditions of the runs.

If there are too many points, only a selection is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ktrial.bench.numbers import column
from ktrial.judge.model.comparison import Comparison, OutcomeComparison, Point
from ktrial.reports.charts.drawing import (
    Cast,
    Chart,
    Spec,
    Style,
    Table,
    ValueAxis,
    arm_colour,
    arm_shape,
    cast_of,
    frame,
    linear,
    names_at_end,
    value_axis,
    value_channel,
)
from ktrial.reports.order import by_weight
from ktrial.reports.run_conditions import ShownCondition, worth_showing


class PlacedMeasurement(msgspec.Struct, frozen=True):
    """A measurement with the number of its arm and its place in the order of all runs."""

    arm: int
    at: int
    point: Point


class PointSelection(msgspec.Struct, frozen=True):
    """The points shown out of `of` points; `ordered` is true if the place of every run in the order is known."""

    shown: tuple[PlacedMeasurement, ...]
    of: int
    ordered: bool

    @property
    def note(self) -> str:
        """Return the sentence that a caption adds if points are left out; empty otherwise."""
        if len(self.shown) == self.of:
            return ""
        return (
            f" {len(self.shown):,} of {self.of:,} runs are drawn: "
            "the smallest and the largest value of each arm in each stretch of consecutive runs."
        )


def select(outcome: OutcomeComparison, cast: Cast, style: Style) -> PointSelection:
    """Return the points of all arms in run order; if they do not fit, a proportional share of each arm."""
    arms = [values for values in outcome.arms if values.arm in cast.arms]
    total = sum(len(values.points) for values in arms)
    places = [point.place for values in arms for point in values.points]
    ordered = None not in places and len(set(places)) == len(places)
    kept: list[PlacedMeasurement] = []
    at = 0
    for values in arms:
        number = cast.number(values.arm)
        all_of_arm = []
        for point in values.points:
            at += 1
            all_of_arm.append(
                PlacedMeasurement(number, point.place if ordered and point.place is not None else at, point)
            )
        all_of_arm.sort(key=lambda one: one.at)
        share = len(all_of_arm) if total <= style.most_points else style.most_points * len(all_of_arm) // total
        kept += thin(all_of_arm, share)
    return PointSelection(tuple(sorted(kept, key=lambda one: one.at)), total, ordered)


def thin(points: Sequence[PlacedMeasurement], most: int) -> list[PlacedMeasurement]:
    """Return all points if they are few, otherwise the smallest and the largest of each stretch, to show extremes."""
    if len(points) <= max(2, most):
        return list(points)
    stretches = max(1, most // 2)
    kept = []
    for number in range(stretches):
        part = points[number * len(points) // stretches : (number + 1) * len(points) // stretches]
        ends = {min(part, key=_value).at, max(part, key=_value).at}
        kept += [one for one in part if one.at in ends]
    return kept


def _value(one: PlacedMeasurement) -> float:
    return one.point.value


PLACE = 10
_HEIGHT = 170
_CONDITION_HEIGHT = 46
_CONDITION_GAP = 26
_LABEL_ROOM = 84


def of_outcome(comparison: Comparison, outcome: OutcomeComparison, style: Style) -> Iterator[Chart]:
    """Yield a chart of the runs in order; a line with the arm's name at its end marks each arm's median."""
    cast = cast_of(comparison)
    selection = select(outcome, cast, style)
    if not selection.shown:
        return
    order = "in the order in which they were made" if selection.ordered else "arm by arm: their order is unknown"
    first = next(one for one in by_weight(comparison.outcomes) if one.benchmark == outcome.benchmark)
    varied = worth_showing(one.point for one in selection.shown)
    conditions = varied if first.name == outcome.name else ()
    elsewhere = f" The chart of {first.name} shows the conditions of these runs." if varied and not conditions else ""
    yield Chart(
        name="runs",
        title="Every run",
        caption=f"Points are runs {order}; dashed lines are medians.{elsewhere}{selection.note}{cast.note}",
        spec=frame(style, outcome.name, _body(outcome, selection, conditions, cast, style)),
        table=_table(outcome, selection, conditions, cast),
        marks=True,
        arm_column=1,
    )


def _table(
    outcome: OutcomeComparison, selection: PointSelection, conditions: Sequence[ShownCondition], cast: Cast
) -> Table:
    kept = column((one.point.value for one in selection.shown), outcome.unit)
    blocks = any(one.point.block is not None for one in selection.shown)
    headers = ["place", "arm", kept.unit, "run"]
    headers += (["block"] if blocks else []) + [one.title for one in conditions]
    rows = []
    for one in selection.shown:
        point = one.point
        row = ["-" if point.place is None else str(point.place), cast.arms[one.arm], kept.show(point.value), point.run]
        row += ([point.block or "-"] if blocks else []) + [each.show(each.of(point)) for each in conditions]
        rows.append(tuple(row))
    first = 5 if blocks else 4
    numeric = (0, 2, *range(first, first + len(conditions)))
    return Table(headers=tuple(headers), rows=tuple(rows), numeric=numeric)


def _body(
    outcome: OutcomeComparison,
    selection: PointSelection,
    conditions: Sequence[ShownCondition],
    cast: Cast,
    style: Style,
) -> Spec:
    arms = [values for values in outcome.arms if values.arm in cast.arms and values.points]
    axis = value_axis(outcome, [one.point.value for one in selection.shown] + [values.median for values in arms])
    first, last = selection.shown[0].at, selection.shown[-1].at
    room = max(1.0, (last - first) * 0.02)
    title = "run" if selection.ordered else "run (order unknown)"
    x = linear(first - room, last + room, {"title": title, "grid": False, "tickMinStep": 1})
    panel = _values_panel(outcome, selection, cast, style, axis, x)
    if not conditions:
        return panel
    panel["layer"][0]["encoding"]["x"] = x | {"field": "at", "axis": None}
    below = [
        _condition_panel(one, selection, x if one is conditions[-1] else x | {"axis": None}, cast, style)
        for one in conditions
    ]
    return {"vconcat": [panel, *below], "bounds": "flush", "spacing": _CONDITION_GAP}


def _values_panel(
    outcome: OutcomeComparison, selection: PointSelection, cast: Cast, style: Style, axis: ValueAxis, x: Spec
) -> Spec:
    y = value_channel(outcome, axis)
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
    medians = [{"arm": cast.number(values.arm), "median": axis.at(values.median)} for values in arms]
    return [
        {
            "data": {"values": medians},
            "mark": {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 1.6},
            "encoding": {"y": {"field": "median"} | y, "color": colour},
        },
        *names_at_end([(one.arm, axis.pixel(one.median, _HEIGHT)) for one in arms], _HEIGHT, cast, colour),
    ]


def _condition_panel(condition: ShownCondition, selection: PointSelection, x: Spec, cast: Cast, style: Style) -> Spec:
    known = [
        {"at": one.at, "shown": value, "arm": one.arm}
        for one in selection.shown
        if (value := condition.of(one.point)) is not None
    ]
    points: Spec = {
        "data": {"values": known},
        "mark": {"type": "point", "filled": True, "size": 10, "opacity": 0.7},
        "encoding": {
            "x": {"field": "at"} | x,
            "y": {
                "field": "shown",
                "type": "quantitative",
                "scale": {"zero": False, "padding": 4},
                "axis": {"title": None, "tickCount": 2},
            },
            "color": arm_colour(cast, style),
        },
    }
    title: Spec = {
        "data": {"values": [{"title": condition.title}]},
        "mark": {"type": "text", "align": "left", "x": 0, "y": -11, "color": style.palette.muted},
        "encoding": {"text": {"field": "title"}},
    }
    return {"width": style.width - _LABEL_ROOM - 60, "height": _CONDITION_HEIGHT, "layer": [points, title]}
