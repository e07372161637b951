# SPDX-License-Identifier: Apache-2.0
"""Draws a histogram of a block device's request latencies, with the exit latencies of its power states."""

from __future__ import annotations

from math import floor, log2

from ktrial.kit.units import show_seconds
from ktrial.reports.charts.drawing import Chart, Spec, Style, Table, frame, label
from ktrial.watch.diagnosis.model import DeviceFound

_HEIGHT = 150
#: Number of bars per doubling of the latency.
_BARS = 4
#: Share of the axis that the name of a line needs.
_NAMES = 0.16


def latencies_chart(device: DeviceFound, style: Style) -> Chart:
    """Return a chart with bars on a logarithmic time axis, and dashed lines at the slow limit and exit latencies."""
    bars = [(_begin(end_s), end_s, count) for end_s, count in device.histogram]
    marks = [(device.limit_s, f"slow: {show_seconds(device.limit_s)}")]
    marks += [(exit_s, f"exit of state {state}") for state, exit_s in device.exits]
    first = min([begin for begin, _, _ in bars] + [at_s for at_s, _ in marks])
    last = max([end for _, end, _ in bars] + [at_s for at_s, _ in marks])
    # Leave room for the name beside the last line.
    last = max(last, max(at_s for at_s, _ in marks) * (last / first) ** _NAMES)
    name = label(device.name, 40)
    exits = ", and others the exit latencies that the drive states for its power states" if device.exits else ""
    return Chart(
        name="latencies",
        title=f"Requests to {name}",
        caption=f"Requests to {name} by latency; a line marks the limit for slow requests{exits}.",
        spec=frame(style, f"Requests to {name}", _body(bars, marks, (first * 1e3, last * 1e3), style)),
        table=Table(
            headers=("up to", "requests"),
            rows=tuple((show_seconds(end), str(count)) for _, end, count in bars),
            numeric=(0, 1),
        ),
    )


def _body(
    bars: list[tuple[float, float, int]], marks: list[tuple[float, str]], ends: tuple[float, float], style: Style
) -> Spec:
    x: Spec = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": list(ends), "nice": False},
        "axis": {"title": "milliseconds", "grid": False, "tickCount": 6, "format": "~g"},
    }
    y: Spec = {
        "type": "quantitative",
        "scale": {"type": "symlog"},
        "axis": {
            "title": "requests",
            "values": _round_numbers(max(count for _, _, count in bars)),
            "labelExpr": "format(datum.value, '~s')",
            "labelOverlap": False,
        },
    }
    drawn = [{"from": begin * 1e3, "to": end * 1e3, "zero": 0, "count": count} for begin, end, count in bars]
    lines = [{"at": at_s * 1e3, "name": name, "y": 10 + 15 * place} for place, (at_s, name) in enumerate(marks)]
    muted = style.palette.muted
    return {
        "width": style.width - 120,
        "height": _HEIGHT,
        "layer": [
            {
                "data": {"values": drawn},
                "mark": {"type": "rect", "color": style.palette.arms[1]},
                "encoding": {
                    "x": {"field": "from"} | x,
                    "x2": {"field": "to"},
                    "y": {"field": "count"} | y,
                    "y2": {"field": "zero"},
                },
            },
            {
                "data": {"values": lines},
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": muted},
                "encoding": {"x": {"field": "at"} | x},
            },
            {
                "data": {"values": lines},
                "mark": {"type": "text", "align": "left", "dx": 4, "color": muted},
                "encoding": {
                    "x": {"field": "at"} | x,
                    "y": {"field": "y", "type": "quantitative", "scale": None, "axis": None},
                    "text": {"field": "name"},
                },
            },
        ],
        "resolve": {"scale": {"y": "independent"}},
    }


def _begin(end_s: float) -> float:
    """Return the lower end of a bar; each doubling has four bars of equal width."""
    return end_s - 2.0 ** floor(log2(end_s * (1 - 1e-9))) / _BARS


def _round_numbers(most: int) -> list[int]:
    """Return the powers of ten up to `most`, but only some of them if there are many."""
    powers = len(str(most))
    return [10**power for power in range(0, powers, 1 + powers // 5)]
