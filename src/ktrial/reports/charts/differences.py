# SPDX-License-Identifier: Apache-2.0
"""Differences, for outcomes whose values may be zero or negative: one panel per outcome, in its own unit."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from ktrial.bench.text import scale_for
from ktrial.judge.model.comparison import Comparison
from ktrial.reports.charts.drawing import Chart, Spec, Style, frame
from ktrial.reports.charts.forest import Axis, ForestRow, axis_words, caption, panel, reach_of, rows_on, table_of
from ktrial.reports.order import by_weight

PLACE = 2
#: A picture shows at most this many outcomes; the verdict table shows all.
MOST_PANELS = 12
_STEPS = (1.0, 2.0, 4.0, 5.0)


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a chart of the differences with their intervals, unless every effect is a ratio."""
    every = [rows for outcome in by_weight(comparison.outcomes) if (rows := rows_on("difference", outcome, comparison))]
    if not every:
        return
    shown = every[:MOST_PANELS]
    axes = [_axis(rows) for rows in shown]
    rows = [row for of_outcome in shown for row in of_outcome]
    left_out = sum(map(len, every[MOST_PANELS:]))
    words = dict.fromkeys(
        one for rows_here, axis in zip(shown, axes, strict=True) for one in caption(comparison, rows_here, axis)
    )
    notes = [*words, *([f"{left_out} more are in the verdict table."] if left_out else [])]
    panels = [panel(*pair, style, f"values_{number}") for number, pair in enumerate(zip(shown, axes, strict=True))]
    body: Spec = {"vconcat": panels, "spacing": 24}
    yield Chart(
        name="differences",
        title="Differences with their intervals, for values that may be zero",
        caption=" ".join(notes),
        spec=frame(style, comparison.title, body),
        table=table_of(rows),
        marks=True,
    )


def _axis(rows: list[ForestRow]) -> Axis:
    """Return an axis in the unit that suits the largest effect; ticks show the signed change of the value."""
    outcome = rows[0].outcome
    middle = {values.arm: abs(values.median) for values in outcome.arms}
    margins = tuple(outcome.margin * middle.get(row.contrast.control, 0.0) for row in rows)
    reach = reach_of(rows, 1.5 * max(margins), 0.0) or 1.0
    factor, unit = scale_for(reach, outcome.unit)
    sign = "-" if outcome.direction == "lower" else ""
    ending = json.dumps(f" {unit}".rstrip())
    return Axis(
        reach=reach / factor,
        margins=margins,
        title=axis_words("difference from the control", [outcome]),
        label=f"datum.value == 0 ? 'same' : format({sign}datum.value, '+.4~g') + {ending}",
        factor=factor,
        round_places=round_differences,
    )


def round_differences(reach: float, each_side: int) -> list[float]:
    """Return round numbers on both sides of zero."""
    power = 10.0 ** math.floor(math.log10(reach / (each_side + 1)))
    step = next((power * one for one in _STEPS if reach / (power * one) < each_side + 1), 10 * power)
    right = [step * number for number in range(1, each_side + 1) if step * number <= reach]
    return [*(-one for one in reversed(right)), 0.0, *right]
