# SPDX-License-Identifier: Apache-2.0
"""The effect of each setting in a blame: a point with its interval, largest first, suspects in colour."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ktrial.judge.model.judgement import Coefficient, Screened
from ktrial.judge.model.words import percent_text, range_text
from ktrial.reports.charts.drawing import Chart, Spec, Style, Table, frame, label, linear
from ktrial.reports.charts.forest import RATIO_LABEL, ticks
from ktrial.reports.order import weightiest

#: A panel shows at most this many settings; the table shows all.
MOST_ROWS = 40
_STEP, _NAMES = 18, 250
_TITLE = "worse  \N{LEFTWARDS ARROW}   switched on, against switched off   \N{RIGHTWARDS ARROW}  better"


def coefficients_chart(title: str, screenings: Sequence[Sequence[Screened]], style: Style) -> Chart:
    """Return a chart with a panel for each outcome of each analysed round."""
    panels: list[Spec] = []
    rows: list[tuple[str, ...]] = []
    for number, screening in enumerate(screenings, start=1):
        for outcome in weightiest(screening):
            ordered = sorted(outcome.coefficients, key=lambda one: -abs(one.effect))
            if not ordered:
                continue
            name = f"{outcome.outcome}, {outcome.blocks} blocks" + (f", round {number}" if len(screenings) > 1 else "")
            panels.append(_panel(name, ordered[:MOST_ROWS], style, f"values_{len(panels)}"))
            rows += [_row(outcome.outcome, number, one) for one in ordered]
    headers = ("outcome", "round", "setting", "change", "interval", "suspected")
    return Chart(
        name="coefficients",
        title="What each setting does",
        caption="Points show how switching a setting on changes the score, lines are the intervals. "
        "Coloured settings are suspects, which only a trial can confirm.",
        spec=frame(style, title, {"vconcat": panels, "spacing": 24}),
        table=Table(headers=headers, rows=tuple(rows), numeric=(1, 3, 4)),
    )


def _row(outcome: str, number: int, one: Coefficient) -> tuple[str, ...]:
    interval = range_text(one.low, one.high) if math.isfinite(one.low) else "-"
    return (outcome, str(number), one.setting, percent_text(one.effect), interval, "yes" if one.named else "")


def _panel(title: str, shown: Sequence[Coefficient], style: Style, name: str) -> Spec:
    ends = [end for one in shown for end in (one.effect, one.low, one.high) if math.isfinite(end)]
    reach = max(1e-4, 1.1 * max(map(abs, ends)))
    values = [
        {
            "at": place,
            "name": label(one.setting, 34),
            "effect": one.effect,
            "low": max(one.low, -reach),
            "high": min(one.high, reach),
            "kind": "other" if not one.named else "better" if one.effect > 0 else "worse",
        }
        for place, one in enumerate(shown)
    ]
    x = linear(-reach, reach, {"values": ticks(reach, 3), "labelExpr": RATIO_LABEL, "title": _TITLE})
    y: Spec = {"field": "at", "type": "ordinal", "axis": None}
    verdicts = style.palette.verdicts
    colour: Spec = {
        "field": "kind",
        "type": "nominal",
        "scale": {
            "domain": ["other", "better", "worse"],
            "range": [style.palette.muted, verdicts["better"], verdicts["worse"]],
        },
        "legend": None,
    }
    return {
        "title": {"text": label(title, 60), "anchor": "start", "fontSize": 12, "offset": 4},
        "width": style.width - _NAMES - 40,
        "height": {"step": _STEP},
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "rule", "color": style.palette.ink, "strokeDash": [4, 3]},
                "data": {"values": [{"zero": 0}]},
                "encoding": {"x": {"field": "zero"} | x},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1.6},
                "encoding": {"x": {"field": "low"} | x, "x2": {"field": "high"}, "y": y, "color": colour},
            },
            {
                "name": name,
                "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
                "encoding": {"x": {"field": "effect"} | x, "y": y, "color": colour},
            },
            {"mark": {"type": "text", "align": "right", "x": -10}, "encoding": {"text": {"field": "name"}, "y": y}},
        ],
    }
