# SPDX-License-Identifier: Apache-2.0
"""Latency curves: the quantiles of one quantity (p50, p90, p99) side by side, for each arm."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrial.bench.numbers import column
from ktrial.judge.model.comparison import ArmValues, Comparison, OutcomeComparison
from ktrial.reports.charts.drawing import (
    Cast,
    Chart,
    Spec,
    Style,
    Table,
    arm_colour,
    arm_shape,
    cast_of,
    frame,
    label,
    names_at_end,
    value_axis,
    value_channel,
)

PLACE = 3
_HEIGHT = 200
_LABEL_ROOM = 84
_QUANTILE = re.compile(r"(?<![a-z0-9])p([0-9]{2})(?:[._]?([0-9]{1,3})(?![0-9]))?(?![0-9])")


def quantile_of(name: str) -> tuple[str, float] | None:
    """Return (`latency.p*`, 99.9) for `latency.p99_9`; None if the name has no quantile."""
    match = _QUANTILE.search(name)
    if match is None:
        return None
    return f"{name[: match.start()]}p*{name[match.end() :]}", float(f"{match[1]}.{match[2] or 0}")


def families(comparison: Comparison) -> dict[str, list[tuple[float, OutcomeComparison]]]:
    """Return quantiles from low to high, by quantity, for quantities with two or more of them, all in one unit."""
    quantities: dict[str, dict[float, OutcomeComparison]] = {}
    for outcome in comparison.outcomes:
        quantile = quantile_of(outcome.outcome)
        if quantile is not None:
            quantities.setdefault(f"{outcome.benchmark}.{quantile[0]}", {}).setdefault(quantile[1], outcome)
    return {
        name: sorted(kept.items())
        for name, kept in quantities.items()
        if len(kept) > 1 and len({outcome.unit for outcome in kept.values()}) == 1
    }


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a chart for each quantity, with a curve for each arm; bars reach from the smallest to the largest run."""
    cast = cast_of(comparison)
    for place, (name, kept) in enumerate(families(comparison).items()):
        if not any(values.arm in cast.arms for _, outcome in kept for values in outcome.arms):
            continue
        yield Chart(
            name=f"quantiles-{place + 1}",
            title=f"Quantiles: {label(name, 40)}",
            caption="Points are the median run of each arm at each quantile; thin lines reach from the smallest to the "
            f"largest run.{cast.note}",
            spec=frame(style, name, _body(kept, cast, style)),
            table=_table(kept, cast),
        )


def _arms(outcome: OutcomeComparison, cast: Cast) -> list[ArmValues]:
    return [values for values in outcome.arms if values.arm in cast.arms]


def _table(kept: list[tuple[float, OutcomeComparison]], cast: Cast) -> Table:
    every = [values.median for _, outcome in kept for values in _arms(outcome, cast)]
    shown = column(every, kept[0][1].unit)
    rows = []
    for quantile, outcome in kept:
        medians = {values.arm: shown.show(values.median) for values in outcome.arms}
        rows.append((f"p{quantile:g}", *(medians.get(arm, "-") for arm in cast.arms)))
    headers = ("quantile", *(f"{arm} ({shown.unit})" for arm in cast.arms))
    return Table(headers=headers, rows=tuple(rows), numeric=tuple(range(1, len(headers))))


def _body(kept: list[tuple[float, OutcomeComparison]], cast: Cast, style: Style) -> Spec:
    first = kept[0][1]
    ends = [
        end
        for _, outcome in kept
        for values in _arms(outcome, cast)
        for end in (values.minimum, values.maximum, values.median)
    ]
    axis = value_axis(first, ends)
    values = [
        {
            "quantile": f"p{quantile:g}",
            "arm": cast.number(one.arm),
            "median": axis.at(one.median),
            "low": axis.at(one.minimum),
            "high": axis.at(one.maximum),
        }
        for quantile, outcome in kept
        for one in _arms(outcome, cast)
    ]
    x: Spec = {
        "field": "quantile",
        "type": "ordinal",
        "sort": [f"p{quantile:g}" for quantile, _ in kept],
        "axis": {"title": None, "labelAngle": 0, "grid": False},
    }
    offset: Spec = {"field": "arm", "type": "ordinal", "scale": {"paddingOuter": 0.3}}
    y = value_channel(first, axis)
    last = [(one.arm, axis.pixel(one.median, _HEIGHT)) for one in _arms(kept[-1][1], cast)]
    colour = arm_colour(cast, style)
    middle: Spec = {"x": x, "xOffset": offset, "color": colour}
    return {
        "width": style.width - _LABEL_ROOM - 60,
        "height": _HEIGHT,
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "line", "strokeWidth": 1.6}, "encoding": middle | {"y": {"field": "median"} | y}},
            {
                "mark": {"type": "rule", "strokeWidth": 1.2},
                "encoding": middle | {"y": {"field": "low"} | y, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
                "encoding": middle | {"y": {"field": "median"} | y, "shape": arm_shape(cast)},
            },
            *names_at_end(last, _HEIGHT, cast, colour),
        ],
    }
