# SPDX-License-Identifier: Apache-2.0
"""The forest plot: every effect on a ratio scale with its interval, and the margin as a band.

`panel` draws effects on any scale; `differences` uses it for outcomes whose values may be zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.verdict import Effect
from ktrial.judge.model.words import effect_text
from ktrial.reports.charts.drawing import MARKS, Chart, Spec, Style, Table, ends_of, frame, label, labels, linear
from ktrial.reports.order import by_weight, explored, short_names

PLACE = 1
#: A picture shows at most this many effects; the verdict table shows all.
MOST_ROWS = 40
#: An interval that reaches more than this many times as far as the farthest estimate is cut at the edge.
_REACH = 3.0
#: The label of a tick: a factor such as `1.1` with a times sign, on both sides.
RATIO_LABEL = "datum.value == 0 ? 'same' : format(exp(abs(datum.value)), '.4~g') + '\N{MULTIPLICATION SIGN}'"
_NARROW = 500
#: Pixels for two ticks, one on each side.
_TICK = 110
#: Pixels for the texts to the left and right of a wide plot, and for each letter of the longest name.
_BESIDE, _LETTER = 350, 7.2
#: Characters of the name beside a row.
_NARROW_NAME, _WIDE_NAME = 34, 30
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
#: Above this ratio, ticks are powers of one of `_POWERS`.
_POWERS_FROM = 2.5
_POWERS = (2.0, 4.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e10, 1e20, 1e50, 1e100, 1e200)
#: The characters of an interval that fit before the verdict, and the width of each further one.
_INTERVAL, _FIGURE = 19, 6.8


class ForestRow(msgspec.Struct, frozen=True):
    """An effect in the picture. If set, `name` replaces outcome and arm, and `said` replaces the verdict."""

    outcome: OutcomeComparison
    contrast: Contrast
    effect: Effect
    name: str | None = None
    said: str | None = None


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """The axis of a picture: it extends `reach` to both sides of no effect, in units of `factor`.

    `round_places(reach, each_side)` returns the ticks; `margins` holds half the width of each row's band.
    """

    reach: float
    margins: tuple[float, ...]
    title: str
    label: str = RATIO_LABEL
    factor: float = 1.0
    round_places: Callable[[float, int], list[float]]


def rows_of(comparison: Comparison) -> tuple[list[ForestRow], int]:
    """Return the effects on the ratio scale, the weightiest outcomes first, and the number of other effects."""
    rows = [row for outcome in by_weight(comparison.outcomes) for row in rows_on("log", outcome, comparison)]
    return rows, sum(len(outcome.contrasts) for outcome in comparison.outcomes) - len(rows)


def rows_on(scale: str, outcome: OutcomeComparison, comparison: Comparison) -> list[ForestRow]:
    """Return the effects on a scale; exploratory outcomes of a trial get no verdict."""
    said = "explored" if outcome in explored(comparison) else None
    return [
        ForestRow(outcome, contrast, contrast.effect, said=said)
        for contrast in outcome.contrasts
        if contrast.effect is not None and contrast.effect.scale == scale
    ]


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield the forest plot of the weightiest effects, if there are any."""
    rows, others = rows_of(comparison)
    if rows:
        yield forest(comparison, rows[:MOST_ROWS], style, left_out=len(rows) - MOST_ROWS, others=others)


def forest(
    comparison: Comparison, rows: Sequence[ForestRow], style: Style, *, left_out: int = 0, others: int = 0
) -> Chart:
    axis = Axis(
        reach=reach_of(rows, max(1.5 * math.log1p(row.outcome.margin) for row in rows), 1e-4),
        margins=tuple(math.log1p(row.outcome.margin) for row in rows),
        title=axis_words("ratio to the control", [row.outcome for row in rows]),
        round_places=ticks,
    )
    notes = [
        *caption(comparison, rows, axis),
        *([f"{left_out} more effects are in the verdict table."] if left_out > 0 else []),
        *(
            [f"Effects without a ratio ({others}) are in a chart of their own or in the verdict table."]
            if others
            else []
        ),
    ]
    return Chart(
        name="forest",
        title="Effects with their intervals",
        caption=" ".join(notes),
        spec=frame(style, comparison.title, panel(rows, axis, style)),
        table=table_of(rows),
        marks=True,
    )


def caption(comparison: Comparison, rows: Sequence[ForestRow], axis: Axis) -> list[str]:
    """Return sentences that explain points, lines, band and arrowheads."""
    cut = any(_ends(row, axis)[2] for row in rows)
    against = label(comparison.control)
    return [
        f"Points are estimates against {against}, lines their intervals; to the right is {right_words(rows)}.",
        "The shaded band is the margin: differences inside it do not matter.",
        *(["Verdicts are corrected for the number of effects, intervals are not."] if _is_corrected(rows) else []),
        *(["An arrowhead marks an interval that continues beyond the picture."] if cut else []),
    ]


def _is_corrected(rows: Sequence[ForestRow]) -> bool:
    """Return whether the verdicts are corrected for several comparisons, which the intervals are not."""
    return len(rows) > 1 and any(row.contrast.pooled is None or row.contrast.test is not None for row in rows)


def right_words(rows: Iterable[ForestRow]) -> str:
    """Return the meaning of the right-hand side of a picture."""
    known = all(row.outcome.direction is not None for row in rows)
    return "better" if known else "better, or more if nobody said which way is better"


def axis_words(what: str, outcomes: Iterable[OutcomeComparison]) -> str:
    """Return an axis title that names the meaning of both sides."""
    known = {outcome.direction is not None for outcome in outcomes}
    left, right = ("worse", "better") if known == {True} else ("less", "more")
    if len(known) == 2:
        left, right = "worse or less", "better or more"
    return f"{left}  \N{LEFTWARDS ARROW}   {what}   \N{RIGHTWARDS ARROW}  {right}"


def table_of(rows: Sequence[ForestRow]) -> Table:
    cells = tuple(
        (
            *(row.outcome.name, row.contrast.arm),
            *effect_text(row.effect, row.outcome.unit, row.outcome.direction),
            row.said or row.contrast.verdict,
        )
        for row in rows
    )
    return Table(headers=("outcome", "arm", "change", "interval", "verdict"), rows=cells, numeric=(2, 3))


def reach_of(rows: Sequence[ForestRow], margin: float, least: float) -> float:
    """Return the axis limit: estimates, margins and most intervals fit in; much longer intervals are cut there."""
    core = max(*(abs(row.effect.estimate) for row in rows), margin, least)
    ends = [abs(end) for row in rows for end in (row.effect.low, row.effect.high) if end is not None]
    return 1.08 * max(core, min(max(ends, default=core), _REACH * core))


def _ends(row: ForestRow, axis: Axis) -> tuple[float, float, bool]:
    """Return the visible part of the interval, and whether it continues beyond the picture."""
    low, high = (end / axis.factor for end in ends_of(row.effect))
    reach = axis.reach
    return max(low, -reach), min(high, reach), low < -reach or high > reach


def ticks(reach: float, each_side: int) -> list[float]:
    """Return the positions of round ratios on both sides of 1."""
    wide = reach > math.log(_POWERS_FROM)
    step = None if wide else next((one for one in _STEPS if math.expm1(reach) / one <= each_side + 0.95), None)
    if step is not None:
        places = [math.log1p(step * number) for number in range(1, each_side + 1)]
    else:
        fitting = (math.log(one) for one in _POWERS if reach / math.log(one) <= each_side + 0.95)
        power = next(fitting, math.log(_POWERS[-1]))
        places = [power * number for number in range(1, each_side + 1)]
    right = [one for one in places if one <= reach]
    return [*(-one for one in reversed(right)), 0.0, *right]


def panel(rows: Sequence[ForestRow], axis: Axis, style: Style, marks: str = "values") -> Spec:
    """Return layers that draw the rows with their figures; `marks` names the layer of the points."""
    narrow = style.width < _NARROW
    names = _names(rows, _NARROW_NAME if narrow else _WIDE_NAME)
    values = [
        _datum(number, row, name, axis, style) for number, (row, name) in enumerate(zip(rows, names, strict=True))
    ]
    columns = _Columns(names, [value["interval"] for value in values], style.width)
    order = [value["row"] for value in values]
    plot = style.width - 12 if narrow else columns.plot
    places = axis.round_places(axis.reach, max(1, min(4, int(plot / _TICK))))
    shown: Spec = {"values": places, "labelExpr": axis.label, "title": axis.title, "labelOverlap": False}
    x = linear(-axis.reach, axis.reach, shown)
    y: Spec = {"field": "row", "type": "ordinal", "sort": order, "axis": None, "scale": {"paddingInner": 0.0}}
    colour: Spec = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    palette = style.palette
    layers = [
        {
            "mark": {"type": "rect", "color": palette.band},
            "encoding": {"x": {"field": "margin_low"} | x, "x2": {"field": "margin_high"}, "y": y},
        },
        {"mark": {"type": "rule", "color": palette.muted}, "encoding": {"x": {"datum": 0} | x}},
        {
            "mark": {"type": "rule", "strokeWidth": 2.5, "strokeCap": "round", "yOffset": 9 if narrow else 0},
            "encoding": {"x": {"field": "low"} | x, "x2": {"field": "high"}, "y": y, "color": colour},
        },
        *(_arrow(side, x, y, colour, narrow=narrow) for side in ("left", "right")),
        {
            "name": marks,
            "mark": {
                "type": "point",
                "filled": True,
                "opacity": 1,
                "size": 70,
                "stroke": palette.background,
                "strokeWidth": 1,
                "yOffset": 9 if narrow else 0,
            },
            "encoding": {"x": {"field": "estimate"} | x, "y": y, "color": colour},
        },
        *(_narrow_texts(y, colour, style) if narrow else _wide_texts(y, colour, style, columns)),
    ]
    return {"width": plot, "height": {"step": 48 if narrow else 28}, "data": {"values": values}, "layer": layers}


def _arrow(side: str, x: Spec, y: Spec, colour: Spec, *, narrow: bool) -> Spec:
    return {
        "transform": [{"filter": f"datum.cut_{side}"}],
        "mark": {
            "type": "point",
            "filled": True,
            "shape": f"triangle-{side}",
            "size": 60,
            "opacity": 1,
            "yOffset": 9 if narrow else 0,
        },
        "encoding": {"x": {"field": "low" if side == "left" else "high"} | x, "y": y, "color": colour},
    }


def _names(rows: Sequence[ForestRow], limit: int) -> list[str]:
    """Return the text beside each row: the outcome, and the arm if there are several."""
    if all(row.name is not None for row in rows):
        return [label(str(row.name), limit) for row in rows]
    shown = short_names(row.outcome for row in rows)
    if len({row.contrast.arm for row in rows}) == 1:
        return [label(shown[row.outcome.name], limit) for row in rows]
    short = labels((row.contrast.arm for row in rows), limit // 2)
    arms = [short[row.contrast.arm] for row in rows]
    return [
        f"{label(shown[row.outcome.name], limit - len(arm) - 3)} · {arm}" for row, arm in zip(rows, arms, strict=True)
    ]


def _datum(number: int, row: ForestRow, name: str, axis: Axis, style: Style) -> Spec:
    low, high, _ = _ends(row, axis)
    estimate, interval = effect_text(row.effect, row.outcome.unit, row.outcome.direction)
    margin, reach = min(axis.margins[number] / axis.factor, axis.reach), axis.reach * axis.factor
    return {
        "row": number,
        "name": name,
        "estimate": row.effect.estimate / axis.factor,
        "low": low,
        "high": high,
        "cut_left": row.effect.low is not None and row.effect.low < -reach,
        "cut_right": row.effect.high is not None and row.effect.high > reach,
        "margin_low": -margin,
        "margin_high": margin,
        "change": estimate,
        "interval": "" if interval == "-" else interval,
        "verdict": row.said or f"{MARKS[row.contrast.verdict]} {row.contrast.verdict}",
        "mark": "" if row.said else MARKS[row.contrast.verdict],
        "colour": style.palette.muted if row.said else style.palette.verdict(row.contrast.verdict),
    }


def _text(field: str, y: Spec, colour: Spec | None, **mark: float | str) -> Spec:
    encoding: Spec = {"text": {"field": field}, "y": y} | ({"color": colour} if colour else {})
    return {"mark": {"type": "text", "baseline": "middle"} | mark, "encoding": encoding}


class _Columns:
    """The layout of a wide plot: its width, and where the verdict begins."""

    def __init__(self, names: Sequence[str], intervals: Sequence[str], width: int) -> None:
        longer = _FIGURE * max(0, max(map(len, intervals)) - _INTERVAL)
        self.plot = max(160.0, width - _BESIDE - longer - _LETTER * max(map(len, names)))
        self.verdict = self.plot + 224 + longer


def _wide_texts(y: Spec, colour: Spec, style: Style, columns: _Columns) -> list[Spec]:
    plot = columns.plot
    return [
        _text("name", y, None, x=-10, align="right"),
        _text("change", y, None, x=plot + 74, align="right"),
        _text("interval", y, None, x=plot + 86, align="left", color=style.palette.muted),
        _text("verdict", y, colour, x=columns.verdict, align="left", fontWeight="bold"),
    ]


def _narrow_texts(y: Spec, colour: Spec, style: Style) -> list[Spec]:
    plot = style.width - 12
    return [
        _text("name", y, None, x=0, align="left", dy=-9),
        _text("change", y, None, x=plot - 18, align="right", dy=-9),
        _text("mark", y, colour, x=plot, align="right", dy=-9, fontWeight="bold"),
    ]
