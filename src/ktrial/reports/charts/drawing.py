# SPDX-License-Identifier: Apache-2.0
"""What all charts share: colours, the cast of arms, axes, and the frame of a Vega-Lite specification."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from posixpath import commonprefix
from typing import Any

import msgspec

from ktrial.bench.text import scale_for
from ktrial.compare.history.model import History
from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.verdict import Verdict
from ktrial.kit.tables import clean

Spec = dict[str, Any]

#: How many arms a chart tells apart; those beyond are in the tables.
MOST_ARMS = 8
#: A font that is nowhere: Vega then estimates widths by the number of characters, the same on every machine.
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
    """Colours. `arms` begins with that of the control."""

    paper: str
    ink: str
    muted: str
    rule: str
    band: str
    arms: tuple[str, ...]
    verdicts: Mapping[str, str]

    def verdict(self, verdict: Verdict) -> str:
        return self.verdicts[VERDICT_KEYS[verdict]]


#: For pictures that stand alone. Told apart with every kind of colour blindness; shapes and words say the same.
PAPER = Palette(
    paper="#ffffff",
    ink="#1d2329",
    muted="#57616b",
    rule="#dde2e7",
    band="#eaeef2",
    arms=("#5b6570", "#0b6bb0", "#b0458c", "#a87a00", "#2f9fd6", "#6a51c9", "#4d8f2f", "#8a5a3c"),
    verdicts={"better": "#00796b", "worse": "#c2410c", "equal": "#57616b", "open": "#57616b"},
)
#: For the page, whose style sheet says what the colours are, by day and by night.
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
    """How charts are drawn: `titled` where nothing around them says what they show."""

    palette: Palette = PAPER
    width: int = 400
    most_points: int = 1200
    titled: bool = True


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """What a chart shows, in words and numbers. `numeric` names the columns that are aligned as numbers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One chart. `marks` says that its marks named `values` are the rows of its table, in the same order.

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
    """The arms that charts show, the control first, each with its colour and shape."""

    arms: tuple[str, ...]
    hidden: int

    @property
    def note(self) -> str:
        """What a caption adds where arms are left out."""
        return f" {self.hidden} more arms are in the tables only." if self.hidden else ""

    def number(self, arm: str) -> int:
        return self.arms.index(arm)

    def name(self, arm: str, limit: int = 12) -> str:
        """Return what the arm is called where there is room for so many characters."""
        return labels(self.arms, limit)[arm]


def cast_of(comparison: Comparison) -> Cast:
    """Return the control and the first arms."""
    named = [comparison.control, *(one.arm for one in comparison.arms), *_measured_arms(comparison)]
    arms = tuple(dict.fromkeys(named))
    return Cast(arms[:MOST_ARMS], max(0, len(arms) - MOST_ARMS))


def _measured_arms(comparison: Comparison) -> list[str]:
    return [values.arm for outcome in comparison.outcomes for values in outcome.arms]


def arm_colour(cast: Cast, style: Style, field: str = "arm") -> Spec:
    """Colour by the number of the arm: labels may repeat once they are cut, numbers do not."""
    shown = range(len(cast.arms))
    return {
        "field": field,
        "type": "nominal",
        "scale": {"domain": list(shown), "range": [style.palette.arms[number] for number in shown]},
        "legend": None,
    }


def arm_shape(cast: Cast, field: str = "arm") -> Spec:
    """Shape by the number of the arm."""
    shown = range(len(cast.arms))
    return {
        "field": field,
        "type": "nominal",
        "scale": {"domain": list(shown), "range": [SHAPES[number] for number in shown]},
        "legend": None,
    }


class ValueAxis(msgspec.Struct, frozen=True):
    """The unit in which an outcome's values are drawn, and the ends of its axis in that unit."""

    factor: float
    unit: str
    low: float
    high: float
    log: bool

    def at(self, value: float) -> float:
        return value / self.factor

    def pixel(self, value: float, height: float) -> float:
        """Return how far below the top an axis of that height has a value."""
        turn = math.log if self.log else float
        low, high = turn(self.low), turn(self.high)
        return height * (1 - (turn(self.at(value)) - low) / (high - low))

    def scale(self) -> Spec:
        return {"type": "log" if self.log else "linear", "domain": [self.low, self.high], "nice": False, "zero": False}


#: From this ratio of the largest to the smallest value on, an axis is logarithmic.
_LOG_FROM = 30.0
_ROOM = 0.06


def value_axis(outcome: OutcomeComparison | History, values: Sequence[float]) -> ValueAxis:
    """An axis that holds the values with some room; logarithmic where they span decades and none is zero or less."""
    smallest, largest = min(values), max(values)
    factor, unit = scale_for(sorted(values, key=abs)[len(values) // 2], outcome.unit)
    low, high = smallest / factor, largest / factor
    if low > 0 and high / low > _LOG_FROM:
        return ValueAxis(factor, unit, low * (low / high) ** _ROOM, high * (high / low) ** _ROOM, log=True)
    room = (high - low) * _ROOM or abs(high) * _ROOM or 1.0
    floor = low - room
    return ValueAxis(factor, unit, 0.0 if low >= 0 > floor else floor, high + room, log=False)


def axis_title(outcome: OutcomeComparison | History, axis: ValueAxis) -> str:
    """`ms, lower is better`."""
    unit = axis.unit or outcome.unit
    return unit if outcome.direction is None else f"{unit}, {outcome.direction} is better"


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places near those wanted, `gap` apart at least, within `low` to `high` as far as there is room."""
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    placed = [0.0] * len(wanted)
    last = low - gap
    for number in order:
        last = placed[number] = max(wanted[number], last + gap)
    limit = high
    for number in reversed(order):
        placed[number] = min(placed[number], limit)
        limit = placed[number] - gap
    return placed


def label(text: str, limit: int = 28) -> str:
    """Return foreign text for a picture: no control characters, no more than that many characters."""
    shown = clean(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def labels(texts: Iterable[str], limit: int = 12) -> dict[str, str]:
    """Labels that stay apart: where long names begin alike, what these share is left out instead of their ends."""
    shown = {text: clean(text) for text in dict.fromkeys(texts)}
    alike: dict[str, list[str]] = {}
    for name in shown.values():
        alike.setdefault(label(name, limit), []).append(name)
    cut = {name: _own_part(name, names, limit) for names in alike.values() for name in names}
    return {text: cut[name] for text, name in shown.items()}


def _own_part(name: str, names: Sequence[str], limit: int) -> str:
    """What tells one of the names from the others, with as much of their common beginning as there is room for."""
    if len(names) == 1 or len(name) <= limit:
        return label(name, limit)
    before = len(commonprefix(names))
    after = len(commonprefix([one[before:][::-1] for one in names]))
    own = max(len(one) for one in names) - before - after
    before = max(0, before - max(0, limit - 2 - own))
    part = name[before : len(name) - after]
    return label(("…" if before else "") + part + ("…" if after else ""), limit)


def frame(style: Style, title: str, body: Spec) -> Spec:
    """Return a whole specification around marks, layers or panels."""
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
