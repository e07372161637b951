# SPDX-License-Identifier: Apache-2.0
"""The arms of each block joined by a line, which shows the change within blocks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ktrial.bench.numbers import column
from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.reports.charts.drawing import (
    Cast,
    Chart,
    Spec,
    Style,
    Table,
    arm_colour,
    cast_of,
    frame,
    label,
    value_axis,
    value_channel,
)

PLACE = 11
_MOST_BLOCKS = 120
_HEIGHT = 200


def of_outcome(comparison: Comparison, outcome: OutcomeComparison, style: Style) -> Iterator[Chart]:
    """Yield a chart with a line for each block that has at least two arms."""
    cast = cast_of(comparison)
    blocks = _blocks(outcome, cast)
    if len(blocks) < 2:
        return
    shown = _spread(list(blocks), _MOST_BLOCKS)
    thinned = f" The chart shows {len(shown)} of {len(blocks)} blocks." if len(shown) < len(blocks) else ""
    chosen = {name: blocks[name] for name in shown}
    yield Chart(
        name="blocks",
        title="Block by block",
        caption="Each line joins the arms of one block; a point is the median of an arm's runs in the block."
        f"{_agreement(outcome, cast, blocks)}{thinned}{cast.note}",
        spec=frame(style, outcome.name, _body(outcome, chosen, cast, style)),
        table=_table(outcome, chosen, cast),
    )


def _blocks(outcome: OutcomeComparison, cast: Cast) -> dict[str, dict[int, float]]:
    """Map each block with at least two arms to the medians of its arms, by the number of the arm."""
    blocks: dict[str, dict[int, list[float]]] = {}
    for values in outcome.arms:
        for point in values.points if values.arm in cast.arms else ():
            if point.block is not None:
                blocks.setdefault(point.block, {}).setdefault(cast.number(values.arm), []).append(point.value)
    return {
        block: {arm: statistics.median(runs) for arm, runs in sorted(arms.items())}
        for block, arms in blocks.items()
        if len(arms) > 1
    }


def _spread(names: list[str], most: int) -> list[str]:
    if len(names) <= most:
        return names
    return [names[number * len(names) // most] for number in range(most)]


def _agreement(outcome: OutcomeComparison, cast: Cast, blocks: dict[str, dict[int, float]]) -> str:
    """Return the sentence that says in how many blocks the arm was better; empty unless there are two arms."""
    if len(cast.arms) != 2 or cast.hidden or outcome.direction is None:
        return ""
    sign = -1 if outcome.direction == "lower" else 1
    wins = sum(sign * (arms[1] - arms[0]) > 0 for arms in blocks.values())
    return f" {label(cast.arms[1])} is better in {wins} of {len(blocks)} blocks."


def _table(outcome: OutcomeComparison, blocks: dict[str, dict[int, float]], cast: Cast) -> Table:
    kept = column((value for arms in blocks.values() for value in arms.values()), outcome.unit)
    present = sorted({arm for arms in blocks.values() for arm in arms})
    rows = tuple(
        (block, *(kept.show(arms[arm]) if arm in arms else "-" for arm in present)) for block, arms in blocks.items()
    )
    headers = ("block", *(f"{cast.arms[arm]} ({kept.unit})" for arm in present))
    return Table(headers=headers, rows=rows, numeric=tuple(range(1, len(headers))))


def _body(outcome: OutcomeComparison, blocks: dict[str, dict[int, float]], cast: Cast, style: Style) -> Spec:
    axis = value_axis(outcome, [value for arms in blocks.values() for value in arms.values()])
    values: list[Spec] = [
        {"block": place, "arm": arm, "name": cast.name(cast.arms[arm]), "value": axis.at(value)}
        for place, arms in enumerate(blocks.values())
        for arm, value in arms.items()
    ]
    present = sorted({value["arm"] for value in values})
    room = max(8, int((style.width - 70) / len(present) / 7))
    names = {str(arm): cast.name(cast.arms[arm], room) for arm in present}
    x: Spec = {
        "field": "arm",
        "type": "ordinal",
        "scale": {"domain": present, "padding": 0.4},
        "axis": {
            "title": None,
            "labelOverlap": False,
            "labelAngle": 0 if len(present) <= 4 else -35,
            "labelExpr": " ".join(f"datum.value == {arm} ? {_quoted(name)} :" for arm, name in names.items()) + " ''",
        },
    }
    y = {"field": "value"} | value_channel(outcome, axis)
    faint = 0.75 if len(blocks) <= 30 else 0.35
    return {
        "width": style.width - 70,
        "height": _HEIGHT,
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "line", "color": style.palette.muted, "strokeWidth": 1, "opacity": faint},
                "encoding": {"x": x, "y": y, "detail": {"field": "block"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 36, "opacity": 0.9},
                "encoding": {"x": x, "y": y, "color": arm_colour(cast, style)},
            },
        ],
    }


def _quoted(text: str) -> str:
    """Return a string literal for Vega expressions, with escapes for everything but ASCII letters and digits."""
    safe = (one if one.isascii() and one.isalnum() else f"\\u{{{ord(one):x}}}" for one in text)
    return f"'{''.join(safe)}'"
