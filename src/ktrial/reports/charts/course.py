# SPDX-License-Identifier: Apache-2.0
"""The course of a trial: the estimate after each block and the interval at each look, against the margin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.trial_summary import ToldLook
from ktrial.judge.model.verdict import Effect
from ktrial.judge.model.words import effect_text
from ktrial.reports.charts.drawing import (
    MARKS,
    Cast,
    Chart,
    Spec,
    Style,
    Table,
    arm_colour,
    cast_of,
    frame,
    label,
    linear,
    margin_band,
)
from ktrial.reports.charts.forest import RATIO_LABEL, ticks

PLACE = 4
_HEIGHT = 92
_BESIDE = 76
#: Estimates from this block on always fit into the picture.
_SETTLED = 4


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a chart with a panel for each arm, if this is a trial with at least one block."""
    trial = comparison.trial
    primary = next((one for one in comparison.outcomes if one.role == "primary"), None)
    if trial is None or primary is None:
        return
    cast = cast_of(comparison)
    looks = [one for one in trial.looks if one.against == comparison.control and one.arm in cast.arms]
    if not looks:
        return
    looks.sort(key=lambda one: (cast.number(one.arm), one.blocks))
    yield Chart(
        name="course",
        title="How the trial reached its verdict",
        caption="Points are the estimates after each block. Bars are the intervals at the looks that can decide; "
        f"each is the intersection of all so far. The band is the margin of {100 * primary.margin:g} %."
        f" Early estimates outside the picture are drawn at its edge.{cast.note}",
        spec=frame(style, "How the trial reached its verdict", _body(looks, primary, cast, style)),
        table=_table(looks, primary),
        marks=True,
        arm_column=1,
    )


def _range(looks: Sequence[ToldLook], margin: float) -> tuple[float, float]:
    """Return a range that holds the margin, the intervals at looks, and all but the earliest estimates."""
    settled = [one for one in looks if one.blocks >= _SETTLED] or looks
    ends = [-1.5 * margin, 1.5 * margin, *(one.estimate for one in settled)]
    ends += [end for one in looks if one.decides for end in (one.low, one.high) if end is not None]
    room = 0.06 * (max(ends) - min(ends))
    return min(ends) - room, max(ends) + room


def _table(looks: Sequence[ToldLook], primary: OutcomeComparison) -> Table:
    rows = []
    for one in looks:
        shown = Effect(estimate=one.estimate, low=one.low, high=one.high, method="")
        change, interval = effect_text(shown, primary.unit, primary.direction)
        rows.append((str(one.blocks), one.arm, change, interval, "yes" if one.decides else "no", one.verdict or "open"))
    headers = ("blocks", "arm", "change", "interval", "a look", "verdict")
    return Table(headers=headers, rows=tuple(rows), numeric=(0, 2, 3))


class _Scene(NamedTuple):
    """The values that all panels share."""

    margin: float
    last: int
    cast: Cast
    style: Style


def _body(looks: Sequence[ToldLook], primary: OutcomeComparison, cast: Cast, style: Style) -> Spec:
    arms = list(dict.fromkeys(one.arm for one in looks))
    scene = _Scene(math.log1p(primary.margin), max(one.blocks for one in looks), cast, style)
    panels = [
        _panel([one for one in looks if one.arm == arm], number, scene, is_lowest=arm == arms[-1])
        for number, arm in enumerate(arms)
    ]
    return {"vconcat": panels, "bounds": "flush", "spacing": 30}


def _panel(looks: Sequence[ToldLook], number: int, scene: _Scene, *, is_lowest: bool) -> Spec:
    style = scene.style
    low, high = _range(looks, scene.margin)
    arm = scene.cast.number(looks[0].arm)
    values = [
        {
            "blocks": one.blocks,
            "estimate": _within(one.estimate, low, high),
            "low": None if one.low is None else _within(one.low, low, high),
            "high": None if one.high is None else _within(one.high, low, high),
            "arm": arm,
            "decides": one.decides,
        }
        for one in looks
    ]
    blocks = {"title": "blocks", "grid": False, "tickMinStep": 1}
    x = linear(0.4, scene.last + 0.6, blocks if is_lowest else None)
    places = [one for one in ticks(max(-low, high), 2) if low <= one <= high]
    y = linear(low, high, {"values": places, "labelExpr": RATIO_LABEL, "title": None, "grid": False})
    colour = arm_colour(scene.cast, style)
    decided = next((one for one in looks if one.verdict is not None), looks[-1])
    words = f"{label(looks[0].arm, 24)}: " + (
        f"{MARKS[decided.verdict]} {decided.verdict} after {decided.blocks} blocks" if decided.verdict else "open"
    )
    at, estimate = {"field": "blocks"} | x, {"field": "estimate"} | y
    bars = [value for value in values if value["decides"] and value["low"] is not None]
    layers: list[Spec] = [
        *margin_band(scene.margin, y, style.palette),
        {
            "data": {"values": bars},
            "mark": {"type": "rule", "strokeWidth": 2.5, "strokeCap": "round"},
            "encoding": {"x": at, "y": {"field": "low"} | y, "y2": {"field": "high"}, "color": colour},
        },
        {
            "name": f"values_{number}",
            "data": {"values": values},
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": 34},
            "encoding": {"x": at, "y": estimate, "color": colour},
        },
        {
            "data": {"values": [{"words": words, "arm": arm}]},
            "mark": {"type": "text", "align": "left", "x": 0, "y": -9, "fontWeight": "bold"},
            "encoding": {"text": {"field": "words"}, "color": colour},
        },
        *([_better(style)] if number == 0 else []),
    ]
    return {"width": style.width - _BESIDE, "height": _HEIGHT, "layer": layers}


def _better(style: Style) -> Spec:
    return {
        "data": {"values": [{"words": "\N{UPWARDS ARROW} better"}]},
        "mark": {"type": "text", "align": "right", "x": "width", "y": -9, "color": style.palette.muted},
        "encoding": {"text": {"field": "words"}},
    }


def _within(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
