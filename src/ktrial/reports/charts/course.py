# SPDX-License-Identifier: Apache-2.0
"""How a trial came to its verdicts: after each block the estimate, at each look the interval, against the margin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.trial_summary import ToldLook
from ktrial.judge.model.verdict import Effect
from ktrial.judge.model.words import effect_text
from ktrial.reports.charts.drawing import MARKS, Cast, Chart, Spec, Style, Table, arm_colour, cast_of, frame, label
from ktrial.reports.charts.forest import RATIO_LABEL, ticks

PLACE = 4
_HEIGHT = 92
_BESIDE = 76
#: From this block on estimates are never cut.
_SETTLED = 4


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a panel for each arm, unless it is not a trial or there was no block."""
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
        title="How it came to the verdict",
        caption="Points are estimates after each block, bars the intervals at the looks at which a verdict could fall; "
        f"each is the intersection of all so far. The band is the margin of {100 * primary.margin:g} %."
        f" Estimates of the first blocks that lie farther out are drawn at the edge.{cast.note}",
        spec=frame(style, "How it came to the verdict", _body(looks, primary, cast, style)),
        table=_table(looks, primary),
        marks=True,
        arm_column=1,
    )


def _range(looks: Sequence[ToldLook], margin: float) -> tuple[float, float]:
    """As far as the margin, the intervals of looks, and estimates go, those of the first blocks left aside."""
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
    """What all panels share."""

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
    x: Spec = {
        "type": "quantitative",
        "scale": {"domain": [0.4, scene.last + 0.6], "nice": False, "zero": False},
        "axis": {"title": "blocks", "grid": False, "tickMinStep": 1} if is_lowest else None,
    }
    y: Spec = {
        "type": "quantitative",
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {
            "values": [one for one in ticks(max(-low, high), 2) if low <= one <= high],
            "labelExpr": RATIO_LABEL,
            "title": None,
            "grid": False,
        },
    }
    colour = arm_colour(scene.cast, style)
    decided = next((one for one in looks if one.verdict is not None), looks[-1])
    words = f"{label(looks[0].arm, 24)}: " + (
        f"{MARKS[decided.verdict]} {decided.verdict} after {decided.blocks} blocks" if decided.verdict else "open"
    )
    at, estimate = {"field": "blocks"} | x, {"field": "estimate"} | y
    bars = [value for value in values if value["decides"] and value["low"] is not None]
    layers: list[Spec] = [
        *_ground(scene, y),
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


def _ground(scene: _Scene, y: Spec) -> list[Spec]:
    """Return the band of the margin, and the line of no effect."""
    palette = scene.style.palette
    return [
        {
            "data": {"values": [{"low": -scene.margin, "high": scene.margin}]},
            "mark": {"type": "rect", "color": palette.band},
            "encoding": {"y": {"field": "low"} | y, "y2": {"field": "high"}},
        },
        {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "color": palette.muted},
            "encoding": {"y": {"datum": 0} | y},
        },
    ]


def _better(style: Style) -> Spec:
    return {
        "data": {"values": [{"words": "\N{UPWARDS ARROW} better"}]},
        "mark": {"type": "text", "align": "right", "x": "width", "y": -9, "color": style.palette.muted},
        "encoding": {"text": {"field": "words"}},
    }


def _within(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
