# SPDX-License-Identifier: Apache-2.0
"""Shared parts of charts: colours, the arms shown, axes, and the frame of a Vega-Lite specification."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from posixpath import commonprefix
from typing import Any

import msgspec

from ktrial.bench.text import scale_for
from ktrial.compare.history.model import History
from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.kit.tables import clean, shorten

Spec = dict[str, Any]

#: A chart shows at most this many arms; the tables show all.
MOST_ARMS = 8
#: No machine has this font, so Vega estimates widths from the number of characters, equally everywhere.
FONT = "ktrial-estimated"
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
MARKS: Mapping[Verdict, str] = {
    "better": "\N{BLACK UP-POINTING TRIANGLE}",
    "worse": "\N{BLACK DOWN-POINTING TRIANGLE}",
    "equivalent": "\N{ALMOST EQUAL TO}",
    "different": "\N{NOT EQUAL TO}",
    "no difference seen": "\N{TILDE OPERATOR}",
    "inconclusive": "?",
    "not comparable": "\N{MULTIPLICATION SIGN}",
}
VERDICT_KEYS: Mapping[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "equivalent": "equal",
    "different": "open",
    "no difference seen": "open",
    "inconclusive": "open",
    "not comparable": "open",
}


class Palette(msgspec.Struct, frozen=True, kw_only=True):
    """Colours of a chart; `arms` begins with the colour of the control."""

    paper: str
    ink: str
    muted: str
    rule: str
    band: str
    arms: tuple[str, ...]
    verdicts: Mapping[str, str]

    @property
    def background(self) -> str:
        """Return the colour behind the marks, also for pictures whose own background is transparent."""
        return "var(--paper)" if self.paper == "none" else self.paper

    def verdict(self, verdict: Verdict) -> str:
        return self.verdicts[VERDICT_KEYS[verdict]]


#: Colours of stand-alone pictures, distinct with every kind of colour blindness; shapes and words repeat them.
PAPER = Palette(
    paper="#ffffff",
    ink="#1d2329",
    muted="#57616b",
    rule="#dde2e7",
    band="#eaeef2",
    arms=("#535b61", "#18579c", "#ae448b", "#9c4d00", "#157bb4", "#6751c9", "#3d8023", "#8b5a3f"),
    verdicts={"better": "#00796b", "worse": "#c2410c", "equal": "#57616b", "open": "#57616b"},
)
#: Colours of pictures in the HTML page, whose style sheet defines them for light and dark mode.
PAGE = Palette(
    paper="none",
    ink="var(--ink)",
    muted="var(--muted)",
    rule="var(--rule)",
    band="var(--band)",
    arms=tuple(f"var(--arm-{number})" for number in range(MOST_ARMS)),
    verdicts={name: f"var(--{name})" for name in PAPER.verdicts},
)


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """How to draw charts; `titled` charts carry their own title."""

    palette: Palette = PAPER
    width: int = 400
    most_points: int = 1200
    titled: bool = True


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a chart in words and numbers; `numeric` lists the columns of numbers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart with its table. If `marks` is true, each of its marks `values` stands for a table row, in the same order.

    `arm_column` is the column of the table that names the arm.
    """

    name: str
    title: str
    caption: str
    spec: Spec
    table: Table
    marks: bool = False
    arm_column: int | None = None


class Cast(msgspec.Struct, frozen=True):
    """The arms that charts show, the control first; an arm's number selects its colour and shape."""

    arms: tuple[str, ...]
    hidden: int

    @property
    def note(self) -> str:
        """Return the sentence that a caption adds if arms are left out; empty otherwise."""
        return f" {self.hidden} more arms are in the tables only." if self.hidden else ""

    def number(self, arm: str) -> int:
        return self.arms.index(arm)

    def name(self, arm: str, limit: int = 28) -> str:
        """Return the arm's name cut to `limit` characters, distinct from the others. Long names widen the picture."""
        return labels(self.arms, limit)[arm]


def cast_of(comparison: Comparison) -> Cast:
    """Return the arms to show: the control, then the others, MOST_ARMS at most."""
    measured = (values.arm for outcome in comparison.outcomes for values in outcome.arms)
    arms = tuple(dict.fromkeys([comparison.control, *(one.arm for one in comparison.arms), *measured]))
    return Cast(arms[:MOST_ARMS], max(0, len(arms) - MOST_ARMS))


def arm_colour(cast: Cast, style: Style) -> Spec:
    return _by_arm(cast, style.palette.arms)


def arm_shape(cast: Cast) -> Spec:
    return _by_arm(cast, SHAPES)


def _by_arm(cast: Cast, forms: Sequence[str]) -> Spec:
    """Return a channel that tells arms apart by number, because shortened names may be equal."""
    count = len(cast.arms)
    scale = {"domain": list(range(count)), "range": list(forms[:count])}
    return {"field": "arm", "type": "nominal", "scale": scale, "legend": None}


def linear(low: float, high: float, axis: Spec | None) -> Spec:
    """Return a channel for numbers from `low` to `high`."""
    scale = {"domain": [low, high], "nice": False, "zero": False}
    return {"type": "quantitative", "scale": scale, "axis": axis}


def ends_of(effect: Effect) -> tuple[float, float]:
    """Return the ends of an effect's interval; the estimate stands for an open end."""
    low, high = (effect.estimate if end is None else end for end in (effect.low, effect.high))
    return low, high


def margin_band(margin: float, y: Spec, palette: Palette) -> list[Spec]:
    """Return layers that draw the margin as a band, and a line where the effect is zero."""
    return [
        {
            "data": {"values": [{"low": -margin, "high": margin}]},
            "mark": {"type": "rect", "color": palette.band},
            "encoding": {"y": {"field": "low"} | y, "y2": {"field": "high"}},
        },
        {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "color": palette.muted},
            "encoding": {"y": {"datum": 0} | y},
        },
    ]


class ValueAxis(msgspec.Struct, frozen=True):
    """The unit in which a chart shows an outcome's values, and the ends of the axis in that unit."""

    factor: float
    unit: str
    low: float
    high: float
    log: bool

    def at(self, value: float) -> float:
        return value / self.factor

    def pixel(self, value: float, height: float) -> float:
        """Return the distance of a value from the top of an axis that is `height` pixels high."""
        turn = math.log if self.log else float
        low, high = turn(self.low), turn(self.high)
        return height * (1 - (turn(self.at(value)) - low) / (high - low))

    def scale(self) -> Spec:
        return {"type": "log" if self.log else "linear", "domain": [self.low, self.high], "nice": False, "zero": False}


#: An axis is logarithmic if the ratio of the largest to the smallest value exceeds this.
_LOG_FROM = 30.0
_ROOM = 0.06
#: Pixels between two names.
_LINE = 14


def value_axis(outcome: OutcomeComparison | History, values: Sequence[float]) -> ValueAxis:
    """Return an axis that holds the values with some room; logarithmic if they are positive and span decades."""
    smallest, largest = min(values), max(values)
    factor, unit = scale_for(sorted(values, key=abs)[len(values) // 2], outcome.unit)
    low, high = smallest / factor, largest / factor
    if low > 0 and high / low > _LOG_FROM:
        return ValueAxis(factor, unit, low * (low / high) ** _ROOM, high * (high / low) ** _ROOM, log=True)
    room = (high - low) * _ROOM or abs(high) * _ROOM or 1.0
    floor = low - room
    return ValueAxis(factor, unit, 0.0 if low >= 0 > floor else floor, high + room, log=False)


def axis_title(outcome: OutcomeComparison | History, axis: ValueAxis) -> str:
    """Return a title such as `ms, lower is better`."""
    unit = axis.unit or outcome.unit
    return unit if outcome.direction is None else f"{unit}, {outcome.direction} is better"


def value_channel(outcome: OutcomeComparison | History, axis: ValueAxis) -> Spec:
    ticks = {"title": axis_title(outcome, axis), "tickCount": 5}
    return {"type": "quantitative", "scale": axis.scale(), "axis": ticks}


def names_at_end(medians: Sequence[tuple[str, float]], height: float, cast: Cast, colour: Spec) -> list[Spec]:
    """Return layers with the names of arms to the right of a plot, near their medians (pixels from the top)."""
    places = spread_labels([median for _, median in medians], _LINE, 4, height - 4)
    return [
        {
            "data": {"values": [{"arm": cast.number(arm), "name": cast.name(arm)}]},
            "mark": {
                "type": "text",
                "align": "left",
                "x": "width",
                "dx": 6,
                "y": round(place, 1),
                "fontWeight": "bold",
            },
            "encoding": {"text": {"field": "name"}, "color": colour},
        }
        for (arm, _), place in zip(medians, places, strict=True)
    ]


def spread_labels(preferred: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions near the `preferred` ones, at least `gap` apart, within `low` to `high` if there is room."""
    order = sorted(range(len(preferred)), key=lambda number: preferred[number])
    placed = [0.0] * len(preferred)
    last = low - gap
    for number in order:
        last = placed[number] = max(preferred[number], last + gap)
    limit = high
    for number in reversed(order):
        placed[number] = min(placed[number], limit)
        limit = placed[number] - gap
    return placed


def label(text: str, limit: int = 28) -> str:
    """Return foreign text without control characters, cut to `limit` characters."""
    return shorten(clean(text), limit)


def labels(texts: Iterable[str], limit: int = 12) -> dict[str, str]:
    """Return short labels that stay distinct: if long names begin alike, the common part is cut, not the end."""
    shown = {text: clean(text) for text in dict.fromkeys(texts)}
    alike: dict[str, list[str]] = {}
    for name in shown.values():
        alike.setdefault(label(name, limit), []).append(name)
    cut = {name: _own_part(name, names, limit) for names in alike.values() for name in names}
    return {text: cut[name] for text, name in shown.items()}


def _own_part(name: str, names: Sequence[str], limit: int) -> str:
    """Return the part that distinguishes a name from the others, with as much of the common beginning as fits."""
    if len(names) == 1 or len(name) <= limit:
        return label(name, limit)
    before = len(commonprefix(names))
    after = len(commonprefix([one[before:][::-1] for one in names]))
    own = max(len(one) for one in names) - before - after
    before = max(0, before - max(0, limit - 2 - own))
    part = name[before : len(name) - after]
    return label(("…" if before else "") + part + ("…" if after else ""), limit)


def frame(style: Style, title: str, body: Spec) -> Spec:
    """Return a complete specification that draws `body`: marks, layers or panels."""
    palette = style.palette
    head: Spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": None if palette.paper == "none" else palette.paper,
        "padding": 6,
        "config": _config(palette),
    }
    if style.titled:
        head["title"] = {"text": label(title, 70), "anchor": "start", "offset": 10}
    return head | body


def _config(palette: Palette) -> Spec:
    return {
        "font": FONT,
        "view": {"stroke": None},
        "title": {"fontSize": 14, "fontWeight": "bold", "color": palette.ink},
        "text": {"color": palette.ink, "fontSize": 12},
        "concat": {"spacing": 6},
        "axis": {
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelColor": palette.muted,
            "titleColor": palette.muted,
            "gridColor": palette.rule,
            "tickColor": palette.rule,
            "domainColor": palette.rule,
            "domain": False,
            "tickSize": 4,
            "labelPadding": 4,
            "titlePadding": 8,
            "labelOverlap": True,
        },
    }
