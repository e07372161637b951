# SPDX-License-Identifier: Apache-2.0
"""Charts of a fleet's trial: the effect for each value of a fact, and each machine's time in its wave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ktrial.bench.text import duration
from ktrial.fleet.log import FleetMachine, FleetStanding, MachineState, MachineStep
from ktrial.fleet.verdict import FleetContrast
from ktrial.judge.model.comparison import Contrast, OutcomeComparison
from ktrial.judge.model.words import effect_text
from ktrial.kit.tables import clean
from ktrial.reports.charts.drawing import Chart, Palette, Spec, Style, Table, frame, label, labels, linear
from ktrial.reports.charts.forest import ForestRow, panel
from ktrial.reports.charts.machines import ratio_axis
from ktrial.reports.sentences import count_words

FACT_HEADERS = ("fact", "value", "machines", "change", "interval")
#: Maximum number of machines in the picture of waves; its table shows all.
MOST_BARS = 60
_NARROW = 500
_STEP, _NARROW_STEP = 24, 36
_LETTER = 7.2
_STATE_ROOM = 96
_WORDS: Mapping[MachineState, str] = {
    "ended": "done",
    "running": "measuring",
    "in-use": "in use",
    "unreachable": "away",
    "failed": "failed",
    "stopped": "stopped",
}
_SHAPES: Mapping[MachineState, str] = {
    "ended": "circle",
    "running": "triangle-right",
    "in-use": "triangle-down",
    "unreachable": "diamond",
    "failed": "cross",
    "stopped": "square",
}
#: Units of time in seconds, with their names on the axis, the longest first.
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def fact_rows(one: FleetContrast) -> tuple[tuple[str, ...], ...]:
    """Return a row for each value of each declared fact."""
    return tuple(
        (group.fact, clean(group.value), str(group.machines), *effect_text(group.effect, "ratio", one.direction))
        for group in one.subgroups
    )


def facts_chart(one: FleetContrast, outcome: OutcomeComparison, contrast: Contrast, style: Style) -> Chart:
    """Return a chart with the effect for each value of the declared facts and, below, the effect on all machines."""
    rows = [
        ForestRow(outcome, contrast, group.effect, f"{group.fact}: {group.value}", _machines(group.machines))
        for group in one.subgroups
        if group.effect is not None
    ]
    if contrast.effect is not None:
        rows.append(ForestRow(outcome, contrast, contrast.effect, "all machines"))
    drawn = tuple(row for row, group in zip(fact_rows(one), one.subgroups, strict=True) if group.effect is not None)
    whole = (("all", "-", str(len(one.pooled.machines)), *effect_text(one.effect, "ratio", one.direction)),)
    return Chart(
        name="facts",
        title=f"{outcome.name}, {one.arm}: by fact",
        caption=f"Points are means over the machines with that value against {label(one.control)}, lines their "
        "intervals, which share the error of a fact. The shaded band is the margin.",
        spec=frame(style, "By fact", panel(rows, ratio_axis(outcome, rows), style)),
        table=Table(headers=FACT_HEADERS, rows=(*drawn, *whole), numeric=(2, 3, 4)),
        marks=True,
    )


def _machines(count: int) -> str:
    return count_words(count, "machine", "machines")


class _Bar(NamedTuple):
    """A machine's time in its wave, in seconds since the first machine began."""

    machine: FleetMachine
    step: MachineStep
    start_s: float
    end_s: float


def waves_chart(standing: FleetStanding, style: Style) -> Chart:
    """Return a chart with a bar for each machine, from the first contact to the last, grouped by wave."""
    bars = _bars(standing)
    shown = _bars_to_draw(bars)
    notes = [f" The picture shows {len(shown)} of {len(bars)} machines."] if len(shown) < len(bars) else []
    waiting = len(standing.began.machines) - len(bars)
    if waiting:
        notes.append(f" {_machines(waiting)} not begun: see the table.")
    return Chart(
        name="waves",
        title="Waves over time",
        caption="Each bar is a machine, from the first time ktrial looked at it to the last. Its colour, the mark at "
        f"its end and the word beside it say what became of it.{''.join(notes)}",
        spec=frame(style, "Waves over time", _body(standing, shown, style)),
        table=_table(standing, [*shown, *(one for one in bars if one not in shown)]),
        marks=True,
    )


def _bars(standing: FleetStanding) -> list[_Bar]:
    began = min(standing.first_look_unix_ms.values(), default=0)
    bars = []
    for place, step in standing.steps.items():
        start = standing.first_look_unix_ms[place]
        bars.append(_Bar(standing.machine(place), step, (start - began) / 1000, (step.at_unix_ms - began) / 1000))
    return sorted(bars, key=lambda one: (one.machine.wave, one.start_s, one.machine.host))


def _bars_to_draw(bars: Sequence[_Bar]) -> list[_Bar]:
    """Return the bars to draw. If there are too many, choose machines without a result first."""
    if len(bars) <= MOST_BARS:
        return list(bars)
    chosen = sorted(bars, key=lambda one: one.step.state == "ended")[:MOST_BARS]
    return [one for one in bars if one in chosen]


def _table(standing: FleetStanding, bars: Sequence[_Bar]) -> Table:
    rows = [
        (
            *(str(one.machine.wave), clean(one.machine.host), one.machine.arm or "all", _WORDS[one.step.state]),
            *(duration(one.start_s), duration(one.end_s), str(one.step.blocks), clean(one.step.message or "-")),
        )
        for one in bars
    ]
    rows += [
        (str(one.wave), clean(one.host), one.arm or "all", "not begun", "-", "-", "0", "-")
        for place, one in enumerate(standing.began.machines)
        if place not in standing.steps
    ]
    headers = ("wave", "machine", "arm", "state", "from", "to", "blocks", "note")
    return Table(headers=headers, rows=tuple(rows), numeric=(0, 4, 5, 6))


def _colours(palette: Palette) -> Mapping[MachineState, str]:
    return {
        "ended": palette.verdicts["better"],
        "running": palette.ink,
        "in-use": palette.muted,
        "unreachable": palette.muted,
        "failed": palette.verdicts["worse"],
        "stopped": palette.verdicts["worse"],
    }


def _body(standing: FleetStanding, bars: Sequence[_Bar], style: Style) -> Spec:
    narrow = style.width < _NARROW
    colours, hosts = _colours(style.palette), labels((one.machine.host for one in bars), 24)
    span_s = max((one.end_s for one in bars), default=0.0) or 1.0
    factor, unit = next(((size, name) for size, name in _UNITS if span_s >= 2 * size), _UNITS[-1])
    values: list[Spec] = []
    heads: list[Spec] = []
    for one in bars:
        wave = one.machine.wave
        if not heads or heads[-1]["wave"] != wave:
            over = standing.waves_over.get(wave)
            said = "" if over is None else f": {over.decision}"
            heads.append({"wave": wave, "row": len(heads) + len(values), "name": f"wave {wave}{said}"})
        values.append(
            {
                "row": len(heads) + len(values),
                "name": hosts[one.machine.host] + (f" · {label(one.machine.arm, 12)}" if one.machine.arm else ""),
                "start": one.start_s / factor,
                "end": one.end_s / factor,
                "state": _WORDS[one.step.state],
                "colour": colours[one.step.state],
                "shape": _SHAPES[one.step.state],
            }
        )
    names = max((len(one["name"]) for one in (*values, *heads)), default=0)
    plot = style.width - 24 if narrow else style.width - _STATE_ROOM - _LETTER * names
    x = linear(0, span_s / factor, {"title": f"{unit} since the first machine began", "tickCount": 5, "format": "~g"})
    y: Spec = {
        "field": "row",
        "type": "ordinal",
        "scale": {"domain": list(range(len(heads) + len(values))), "paddingInner": 0.0},
        "axis": None,
    }
    return {
        "width": plot,
        "height": {"step": _NARROW_STEP if narrow else _STEP},
        "data": {"values": values},
        "layer": [*_marks(x, y, style, narrow=narrow), *_texts(heads, y, plot, narrow=narrow)],
    }


def _marks(x: Spec, y: Spec, style: Style, *, narrow: bool) -> list[Spec]:
    """Return the bars, and the mark at the end of each."""
    colour: Spec = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    down = 8 if narrow else 0
    return [
        {
            "mark": {"type": "rule", "strokeWidth": 5, "yOffset": down},
            "encoding": {"x": {"field": "start"} | x, "x2": {"field": "end"}, "y": y, "color": colour},
        },
        {
            "name": "values",
            "mark": {
                "type": "point",
                "filled": True,
                "opacity": 1,
                "size": 90,
                "yOffset": down,
                "stroke": style.palette.background,
                "strokeWidth": 1,
            },
            "encoding": {
                "x": {"field": "end"} | x,
                "y": y,
                "color": colour,
                "shape": {"field": "shape", "type": "nominal", "scale": None, "legend": None},
            },
        },
    ]


def _texts(heads: Sequence[Spec], y: Spec, plot: float, *, narrow: bool) -> list[Spec]:
    """Return the names of waves and machines, and the word for each machine's state."""
    colour: Spec = {"field": "colour", "type": "nominal", "scale": None, "legend": None}

    def text(field: str, **mark: float | str) -> Spec:
        return {"mark": {"type": "text", "baseline": "middle", **mark}, "encoding": {"text": {"field": field}, "y": y}}

    name = text("name", x=0, align="left", dy=-7) if narrow else text("name", x=-10, align="right")
    state = text("state", x=plot, align="right", dy=-7) if narrow else text("state", x=plot + 12, align="left")
    state["encoding"]["color"] = colour
    head: Spec = {"data": {"values": list(heads)}} | text(
        "name", x=0 if narrow else -10, align="left" if narrow else "right"
    )
    head["mark"]["fontWeight"] = "bold"
    return [name, state, head]
