# SPDX-License-Identifier: Apache-2.0
"""The report of a search: the page of its confirming trial, with the history, the importance and the slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ktrial.bench.text import duration
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.words import percent_text, range_text, size_text, value_log_ratio
from ktrial.kit.tables import clean
from ktrial.reports.blocks import Block, Grid, Items, OwnChart, ReportSection, Supplement, Text
from ktrial.reports.charts.drawing import Chart, Spec, Style, Table, frame, label, linear
from ktrial.reports.charts.forest import RATIO_LABEL, ticks
from ktrial.reports.html import html_page
from ktrial.studies.search.model import FrontPoint, Importance, SearchAnswer, TriedPoint
from ktrial.studies.search.space import plain
from ktrial.studies.search.text import FRONT_HEADERS, FRONT_NOTE, front_rows, front_state, settings_text

#: Slices that the page draws, of the dimensions that move the outcome most, and rows of the importance.
_SLICES, _BARS = 6, 20
_HEIGHT, _SLICE_HEIGHT, _STEP, _NAMES = 240, 120, 22, 210
_SCORE = "change of the score; more is better"
#: A ratio with its side: an axis of two outcomes has no room for arrows.
_SIDE_LABEL = f"{RATIO_LABEL} + (datum.value < 0 ? ' worse' : datum.value > 0 ? ' better' : '')"
#: How the chart of a front draws each state, also without colour.
_FRONT_SHAPES = {"confirmed": "circle", "not confirmed": "cross", "unconfirmed": "diamond"}
_FRONT_HEIGHT = 340


def search_html(found: SearchAnswer, comparison: Comparison) -> str:
    """Return the page of a search as HTML; `comparison` is the comparison of its last trial."""
    return html_page(comparison, supplement(found))


def supplement(found: SearchAnswer) -> Supplement:
    """Return what the page of a search shows besides the confirming trial."""
    blocks: list[Block] = [Text(_about(found))]
    if found.candidate:
        rows = [(name, plain(value)) for name, value in found.candidate.items()]
        blocks.append(Grid("The best settings" if found.winner else "The best candidate", ("setting", "value"), rows))
    if found.removals:
        without = [(one.dimension, str(one.verdict), "removed" if one.removed else "stays") for one in found.removals]
        blocks.append(Grid("Without each setting", ("setting", "the rest is", "so it"), without))
    if found.front:
        points = [(one.name, settings_text(one.changes), front_state(one)) for one in found.front]
        blocks.append(Grid("The front", ("point", "settings", "state"), points))
        blocks += [OwnChart(partial(front_chart, found, other)) for other in list(found.directions)[1:]]
        blocks.append(Text(FRONT_NOTE, "note"))
    measured = [one for one in found.history if one.estimate is not None]
    if measured:
        blocks += [
            Text("Estimates of the search, which prove nothing; only the confirming trial does.", "note"),
            OwnChart(partial(history_chart, measured)),
        ]
    if found.importance:
        blocks.append(OwnChart(partial(importance_chart, found.importance)))
        blocks.append(OwnChart(partial(slices_chart, found.importance[:_SLICES])))
    notes = [f"crashes: {one.text} ({one.failures} points)" for one in found.crashes]
    notes += [f"refused: {clean(why)}" for why in found.refused]
    notes += [f"left out: {name}: {clean(why)}" for name, why in found.left_out.items()]
    blocks += [Items(notes)] if notes else []
    return Supplement(sections=(ReportSection("search", "The search", blocks),))


def _about(found: SearchAnswer) -> str:
    tried = sum(one.estimate is not None for one in found.history)
    text = f"{found.name}: {tried} points in {found.runs} runs and {duration(found.seconds)}. "
    if found.front:
        return f"{text}{found.reason[:1].upper()}{found.reason[1:]}."
    if found.ending == "confirmed" and found.estimate is not None:
        estimate = percent_text(value_log_ratio(found.estimate[0], found.direction))
        return f"{text}A fresh trial confirms the best settings. The search itself had estimated {estimate}."
    limit = (
        ""
        if found.detectable is None
        else f" An effect of {size_text(math.log1p(found.detectable))} is found in 9 of 10."
    )
    return f"{text}{found.ending[:1].upper()}{found.ending[1:]}: {found.reason}.{limit}"


def front_chart(found: SearchAnswer, other: str, style: Style) -> Chart:
    """Return a chart of the front in the primary outcome and `other`; shapes show which points are confirmed."""
    primary = next(iter(found.directions))
    tried: list[dict[str, float | str]] = [
        {"x": one.estimate or 0.0, "y": one.others[other][0]}
        for one in found.history
        if other in one.others and one.state == "measured"
    ]
    values = [row for one in found.front if (row := _front_place(one, primary, other)) is not None]
    ends = {
        axis: [
            float(row[f"{axis}{end}"]) for row in (*tried, *values) for end in ("", "low", "high") if axis + end in row
        ]
        for axis in ("x", "y")
    }
    x, y = (_score_axis(ends[axis], 3, label(name, 30), _SIDE_LABEL) for axis, name in (("x", primary), ("y", other)))
    at: Spec = {"x": {"field": "x"} | x, "y": {"field": "y"} | y}
    ink, muted = style.palette.ink, style.palette.muted
    origin = {"values": [{"x": 0, "y": 0}]}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "color": muted}, "data": origin, "encoding": {"x": {"field": "x"} | x}},
        {"mark": {"type": "rule", "color": muted}, "data": origin, "encoding": {"y": {"field": "y"} | y}},
        {
            "mark": {"type": "point", "filled": True, "size": 8, "color": muted},
            "data": {"values": tried},
            "encoding": at,
        },
    ]
    for state, shape in _FRONT_SHAPES.items():
        layers += _front_layers([row for row in values if row["state"] == state], shape, at, style.palette.arms[1], ink)
    body: Spec = {"width": style.width - 130, "height": _FRONT_HEIGHT, "layer": layers}
    title = "The points to choose from"
    return Chart(
        name=f"front-{list(found.directions).index(other)}",
        title=title,
        caption=f"Scores of {primary} and {other} against the control, which is at the crossing. Filled circles are "
        "points that the trial confirms, with its intervals. Crosses are points of the trial that it does not confirm. "
        "Hollow diamonds with dashed 95 % intervals are estimates of the search, with the number of the point. Dots "
        "are all other points.",
        spec=frame(style, title, body),
        table=Table(headers=FRONT_HEADERS, rows=tuple(front_rows(found, found.front)), numeric=(2, 3, 5)),
    )


def _front_place(one: FrontPoint, primary: str, other: str) -> dict[str, float | str] | None:
    """Return the place of a point with its intervals: by the trial if the point took part, otherwise by the search.

    Return None if an effect of the trial is missing or is not a ratio.
    """
    state = "not confirmed" if one.state == "breaks a guard" else one.state
    row: dict[str, float | str] = {"name": one.arm or str(one.number), "state": state}
    for axis, outcome in (("x", primary), ("y", other)):
        middle, low, high = one.estimates[outcome]
        if one.arm is not None:
            effect = one.effects.get(outcome)
            if effect is None or effect.scale != "log":
                return None
            middle = effect.estimate
            low = middle if effect.low is None else effect.low
            high = middle if effect.high is None else effect.high
        row |= {axis: middle, f"{axis}low": low, f"{axis}high": high}
    return row


def _front_layers(rows: Sequence[Spec], shape: str, at: Spec, colour: str, ink: str) -> list[Spec]:
    """Return the marks of points in the same state: intervals, shapes and names."""
    dash: Spec = {"strokeDash": [4, 3]} if shape == "diamond" else {}
    bar: Spec = {"type": "rule", "strokeWidth": 1.2, "color": colour, **dash}
    data: Spec = {"values": list(rows)}
    mark: Spec = {
        "type": "point",
        "shape": shape,
        "size": 70,
        "opacity": 1,
        "color": colour,
        "filled": shape == "circle",
    }
    name: Spec = {"type": "text", "align": "left", "dx": 7, "dy": -7, "color": ink}
    return [
        {"mark": bar, "data": data, "encoding": at | {"x": at["x"] | {"field": "xlow"}, "x2": {"field": "xhigh"}}},
        {"mark": bar, "data": data, "encoding": at | {"y": at["y"] | {"field": "ylow"}, "y2": {"field": "yhigh"}}},
        {"mark": mark, "data": data, "encoding": at},
        {"mark": name, "data": data, "encoding": at | {"text": {"field": "name"}}},
    ]


def history_chart(measured: Sequence[TriedPoint], style: Style) -> Chart:
    """Return a chart with the estimate of every point in the order of the search, and the best estimate so far."""
    best = -math.inf
    values: list[dict[str, float | str]] = []
    ends: list[float] = []
    for one in measured:
        estimate, low, high = one.estimate or 0.0, one.low or 0.0, one.high or 0.0
        best = max(best, estimate) if one.state == "measured" else best
        kind = "better" if one.state == "measured" else "worse"
        values.append({"at": one.number, "value": estimate, "low": low, "high": high, "kind": kind})
        values[-1]["best"] = max(best, 0.0)
        ends += [low, high]
    y = _score_axis(ends, 3, _SCORE)
    x: Spec = {"field": "at", "type": "quantitative", "axis": {"title": "point", "tickMinStep": 1, "grid": False}}
    palette = style.palette
    colour: Spec = {
        "field": "kind",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": ["better", "worse"], "range": [palette.verdicts["better"], palette.verdicts["worse"]]},
    }
    layers = [
        {"mark": {"type": "rule", "color": palette.muted}, "encoding": {"y": {"datum": 0} | y}},
        {
            "mark": {"type": "line", "interpolate": "step-after", "color": palette.muted},
            "encoding": {"x": x, "y": {"field": "best"} | y},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 1.2},
            "encoding": {"x": x, "y": {"field": "low"} | y, "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 36, "opacity": 1},
            "encoding": {"x": x, "y": {"field": "value"} | y, "color": colour},
        },
    ]
    body: Spec = {"width": style.width - 110, "height": _HEIGHT, "data": {"values": values}, "layer": layers}
    return Chart(
        name="history",
        title="Every point that the search tried",
        caption="Points are the estimates at the end of the search, lines their 95 % intervals. The step line is the "
        "best usable estimate so far. Points of the second colour broke a guard or failed.",
        spec=frame(style, "Every point that the search tried", body),
        table=Table(
            headers=("point", "settings", "visits", "change", "interval", "state"),
            rows=tuple(_history_row(one) for one in measured),
            numeric=(0, 2, 3, 4),
        ),
    )


def _history_row(one: TriedPoint) -> tuple[str, ...]:
    estimate, low, high = one.estimate or 0.0, one.low or 0.0, one.high or 0.0
    shown = percent_text(estimate), range_text(low, high)
    return (str(one.number), settings_text(one.changes), str(one.visits), *shown, one.reason or one.state)


def importance_chart(every: Sequence[Importance], style: Style) -> Chart:
    """Return a chart of how far each dimension alone moves the score, with 90 % intervals."""
    shown = every[:_BARS]
    values = [
        {"at": place, "name": label(one.dimension, 28), "range": one.range, "low": one.low, "high": one.high}
        for place, one in enumerate(shown)
    ]
    reach = 1.05 * max(1e-3, *(one.high for one in shown))
    places = [one for one in ticks(reach, 3) if one >= 0]
    x = linear(0, reach, {"values": places, "labelExpr": RATIO_LABEL, "title": "moves the score by"})
    y: Spec = {"field": "at", "type": "ordinal", "axis": None}
    layers = [
        {
            "mark": {"type": "rule", "strokeWidth": 1.6, "color": style.palette.muted},
            "encoding": {"x": {"field": "low"} | x, "x2": {"field": "high"}, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1, "color": style.palette.arms[1]},
            "encoding": {"x": {"field": "range"} | x, "y": y},
        },
        {"mark": {"type": "text", "align": "right", "x": -8}, "encoding": {"text": {"field": "name"}, "y": y}},
    ]
    width = style.width - _NAMES - 40
    body: Spec = {"width": width, "height": {"step": _STEP}, "data": {"values": values}, "layer": layers}
    return Chart(
        name="importance",
        title="What moves the outcome",
        caption="The difference between a dimension's best and worst value, with all others at the control's values. "
        "Lines are 90 % intervals. It is never below zero, so dimensions that do nothing show a little. Exploratory.",
        spec=frame(style, "What moves the outcome", body),
        table=Table(
            headers=("dimension", "moves it by", "90 % interval"),
            rows=tuple(
                (one.dimension, size_text(one.range), f"{size_text(one.low)} to {size_text(one.high)}") for one in every
            ),
            numeric=(1, 2),
        ),
    )


def slices_chart(every: Sequence[Importance], style: Style) -> Chart:
    """Return a chart with the effect of each value of each dimension alone, with 95 % intervals."""
    ends = [end for one in every for _, _, low, high in one.slice for end in (low, high)]
    columns = 3 if style.width > 600 else 1
    panels = [_slice_panel(one, ends, (style.width - 40) // columns - 90, style) for one in every]
    body: Spec = {"concat": panels, "columns": columns, "spacing": 24}
    rows = [
        (one.dimension, plain(value), percent_text(mean), range_text(low, high))
        for one in every
        for value, mean, low, high in one.slice
    ]
    return Chart(
        name="slices",
        title="What each value does",
        caption="The effect of a value against the control, with all other settings at the control's values. The bars "
        "are 95 % intervals. Exploratory.",
        spec=frame(style, "What each value does", body),
        table=Table(headers=("dimension", "value", "change", "interval"), rows=tuple(rows), numeric=(2, 3)),
    )


def _score_axis(ends: Sequence[float], each_side: int, title: str | None, words: str = RATIO_LABEL) -> Spec:
    """Return a channel for scores that holds `ends` and zero."""
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = 0.05 * max(high - low, 1e-3)
    places = [one for one in ticks(max(high, -low, 1e-3), each_side) if low - room <= one <= high + room]
    return linear(low - room, high + room, {"values": places, "labelExpr": words, "title": title})


def _slice_panel(one: Importance, ends: Sequence[float], width: int, style: Style) -> Spec:
    values = [
        {"at": place, "name": label(plain(value), 10), "mean": mean, "low": low, "high": high}
        for place, (value, mean, low, high) in enumerate(one.slice)
    ]
    y = _score_axis(ends, 2, None)
    names = [row["name"] for row in values]
    axis = {"title": None, "labelAngle": -40, "grid": False, "labelExpr": f"{names!r}[datum.value]"}
    x: Spec = {"field": "at", "type": "ordinal", "axis": axis}
    palette = style.palette
    layers: list[Spec] = [
        {"mark": {"type": "rule", "color": palette.muted}, "encoding": {"y": {"datum": 0} | y}},
        {
            "mark": {"type": "rule", "strokeWidth": 1.6, "color": palette.muted},
            "encoding": {"x": x, "y": {"field": "low"} | y, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1, "color": palette.arms[1]},
            "encoding": {"x": x, "y": {"field": "mean"} | y},
        },
    ]
    return {
        "title": {"text": label(one.dimension, 32), "anchor": "start", "fontSize": 12, "offset": 4},
        "width": width,
        "height": _SLICE_HEIGHT,
        "data": {"values": values},
        "layer": layers,
    }
