# SPDX-License-Identifier: Apache-2.0
"""Conditions of a run: what sensors show directly before and directly after it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

ConditionUnit = Literal["C", "Hz"]
#: Degrees beyond which a sensor is taken for broken or not connected.
_COLDEST_C, _HOTTEST_C = -40.0, 150.0


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One reading; `of` says of what."""

    name: str
    value: float
    unit: ConditionUnit
    of: str


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Readings on both sides of a run; what could not be read is not among them."""

    before: tuple[Condition, ...]
    after: tuple[Condition, ...]


def hottest(millidegrees: Mapping[str, str | None]) -> Condition | None:
    """The hottest of all sensors by name; None when none can be read."""
    degrees = {name: found / 1000 for name, text in millidegrees.items() if (found := _number(text)) is not None}
    sane = {name: value for name, value in degrees.items() if _COLDEST_C < value < _HOTTEST_C}
    if not sane:
        return None
    name = max(sane, key=lambda sensor: sane[sensor])
    return Condition(name="temperature", value=sane[name], unit="C", of=name)


def mean_frequency(kilohertz: Sequence[str | None]) -> Condition | None:
    """The mean over all policies of cpufreq; None when none can be read."""
    found = [value * 1000.0 for text in kilohertz if (value := _number(text))]
    if not found:
        return None
    return Condition(
        name="frequency", value=math.fsum(found) / len(found), unit="Hz", of=f"mean of {len(found)} policies"
    )


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
