# SPDX-License-Identifier: Apache-2.0
"""A picture of a recording: stutters, pressures, activity of each cause, and phases on one time axis."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ktrial.kit.units import show_seconds
from ktrial.reports.charts.drawing import Chart, Spec, Style, Table, frame, label
from ktrial.watch.diagnosis.model import Diagnosis, Lane, PressureLine

_STEP, _NAMES, _HEIGHT, _PRESSURE = 22, 190, 130, 70
#: Maximum number of stutters, and of distinguishable moments, in a picture.
_SHOWN = 800


def timeline_chart(found: Diagnosis, style: Style) -> Chart:
    """Return a chart with stutters by length, then pressures, then a lane for each active cause."""
    begin_s = min((phase.begin_s for phase in found.phases), default=0.0)
    x: Spec = {
        "type": "quantitative",
        "scale": {"domain": [begin_s, begin_s + max(found.length_s, 1e-3)], "nice": False},
        "axis": {"title": "seconds of the recording", "grid": False, "tickCount": 8},
    }
    named = {cause.id for cause in found.named}
    names = {cause.id: cause.name for cause in found.causes}
    panels = [_stutters(found, style, x)] if found.late else []
    if found.pressures:
        panels.append(_pressures(found, style, x))
    if found.lanes:
        panels.append(_lanes(found, style, x, names, named))
    return Chart(
        name="timeline",
        title=found.name,
        caption="From top to bottom: stutters, the share of time in which some task waited, and stretches in which "
        "each cause was active. Dashed lines separate phases.",
        spec=frame(
            style,
            label(found.name, 60),
            {"vconcat": panels, "spacing": 14, "resolve": {"scale": {"color": "independent"}}},
        ),
        table=Table(headers=("row", "what it shows"), rows=tuple(_rows(found, names, named))),
    )


def _rows(found: Diagnosis, names: dict[str, str], named: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each row of the chart in words."""
    if found.late:
        longest = max(found.late, key=lambda one: one[1])
        yield "stutters", f"{len(found.late)}, the longest {show_seconds(longest[1])} at {longest[0]:.3f} s"
    for line in found.pressures:
        known = [value for value in line.values if value is not None]
        if known:
            yield line.name, f"{100 * sum(known) / len(known):.0f} % on average, {100 * max(known):.0f} % at most"
        else:
            yield line.name, "unknown"
    for lane in found.lanes:
        standing = "named as a cause" if lane.cause in named else "not named as a cause"
        total = show_seconds(sum(end_s - begin_s for begin_s, end_s in lane.spans))
        yield names[lane.cause], f"{standing}; stretches of activity: {len(lane.spans)}, {total} in all"


def part_of(found: Diagnosis, begin_s: float, end_s: float, name: str) -> Diagnosis:
    """Return a stretch of a diagnosis under the name `name`; it begins at a step of the pressures."""
    start_s = min((phase.begin_s for phase in found.phases), default=0.0)
    step_s = min((line.step_s for line in found.pressures), default=0.0)
    begin_s = max(begin_s, start_s)
    if step_s > 0:
        begin_s = start_s + step_s * int((begin_s - start_s) / step_s)
    inside = [one for one in found.phases if one.begin_s <= end_s and one.end_s >= begin_s] or list(found.phases[:1])
    lanes = [
        (
            lane,
            tuple(
                (max(low, begin_s), min(high, end_s)) for low, high in lane.spans if low <= end_s and high >= begin_s
            ),
        )
        for lane in found.lanes
    ]
    return msgspec.structs.replace(
        found,
        name=name,
        length_s=end_s - begin_s,
        late=tuple((at_s, took_s) for at_s, took_s in found.late if begin_s <= at_s <= end_s),
        phases=tuple(msgspec.structs.replace(one, begin_s=max(one.begin_s, begin_s)) for one in inside),
        pressures=tuple(_cut_line(one, begin_s - start_s, end_s - start_s) for one in found.pressures),
        lanes=tuple(msgspec.structs.replace(lane, spans=spans) for lane, spans in lanes if spans),
    )


def _cut_line(line: PressureLine, from_s: float, to_s: float) -> PressureLine:
    first, last = round(from_s / line.step_s), int(to_s / line.step_s) + 1
    return msgspec.structs.replace(line, values=line.values[first:last])


def _longest(found: Diagnosis) -> list[tuple[float, float]]:
    return sorted(sorted(found.late, key=lambda one: -one[1])[:_SHOWN])


def _apart(lane: Lane, least_s: float) -> list[tuple[float, float]]:
    """Merge stretches whose pauses a picture cannot show."""
    spans: list[tuple[float, float]] = []
    for begin_s, end_s in lane.spans:
        if spans and begin_s - spans[-1][1] < least_s:
            spans[-1] = (spans[-1][0], max(end_s, spans[-1][1]))
        else:
            spans.append((begin_s, end_s))
    return spans


def _pressures(found: Diagnosis, style: Style, x: Spec) -> Spec:
    """Return a line for each pressure, with the highest value of each step that a picture can show."""
    begin_s = min((phase.begin_s for phase in found.phases), default=0.0)
    values = []
    for line in found.pressures:
        wide = max(1, len(line.values) // _SHOWN)
        for place in range(0, len(line.values), wide):
            known = [value for value in line.values[place : place + wide] if value is not None]
            values.append({"at": begin_s + place * line.step_s, "share": max(known, default=None), "of": line.name})
    names = [line.name for line in found.pressures]
    colours = [style.palette.arms[number % (len(style.palette.arms) - 1) + 1] for number in range(len(names))]
    colour: Spec = {"field": "of", "type": "nominal", "scale": {"domain": names, "range": colours}}
    return {
        "width": style.width - _NAMES - 40,
        "height": _PRESSURE,
        "layer": [
            {
                "data": {"values": values},
                "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.2},
                "encoding": {
                    "x": {"field": "at"} | x,
                    "y": {
                        "field": "share",
                        "type": "quantitative",
                        "scale": {"domain": [0, 1]},
                        "axis": {"title": None, "format": "%", "tickCount": 2},
                    },
                    "color": colour | {"legend": None},
                },
            },
            {
                "data": {"values": [{"of": name, "y": 12 + 18 * number} for number, name in enumerate(names)]},
                "mark": {"type": "text", "align": "right", "x": -58},
                "encoding": {
                    "y": {"field": "y", "type": "quantitative", "scale": None, "axis": None},
                    "text": {"field": "of"},
                    "color": colour | {"legend": None},
                },
            },
        ],
        "resolve": {"scale": {"y": "independent"}},
    }


def _stutters(found: Diagnosis, style: Style, x: Spec) -> Spec:
    cuts = [{"at": phase.begin_s, "name": phase.name} for phase in found.phases]
    return {
        "width": style.width - _NAMES - 40,
        "height": _HEIGHT,
        "layer": [
            {
                "data": {"values": cuts},
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": style.palette.muted},
                "encoding": {"x": {"field": "at"} | x},
            },
            {
                "data": {"values": cuts},
                "mark": {"type": "text", "align": "left", "dx": 4, "y": -4, "color": style.palette.muted},
                "encoding": {"x": {"field": "at"} | x, "text": {"field": "name"}},
            },
            {
                "data": {"values": [{"at": at_s, "ms": took_s * 1e3, "zero": 0} for at_s, took_s in _longest(found)]},
                "mark": {"type": "rule", "strokeWidth": 1.6, "color": style.palette.verdicts["worse"]},
                "encoding": {
                    "x": {"field": "at"} | x,
                    "y": {"field": "zero", "type": "quantitative", "axis": {"title": "stutter, ms", "tickCount": 4}},
                    "y2": {"field": "ms"},
                },
            },
        ],
    }


def _lanes(found: Diagnosis, style: Style, x: Spec, names: dict[str, str], named: set[str]) -> Spec:
    order = sorted(found.lanes, key=lambda lane: lane.cause not in named)
    values = [
        {"from": span[0], "to": span[1], "lane": place, "named": lane.cause in named}
        for place, lane in enumerate(order)
        for span in _apart(lane, found.length_s / _SHOWN)
    ]
    titles = [{"lane": place, "name": label(names[lane.cause], 27)} for place, lane in enumerate(order)]
    y: Spec = {"field": "lane", "type": "ordinal", "axis": None}
    colour: Spec = {
        "field": "named",
        "type": "nominal",
        "scale": {"domain": [True, False], "range": [style.palette.verdicts["worse"], style.palette.muted]},
        "legend": None,
    }
    return {
        "width": style.width - _NAMES - 40,
        "height": {"step": _STEP},
        "layer": [
            {
                "data": {"values": values},
                "mark": {"type": "rule", "strokeWidth": 10},
                "encoding": {"x": {"field": "from"} | x, "x2": {"field": "to"}, "y": y, "color": colour},
            },
            {
                "data": {"values": titles},
                "mark": {"type": "text", "align": "right", "x": -8},
                "encoding": {"y": y, "text": {"field": "name"}},
            },
        ],
    }
