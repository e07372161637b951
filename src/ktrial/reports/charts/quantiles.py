# SPDX-License-Identifier: Apache-2.0
"""Latency curves: the quantiles of one quantity (p50, p90, p99) side by side, arm by arm."""

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
    axis_title,
    cast_of,
    frame,
    label,
    spread_labels,
    value_axis,
)

PLACE = 3
_HEIGHT = 200
_LABEL_ROOM = 84
_QUANTILE = re.compile(r"(?<![a-z0-9])p([0-9]{2})(?:[._]?([0-9]{1,3})(?![0-9]))?(?![0-9])")


def quantile_of(name: str) -> tuple[str, float] | None:
    """`latency.p99_9` -> (`latency.p*`, 99.9); None if the name tells no quantile."""
    found = _QUANTILE.search(name)
    if found is None:
        return None
    return f"{name[: found.start()]}p*{name[found.end() :]}", float(f"{found[1]}.{found[2] or 0}")


def families(comparison: Comparison) -> dict[str, list[tuple[float, OutcomeComparison]]]:
    """Quantiles of one quantity, two at least, from low to high."""
    found: dict[str, dict[float, OutcomeComparison]] = {}
    for outcome in comparison.outcomes:
        quantile = quantile_of(outcome.outcome)
        if quantile is not None:
            found.setdefault(f"{outcome.benchmark}.{quantile[0]}", {}).setdefault(quantile[1], outcome)
    return {name: sorted(kept.items()) for name, kept in found.items() if len(kept) > 1 and _one_unit(kept)}


def _one_unit(kept: dict[float, OutcomeComparison]) -> bool:
    return len({outcome.unit for outcome in kept.values()}) == 1


def of_comparison(comparison: Comparison, style: Style) -> Iterator[Chart]:
    """Yield a curve for each arm; bars reach from the smallest to the largest run."""
    cast = cast_of(comparison)
    for place, (name, kept) in enumerate(families(comparison).items()):
        if not any(values.arm in cast.arms for _, outcome in kept for values in outcome.arms):
            continue
        yield Chart(
            name=f"quantiles-{place + 1}",
            title=f"Quantiles: {label(name, 40)}",
            caption="The median run of each arm at each quantile; thin lines reach from the smallest to the largest "
            f"run.{cast.note}",
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
    y: Spec = {
        "type": "quantitative",
        "scale": axis.scale(),
        "axis": {"title": axis_title(first, axis), "tickCount": 5},
    }
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
            *_names(kept[-1][1], cast, [axis.pixel(one.median, _HEIGHT) for one in _arms(kept[-1][1], cast)], colour),
        ],
    }


def _names(outcome: OutcomeComparison, cast: Cast, wanted: list[float], colour: Spec) -> list[Spec]:
    places = spread_labels(wanted, 14, 4, _HEIGHT - 4)
    return [
        {
            "data": {"values": [{"arm": cast.number(one.arm), "name": cast.name(one.arm)}]},
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
        for one, place in zip(_arms(outcome, cast), places, strict=True)
    ]
