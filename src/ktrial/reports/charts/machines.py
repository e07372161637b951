# SPDX-License-Identifier: Apache-2.0
"""Several machines: the effect on each, their mean, and the expected effect on another machine."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.reports.charts.drawing import Chart, Style, Table, frame, label
from ktrial.reports.charts.forest import Axis, ForestRow, axis_words, panel, reach_of, ticks
from ktrial.reports.machines import MachineRow, contrast_rows, mean_name
from ktrial.reports.order import by_weight

PLACE = 3
#: At most this many contrasts get a picture; the table shows all.
MOST_PICTURES = 4


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a picture for each of the most important contrasts that were measured on several machines."""
    pooled = [
        (outcome, contrast, rows)
        for outcome in by_weight(comparison.outcomes)
        for contrast in outcome.contrasts
        if (rows := _rows(outcome, contrast))
    ]
    for number, (outcome, contrast, rows) in enumerate(pooled[:MOST_PICTURES], 1):
        yield Chart(
            name=f"machines-{number}",
            title=f"{outcome.name}, {contrast.arm}: machine by machine",
            caption=_caption(contrast),
            spec=frame(style, comparison.title, panel(rows, ratio_axis(outcome, rows), style)),
            table=_table(outcome, contrast),
            marks=True,
        )


def _rows(outcome: OutcomeComparison, contrast: Contrast) -> list[ForestRow]:
    pooled = contrast.pooled
    if pooled is None:
        return []
    rows = [
        ForestRow(outcome, contrast, one.effect, one.machine, f"{one.blocks} blocks")
        for one in pooled.machines
        if one.effect is not None
    ]
    whole = contrast.effect
    if rows and whole is not None:
        rows.append(ForestRow(outcome, contrast, whole, mean_name(pooled)))
    if rows and whole is not None and pooled.predicted_low is not None:
        expected = replace(whole, low=pooled.predicted_low, high=pooled.predicted_high)
        rows.append(ForestRow(outcome, contrast, expected, "one more machine", "expected"))
    return rows


def ratio_axis(outcome: OutcomeComparison, rows: list[ForestRow]) -> Axis:
    """Return an axis that fits the effects of one outcome."""
    margin = math.log1p(outcome.margin)
    return Axis(
        reach=reach_of(rows, 1.5 * margin, 1e-4),
        margins=(margin,) * len(rows),
        title=axis_words("ratio to the control", [outcome]),
        round_places=ticks,
    )


def _caption(contrast: Contrast) -> str:
    text = f"Points are estimates against {label(contrast.control)}, lines their intervals."
    if contrast.pooled is None or not contrast.pooled.together:
        last = f"Not pooled: {contrast.why}." if contrast.effect is None else "The last row is all machines together."
        return f"{text} {last}"
    return f"{text} The last line is a prediction interval: it shows what effect to expect on another machine."


def _table(outcome: OutcomeComparison, contrast: Contrast) -> Table:
    rows = tuple(row[2:] for row in contrast_rows(outcome, contrast))
    return Table(headers=MachineRow._fields[2:], rows=rows, numeric=(1, 2, 3))
