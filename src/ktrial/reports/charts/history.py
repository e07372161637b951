# SPDX-License-Identifier: Apache-2.0
"""An outcome over time: a point for each moment, a line for each level."""

from __future__ import annotations

import statistics
from itertools import pairwise

from ktrial.compare.history.model import History
from ktrial.judge.model.words import effect_text
from ktrial.reports.charts.drawing import Chart, Spec, Style, Table, frame, label, linear, value_axis, value_channel
from ktrial.results.text import moment

_HEIGHT = 220
_MARGINS = 90


def history_chart(found: History, style: Style) -> Chart:
    """Return a chart of the moments in order; each change is marked with its effect."""
    axis = value_axis(found, [one.median for one in found.moments])
    y = value_channel(found, axis)
    title = "session" if found.by == "session" else "kernel"
    x = linear(0.5, len(found.moments) + 0.5, {"title": title, "grid": False, "tickMinStep": 1})
    points = [{"at": place, "value": axis.at(one.median)} for place, one in enumerate(found.moments, 1)]
    bounds = [1, *(change.place for change in found.changes), len(found.moments) + 1]
    levels = [
        {
            "from": begin - 0.5,
            "to": end - 0.5,
            "level": axis.at(statistics.median(one.median for one in found.moments[begin - 1 : end - 1])),
        }
        for begin, end in pairwise(bounds)
    ]
    cuts = [
        {"at": change.place - 0.5, "said": effect_text(change.effect, found.unit, found.direction)[0]}
        for change in found.changes
    ]
    at, ink = {"field": "at"} | x, style.palette.ink
    layers: list[Spec] = [
        {
            "name": "values",
            "data": {"values": points},
            "mark": {"type": "point", "filled": True, "size": 36, "opacity": 0.8, "color": style.palette.arms[1]},
            "encoding": {"x": at, "y": {"field": "value"} | y},
        },
        {
            "data": {"values": levels},
            "mark": {"type": "rule", "strokeWidth": 1.6, "color": ink},
            "encoding": {"x": {"field": "from"} | x, "x2": {"field": "to"}, "y": {"field": "level"} | y},
        },
        {
            "data": {"values": cuts},
            "mark": {"type": "rule", "strokeDash": [4, 3], "color": style.palette.muted},
            "encoding": {"x": at},
        },
        {
            "data": {"values": cuts},
            "mark": {"type": "text", "align": "left", "dx": 4, "y": 8, "fontWeight": "bold"},
            "encoding": {"x": at, "text": {"field": "said"}},
        },
    ]
    body = {"width": style.width - _MARGINS, "height": _HEIGHT, "layer": layers}
    rows = tuple(
        (str(place), moment(one.started_unix_ms), label(one.name), f"{axis.at(one.median):.6g}")
        for place, one in enumerate(found.moments, 1)
    )
    return Chart(
        name="history",
        title=found.outcome,
        caption="Points are medians in order of time. Solid lines are levels, dashed lines are changes.",
        spec=frame(style, found.outcome, body),
        table=Table(headers=("place", "when (UTC)", title, axis.unit), rows=rows, numeric=(0, 3)),
        marks=True,
    )
