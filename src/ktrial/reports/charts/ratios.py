# SPDX-License-Identifier: Apache-2.0
"""Ratio bars: the factor by which each arm is better than the control, for each outcome, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.words import effect_text
from ktrial.reports.charts.drawing import (
    Cast,
    Chart,
    Spec,
    Style,
    Table,
    arm_colour,
    cast_of,
    ends_of,
    frame,
    label,
    linear,
)
from ktrial.reports.charts.forest import RATIO_LABEL, ForestRow, axis_words, right_words, rows_of, ticks
from ktrial.reports.order import short_names

PLACE = 2
_MOST_BARS = 40
_BAR = 14
#: The logarithm of the largest ratio that a float can hold.
_LARGEST = 700.0


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a chart of bars if there are several arms besides the control; for one arm the forest plot suffices."""
    cast = cast_of(comparison)
    rows = [row for row in rows_of(comparison)[0] if row.contrast.arm in cast.arms]
    if len({row.contrast.arm for row in rows}) < 2:
        return
    shown = rows[:_MOST_BARS]
    left_out = f" {len(rows) - len(shown)} more are in the verdict table." if len(rows) > len(shown) else ""
    yield Chart(
        name="ratios",
        title="Ratios to the control, arm by arm",
        caption=f"Bars show how many times as good as {label(comparison.control)} each arm is; to the right is "
        f"{right_words(shown)}. Thin lines are intervals.{left_out}{cast.note}",
        spec=frame(style, "Ratios to the control", _body(shown, cast, style)),
        table=_table(shown),
        marks=True,
        arm_column=1,
    )


def _table(rows: list[ForestRow]) -> Table:
    cells = tuple(
        (
            *(row.outcome.name, row.contrast.arm),
            f"{math.exp(min(row.effect.estimate, _LARGEST)):.4g}",
            *effect_text(row.effect, row.outcome.unit, row.outcome.direction),
        )
        for row in rows
    )
    return Table(headers=("outcome", "arm", "times as good", "change", "interval"), rows=cells, numeric=(2, 3, 4))


def _body(rows: list[ForestRow], cast: Cast, style: Style) -> Spec:
    reach = 1.1 * max(abs(end) for row in rows for end in (row.effect.estimate, *ends_of(row.effect)))
    reach = max(reach, 1e-4)
    names = list(dict.fromkeys(row.outcome.name for row in rows))
    shown = short_names(row.outcome for row in rows)
    values = [
        {
            "outcome": names.index(row.outcome.name),
            "arm": cast.number(row.contrast.arm),
            "estimate": row.effect.estimate,
            **dict(zip(("low", "high"), ends_of(row.effect), strict=True)),
            "zero": 0,
            "label": cast.name(row.contrast.arm, 18),
        }
        for row in rows
    ]
    axis: Spec = {"values": ticks(reach, 2 if style.width < 500 else 3), "labelExpr": RATIO_LABEL}
    x = linear(-reach, reach, axis | {"title": axis_words("ratio", [row.outcome for row in rows])})
    y: Spec = {
        "field": "arm",
        "type": "ordinal",
        "axis": None,
        "scale": {"paddingInner": 0.25, "domain": sorted({value["arm"] for value in values})},
    }
    panels = [
        _panel(number, name, values, x, y, cast, style)
        for number, name in enumerate(dict.fromkeys(shown[row.outcome.name] for row in rows))
    ]
    for panel in panels[:-1]:
        panel["layer"][0]["encoding"]["x"] = x | {
            "field": "estimate",
            "stack": None,
            "axis": {"labels": False, "title": None},
        }
    return {"vconcat": panels, "bounds": "flush", "spacing": 30, "config": frame(style, "", {})["config"]}


def _panel(number: int, name: str, values: list[Spec], x: Spec, y: Spec, cast: Cast, style: Style) -> Spec:
    own = [value for value in values if value["outcome"] == number]
    colour = arm_colour(cast, style)
    return {
        "title": {"text": label(name, 40), "anchor": "start", "fontSize": 12, "offset": 4, "dx": -110},
        "width": style.width - 130,
        "height": {"step": _BAR + 4},
        "data": {"values": own},
        "layer": [
            {
                "name": f"values_{number}",
                "mark": {"type": "bar"},
                "encoding": {
                    "x": {"field": "estimate", "stack": None} | x,
                    "x2": {"field": "zero"},
                    "y": y,
                    "color": colour,
                },
            },
            {
                "mark": {"type": "rule", "color": style.palette.ink, "strokeWidth": 1.2},
                "encoding": {"x": {"field": "low"} | x, "x2": {"field": "high"}, "y": y},
            },
            {"mark": {"type": "text", "align": "right", "x": -8}, "encoding": {"text": {"field": "label"}, "y": y}},
        ],
    }
