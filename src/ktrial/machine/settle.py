# SPDX-License-Identifier: Apache-2.0
"""Whether a machine is back at the temperature and the load of the first run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.machine.gates import Readings

TEMPERATURE = "temperature_c"
LOAD = "load"
"""Reading: the load average of the last minute."""


class _Aim(NamedTuple):
    """A reading that must fall to its level at the first run, give or take `tolerance`."""

    reading: str
    what: str
    tolerance: float
    show: Callable[[float], str]


#: Sensors step by a degree, and a minute's mean of the load falls below a twentieth of a task only after three minutes.
AIMS = (
    _Aim(TEMPERATURE, "temperature", 1.0, lambda value: f"{value:.1f} °C"),
    _Aim(LOAD, "load", 0.25, lambda value: f"{value:.2f}"),
)


class Settling(msgspec.Struct, frozen=True, kw_only=True):
    """`waiting` names what is still above its level; `untold` what cannot be waited for, as it could not be read."""

    waiting: tuple[str, ...]
    untold: tuple[str, ...]

    @property
    def settled(self) -> bool:
        """Whether there is nothing to wait for."""
        return not self.waiting


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """How a wait ended: `left` is what had not come down at the limit, `untold` what could not be waited for."""

    waited_s: float
    left: tuple[str, ...]
    untold: tuple[str, ...]

    @property
    def reached(self) -> bool:
        """Whether all that could be read is back at its level."""
        return not self.left


def settling(reference: Readings, now: Readings) -> Settling:
    """What is above its level at the first run. What is below it cannot be waited for: that is for gates to judge."""
    waiting, untold = [], []
    for aim in AIMS:
        level, value = _number(reference, aim), _number(now, aim)
        if level is None or value is None:
            untold.append(f"{aim.what} {'at the first run' if level is None else 'now'} is not known")
        elif value > level + aim.tolerance:
            waiting.append(f"{aim.what} {aim.show(value)}, wanted {aim.show(level + aim.tolerance)}")
    return Settling(waiting=tuple(waiting), untold=tuple(untold))


def _number(readings: Readings, aim: _Aim) -> float | None:
    value = readings.get(aim.reading)
    if value is None or isinstance(value, str):
        return None
    if not math.isfinite(value):
        raise BadInput(f"{aim.reading} = {value} is not a reading of {aim.what}")
    return float(value)
