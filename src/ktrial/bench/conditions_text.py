# SPDX-License-Identifier: Apache-2.0
"""The conditions in a run's record, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ktrial.bench.record import GeneratorRun
from ktrial.bench.text import duration, percent, show
from ktrial.kit.units import show_bytes, show_seconds
from ktrial.machine.gates import ABSENT, GateFinding, Reading
from ktrial.machine.run_conditions import Conditions, Telemetry
from ktrial.machine.settle import Settled

_SHOWN_LINES = 5


def _time(seconds: float) -> str:
    return duration(seconds) if seconds >= 60 else show_seconds(seconds)


#: Label and format of each reading; absent and unknown ones are not shown.
_READINGS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "temperature_c": ("", lambda value: f"{value:.1f} °C"),
    "load": ("load ", lambda value: f"{value:.2f}"),
    "power_source": ("on ", str),
    "battery_percent": ("battery ", lambda value: f"{value:.0f} %"),
    "governor": ("governor ", str),
    "uptime_s": ("up ", _time),
    "swap_used_bytes": ("swap used ", show_bytes),
    "zram_fill": ("zram full ", percent),
    "disk_full": ("disk full ", percent),
    "free_high_order_pages": ("free high-order pages ", lambda value: f"{value:.0f}"),
    "steal_share": ("CPU time stolen ", percent),
    "throttled_share": ("thermally limited ", percent),
    "kernel_warnings": ("kernel warnings ", lambda value: f"{value:.0f}"),
    "slept_s": ("slept ", _time),
    "frequency_hz": ("clock ", lambda value: f"{value / 1e9:.2f} GHz"),
    "generator_busy": ("load generator busy ", percent),
    "pressure_cpu_share": ("waited for CPU ", percent),
    "pressure_memory_share": ("waited for memory ", percent),
    "pressure_io_share": ("waited for I/O ", percent),
}


def told_conditions(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line about conditions; skip unreadable conditions."""
    found = _convert(document.get("conditions"), Conditions)
    if found is not None:
        for name, readings in (
            ("before", found.readings_before),
            ("during", found.readings_during),
            ("after", found.readings_after),
        ):
            text = ", ".join(_readings(readings))
            if text:
                yield name, text
        if found.telemetry is not None:
            yield "sampled", _cost(found.telemetry)
        if found.lost is not None:
            yield "no samples", found.lost
        yield from _kernel(found)
    generator = _convert(document.get("generator"), GeneratorRun)
    if generator is not None:
        yield "load from", f"{generator.name} ({generator.identity}) to the server on {generator.measured}"
    settled = _convert(document.get("settled"), Settled)
    if settled is not None:
        left = f"; still unsettled: {'; '.join(settled.left)}" if settled.left else ""
        yield "waited", f"{_time(settled.waited_s)} for the machine to settle{left}"
    for one in _convert(document.get("findings") or (), tuple[GateFinding, ...]) or ():
        if one.level != "could-not-tell":
            yield one.level, one.sentence


def _convert(value: Any, kind: Any) -> Any:
    """Convert a value; return None if it is invalid, because another program may have written it."""
    try:
        return None if value is None else msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def _readings(readings: Mapping[str, Reading]) -> Iterator[str]:
    for name, (what, text) in _READINGS.items():
        value = readings.get(name)
        if value is not None and value != ABSENT:
            yield f"{what}{text(value)}"


def _cost(telemetry: Telemetry) -> str:
    cost = telemetry.cost
    period_s = telemetry.period_s * telemetry.kept_of
    share = cost.cpu_ns_per_sample / 1e9 / period_s
    missed = f", {telemetry.missed} missed" if telemetry.missed else ""
    return (
        f"{telemetry.taken} times{missed}, every {show(period_s, 's')}: {show(cost.cpu_ns_per_sample / 1e9, 's')} of"
        f" CPU time per sample ({100 * share:.2g}% of one CPU), at most {show(cost.read_ns_max / 1e9, 's')} per read"
    )


def _kernel(found: Conditions) -> Iterator[tuple[str, str]]:
    log = found.kernel_log
    if log is None:
        return
    for line in log.lines[:_SHOWN_LINES]:
        yield "kernel", f"{line.kind}: {line.text}"
    if len(log.lines) > _SHOWN_LINES:
        yield "kernel", f"{len(log.lines) - _SHOWN_LINES} more (--json shows all)"
    if log.could_not_tell is not None:
        yield "kernel", log.could_not_tell
