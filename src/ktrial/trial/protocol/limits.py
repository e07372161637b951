# SPDX-License-Identifier: Apache-2.0
"""`[limits]` of a trial, which end it at once to prevent harm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.units import parse_quantity

#: Name -> its dimension, and an example.
_LIMITS = {"temperature": ("celsius", "95C"), "memory_pressure": ("percent", "40%")}


class SafetyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Null means no limit. `memory_pressure_share` is the share of time in which all tasks wait for memory."""

    temperature_c: float | None = None
    memory_pressure_share: float | None = None

    @property
    def none(self) -> bool:
        return self.temperature_c is None and self.memory_pressure_share is None

    def passed(self, temperature_c: float | None, pressure_share: float | None) -> str | None:
        """Return which limit is exceeded, and by what value; None if none is, or if the values are unknown."""
        if _is_above(temperature_c, self.temperature_c):
            return f"the temperature is {temperature_c:.1f} °C (limit {self.temperature_c:g} °C)"
        if _is_above(pressure_share, self.memory_pressure_share):
            limit = 100 * (self.memory_pressure_share or 0.0)
            return f"all tasks waited for memory {100 * (pressure_share or 0.0):.0f} % of the time (limit {limit:g} %)"
        return None


def _is_above(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def parse_limits(table: Mapping[str, Any]) -> SafetyLimits:
    """Parse `[limits]`. Raise BadInput for an unknown limit or an impossible value."""
    found: dict[str, float] = {}
    for name, value in table.items():
        if name not in _LIMITS:
            raise UnknownName("limit", name, _LIMITS, hint=f"known limits: {', '.join(_LIMITS)}")
        dimension, example = _LIMITS[name]
        try:
            number = parse_quantity(value, dimension) if isinstance(value, str) else math.nan
        except ValueError:
            number = math.nan
        if not number > 0 or (dimension == "percent" and number > 100):
            raise BadInput(f"limits: cannot read {name} = {value!r}", hint=f'for example  {name} = "{example}"')
        found[name] = number
    pressure = found.get("memory_pressure")
    return SafetyLimits(
        temperature_c=found.get("temperature"),
        memory_pressure_share=None if pressure is None else pressure / 100,
    )
