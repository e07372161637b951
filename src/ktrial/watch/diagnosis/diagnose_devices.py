# SPDX-License-Identifier: Apache-2.0
"""Block devices of a diagnosis: how long requests took, and what their heaps fit."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.kit.tables import clean
from ktrial.kit.units import show_seconds
from ktrial.watch.diagnosis.model import DeviceFound, ModeFound

HEADERS = ("device", "requests", "median", "99 %", "longest", "above 5 ms", "heaps at")


def device_rows(devices: Sequence[DeviceFound]) -> list[list[str]]:
    """A row for each device."""
    return [
        [
            clean(one.name),
            str(one.requests),
            *(_time(value) for value in (one.median_s, one.p99_s, one.longest_s)),
            f"{one.above_share:.2%}",
            ", ".join(_heap(mode) for mode in one.modes) or "-",
        ]
        for one in devices
    ]


def device_sentences(devices: Sequence[DeviceFound]) -> list[str]:
    """What heaps fit the exit of a power state."""
    return [
        f"{clean(one.name)}: {mode.share:.2%} of its requests took about {show_seconds(mode.at_s)}, after idleness "
        f"above all: leaving power state {mode.state} takes {show_seconds(mode.exit_s)} by the drive's own word."
        for one in devices
        for mode in one.modes
        if mode.state is not None and mode.exit_s is not None
    ]


def _heap(mode: ModeFound) -> str:
    return f"{_time(mode.at_s)} ({mode.share:.2g})"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else show_seconds(seconds)
