# SPDX-License-Identifier: Apache-2.0
"""The blocks of a trial in their random order: the turn of each arm, and what does not count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.trial_summary import ToldBlock
from ktrial.reports.charts.drawing import Cast, Chart, Spec, Style, Table, arm_colour, arm_shape, cast_of, frame, linear
from ktrial.reports.sentences import count_words

PLACE = 5
_MOST_BLOCKS = 120
_STEP = 20
_BESIDE = 56
_MARK = 120


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a chart with a column for each block, if this is a trial."""
    if comparison.trial is None or not comparison.trial.drawn:
        return
    cast = cast_of(comparison)
    drawn = comparison.trial.drawn[-_MOST_BLOCKS:]
    void = sum(one.void is not None for one in drawn)
    left_out = f" The chart shows the last {len(drawn)} blocks." if len(drawn) < len(comparison.trial.drawn) else ""
    marked = [count_words(void, "void block", "void blocks")] if void else []
    marked += ["failed runs"] if any(one.failed for one in drawn) else []
    crossed = f" Crossed out: {' and '.join(marked)}." if marked else " No block is void."
    yield Chart(
        name="visits",
        title="Order of the arms in each block",
        caption="Each column is a block, from its first visit at the top to its last. "
        f"Seed {comparison.trial.seed} reproduces these orders.{crossed}{left_out}{cast.note}",
        spec=frame(style, "Order of the arms in each block", _body(drawn, cast, style)),
        table=_table(drawn),
    )


def _table(drawn: Sequence[ToldBlock]) -> Table:
    rows = tuple(
        (
            str(one.block),
            ", ".join(one.order),
            "counts" if one.void is None else f"void: {one.void}",
            ", ".join(one.failed) or "-",
        )
        for one in drawn
    )
    return Table(headers=("block", "order", "counts", "failed"), rows=rows, numeric=(0,))


def _body(drawn: Sequence[ToldBlock], cast: Cast, style: Style) -> Spec:
    turns = max(len(one.order) for one in drawn)
    values = [
        {
            "block": one.block,
            "turn": turn,
            "arm": cast.number(arm),
            "opacity": 0.3 if one.void is not None else 1,
            "cross": one.void is not None or arm in one.failed,
        }
        for one in drawn
        for turn, arm in enumerate(one.order, 1)
        if arm in cast.arms
    ]
    width = style.width - _BESIDE
    ticks: Spec = {"grid": False, "tickMinStep": 1}
    x = {"field": "block"} | linear(drawn[0].block - 0.7, drawn[-1].block + 0.7, ticks | {"title": "block"})
    each_turn = {"title": "turn", "values": list(range(1, turns + 1)), "format": "d"}
    y = {"field": "turn"} | linear(turns + 0.6, 0.4, ticks | each_turn)
    size = min(_MARK, (0.8 * width / (drawn[-1].block - drawn[0].block + 1.4)) ** 2)
    return {
        "width": width,
        "height": turns * _STEP + 8,
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "size": max(8.0, size)},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": arm_colour(cast, style),
                    "shape": arm_shape(cast),
                    "opacity": {"field": "opacity", "type": "quantitative", "scale": None, "legend": None},
                },
            },
            {
                "transform": [{"filter": "datum.cross"}],
                "mark": {"type": "text", "text": "\N{MULTIPLICATION SIGN}", "fontSize": 15, "fontWeight": "bold"},
                "encoding": {"x": x, "y": y},
            },
        ],
    }
