# SPDX-License-Identifier: Apache-2.0
"""Decide whether a machine is back at the temperature and load of the first run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.machine.gates import Readings

TEMPERATURE = "temperature_c"
LOAD = "load"
"""The reading with the load average of the last minute."""


class _Aim(NamedTuple):
    """A reading that must fall to its value at the first run plus `tolerance`."""

    reading: str
    what: str
    tolerance: float
    show: Callable[[float], str]


#: Sensors have steps of a degree, and the one-minute load takes three minutes to fall below a twentieth of a task.
AIMS = (
    _Aim(TEMPERATURE, "temperature", 1.0, lambda value: f"{value:.1f} °C"),
    _Aim(LOAD, "load", 0.25, lambda value: f"{value:.2f}"),
)


class Settling(msgspec.Struct, frozen=True, kw_only=True):
    """Readings for which a run still waits (`waiting`), and unknown readings, which do not delay the run (`untold`)."""

    waiting: tuple[str, ...]
    untold: tuple[str, ...]

    @property
    def settled(self) -> bool:
        return not self.waiting


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """How a wait ended: `left` names readings that were still too high, `untold` those that were unknown."""

    waited_s: float
    left: tuple[str, ...]
    untold: tuple[str, ...]

    @property
    def reached(self) -> bool:
        return not self.left


def settling(reference: Readings, now: Readings) -> Settling:
    """Return the readings that are still above those of the first run. The gates judge lower readings."""
    waiting, untold = [], []
    for aim in AIMS:
        level, value = _number(reference, aim), _number(now, aim)
        if level is None or value is None:
            untold.append(f"{aim.what} {'at the first run' if level is None else 'now'} is unknown")
        elif value > level + aim.tolerance:
            waiting.append(f"{aim.what} {aim.show(value)}, wanted {aim.show(level + aim.tolerance)}")
    return Settling(waiting=tuple(waiting), untold=tuple(untold))


def _number(readings: Readings, aim: _Aim) -> float | None:
    value = readings.get(aim.reading)
    if value is None or isinstance(value, str):
        return None
    if not math.isfinite(value):
        raise BadInput(f"cannot use {aim.reading}: {value} is not a possible {aim.what}", hint="leave out --settle")
    return float(value)
