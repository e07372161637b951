# SPDX-License-Identifier: Apache-2.0
"""The display of a running watch: a few lines of 60 to 80 columns, redrawn every second."""

from __future__ import annotations

import unicodedata

from ktrial.bench.text import duration
from ktrial.kit.tables import clean, shorten
from ktrial.kit.units import show_bytes, show_seconds
from ktrial.watch.record.watch_moment import LateOne, Track, WatchMoment

#: Maximum width in columns; longer lines are hard to read.
WIDEST = 80
_NAME, _FIGURE, _GAP = 15, 11, 2
_FEWEST_CELLS = 12
_BARS = "▁▂▃▄▅▆▇█"
#: Smallest value at the top of a sparkline by unit, so that the sparkline does not magnify small values.
_LEAST_TOP = {"share": 0.1, "pages": 1000.0, "requests": 4.0, "delay": 0.01}
_STUTTERS = 5


def watch_view(moment: WatchMoment, *, title: str, width: int, end_key: str = "Ctrl-C") -> list[str]:
    width = min(width, WIDEST)
    cells = max(_FEWEST_CELLS, width - _NAME - 2 * (_FIGURE + _GAP))
    lines = [f"ktrial watch: {title}, {duration(moment.length_s)}", _phase(moment), _heads(cells)]
    lines += [_line(track, cells) for track in moment.tracks]
    lines += ["", *_stutters(moment), "", *_state(moment, end_key)]
    return [shorten(narrow(line), width) for line in lines]


def sparkline(track: Track, cells: int) -> str:
    """Return a bar for each second, the newest on the right; blank if unknown."""
    shown = track.values[-cells:]
    top = max([_LEAST_TOP[track.unit], *(value for value in shown if value is not None)])
    bars = "".join(" " if value is None else _BARS[min(7, int(max(0.0, value) / top * 7.999))] for value in shown)
    return bars.rjust(cells)


def narrow(text: str) -> str:
    """Return text in which every character takes one terminal column."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.east_asian_width(one) in "WF" or unicodedata.category(one) in {"Mn", "Me", "Cf"}
        else one
        for one in clean(text)
    )


def _heads(cells: int) -> str:
    shown = f"the last {cells} s"
    return f"{'':<{_NAME}}{shown:>{cells}}  {'now':>{_FIGURE}}  {'highest':>{_FIGURE}}"


def _line(track: Track, cells: int) -> str:
    if track.why_not is not None:
        return f"{track.name:<{_NAME}}{track.why_not}"
    known = [value for value in track.values[-cells:] if value is not None]
    now, highest = (_figure(known[-1], track.unit), _figure(max(known), track.unit)) if known else ("-", "-")
    return f"{track.name:<{_NAME}}{sparkline(track, cells)}  {now:>{_FIGURE}}  {highest:>{_FIGURE}}"


def _figure(value: float, unit: str) -> str:
    if unit == "share":
        # Counters and their times are not read at the same instant, so a share may exceed 1.
        return f"{100 * min(value, 1.0):.1f} %"
    if unit == "delay":
        return f"{value * 1e3:.3g} ms/s" if value < 0.9995 else f"{value:.3g} s/s"
    short = f"{value:.0f}" if value < 10_000 else f"{value / 1e3:.0f} k" if value < 1e7 else f"{value / 1e6:.0f} M"
    return f"{short} /s"


def _phase(moment: WatchMoment) -> str:
    if moment.phase is None:
        return "phase: still unknown"
    if moment.phase == "whole":
        return "phase: the same since the beginning"
    return f"phase: {moment.phase}, for {duration(moment.length_s - moment.phase_since_s)} (preliminary)"


def _stutters(moment: WatchMoment) -> list[str]:
    hours = max(moment.length_s, 1.0) / 3600
    stutters = "1 stutter" if moment.stutters == 1 else f"{moment.stutters} stutters"
    told = f"{stutters} among {moment.frames} {moment.frame_kind}s"
    if not moment.stutters:
        return [told]
    lines = [f"{told}, {moment.stutters / hours:.0f} an hour; the last ones, with likely causes:"]
    return lines + [_late(one) for one in moment.last[-_STUTTERS:]]


def _late(one: LateOne) -> str:
    shown_by = f": {one.shown_by}" if one.shown_by else ""
    return f"{one.at_s:>9.1f} s  {show_seconds(one.took_s):>8}  {one.cause}{shown_by}"


def _state(moment: WatchMoment, end_key: str) -> list[str]:
    available = "" if moment.available_bytes is None else f"available {show_bytes(moment.available_bytes)}, "
    lost = "" if moment.lost is None else f" ({moment.lost} lost)"
    hourly = show_bytes(moment.bytes / max(moment.length_s, 1.0) * 3600)
    kept = f"recorded {show_bytes(moment.bytes)}, {hourly} an hour"
    cost = f"cost: {100 * moment.cost:.2f} % of one CPU, this view and ktrial {100 * moment.head_cost:.2f} %"
    return [f"{available}{moment.events} events{lost}, {kept}", f"{cost}; press {end_key} to end"]
