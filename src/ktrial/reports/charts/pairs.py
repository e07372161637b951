# SPDX-License-Identifier: Apache-2.0
"""Pairs of arms against each other, with intervals (Tukey HSD, Games-Howell, Dunnett)."""

from __future__ import annotations

from collections.abc import Iterator

from ktrial.judge.model.comparison import Comparison, OutcomeComparison, Pair
from ktrial.judge.model.words import effect_text, p_text
from ktrial.reports.charts.drawing import Chart, Spec, Style, Table, ends_of, frame, label, labels, linear
from ktrial.reports.charts.forest import RATIO_LABEL, axis_words, ticks

PLACE = 13
_MOST_PAIRS = 30


def of_outcome(comparison: Comparison, outcome: OutcomeComparison, style: Style) -> Iterator[Chart]:
    """Yield a chart for each method, with the pairs of arms and their intervals."""
    for place, family in enumerate(outcome.pairwise):
        pairs = [pair for pair in family.pairs if pair.effect.scale == "log"]
        if not pairs:
            continue
        left_out = f" {len(family.pairs) - _MOST_PAIRS} more are in the table." if len(pairs) > _MOST_PAIRS else ""
        yield Chart(
            name="pairs" if place == 0 else f"pairs-{place + 1}",
            title=f"Pair by pair: {label(family.method)}",
            caption=f"The second arm of each pair against the first, with intervals by {label(family.method)}; "
            f"to the right, the second is {'better' if outcome.direction else 'more'}. "
            f"Filled points mark pairs that differ.{left_out}",
            spec=frame(style, f"{outcome.name}: {family.method}", _body(pairs[:_MOST_PAIRS], outcome, style)),
            table=Table(
                headers=("first", "second", "change", "interval", family.statistic, "adjusted p", "differs"),
                rows=tuple(_row(pair, outcome) for pair in family.pairs),
                numeric=(2, 3, 4, 5),
            ),
            marks=len(pairs) == len(family.pairs) and len(pairs) <= _MOST_PAIRS,
        )


def _row(pair: Pair, outcome: OutcomeComparison) -> tuple[str, ...]:
    estimate, interval = effect_text(pair.effect, outcome.unit, outcome.direction)
    differs = "yes" if pair.differs else "not shown"
    return pair.first, pair.second, estimate, interval, f"{pair.statistic:.3g}", p_text(pair.p_adjusted), differs


def _body(pairs: list[Pair], outcome: OutcomeComparison, style: Style) -> Spec:
    palette = style.palette
    reach = 1.1 * max(1e-4, *(abs(end) for pair in pairs for end in (pair.effect.estimate, *ends_of(pair.effect))))
    names = labels(arm for pair in pairs for arm in (pair.first, pair.second))
    values = [
        {
            "row": place,
            "name": f"{names[pair.second]} \N{MINUS SIGN} {names[pair.first]}",
            "estimate": pair.effect.estimate,
            **dict(zip(("low", "high"), ends_of(pair.effect), strict=True)),
            "fill": palette.ink if pair.differs else palette.background,
        }
        for place, pair in enumerate(pairs)
    ]
    shown = {"values": ticks(reach, 2), "labelExpr": RATIO_LABEL, "title": axis_words("ratio", [outcome])}
    x = linear(-reach, reach, shown)
    y: Spec = {"field": "row", "type": "ordinal", "axis": None}
    return {
        "width": style.width - 160,
        "height": {"step": 24},
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "rule", "color": palette.muted}, "encoding": {"x": {"datum": 0} | x}},
            {
                "mark": {"type": "rule", "strokeWidth": 2, "color": palette.ink},
                "encoding": {"x": {"field": "low"} | x, "x2": {"field": "high"}, "y": y},
            },
            {
                "name": "values",
                "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1, "stroke": palette.ink},
                "encoding": {
                    "x": {"field": "estimate"} | x,
                    "y": y,
                    "fill": {"field": "fill", "type": "nominal", "scale": None, "legend": None},
                },
            },
            {"mark": {"type": "text", "align": "right", "x": -8}, "encoding": {"text": {"field": "name"}, "y": y}},
        ],
    }
