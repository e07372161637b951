# SPDX-License-Identifier: Apache-2.0
"""The conditions of a run: sensors and the kernel's log before, during and after it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.machine.gates import Reading
from ktrial.machine.kernel_log import KernelLogDelta
from ktrial.machine.sensors import Cost, Gone, Samples, Summary

ConditionUnit = Literal["C", "Hz"]
TEMPERATURES = "temperature."
CLOCKS = "frequency."


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition at one moment; `of` names its source."""

    name: str
    value: float
    unit: ConditionUnit
    of: str


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """How a run was sampled and what that cost: the fields of `Samples`, with a summary of each column."""

    period_s: float
    taken: int
    missed: int
    kept_of: int
    cost: Cost
    absent: Mapping[str, str]
    unopened: tuple[str, ...]
    lies: Mapping[str, int]
    failures: Mapping[str, int]
    gone: Mapping[str, Gone]
    appeared: tuple[str, ...]
    columns: Mapping[str, Summary]

    @classmethod
    def of(cls, samples: Samples, columns: Mapping[str, Summary]) -> Telemetry:
        same = (name for name in cls.__struct_fields__ if name != "columns")
        return cls(columns=columns, **{name: getattr(samples, name) for name in same})


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions around one run. `before` and `after` lack what could not be read.

    The readings are for gates. `readings_before` decided whether the run was void; `readings_during` became known
    after the run. `lost` says why the samples of the run are missing.
    """

    before: tuple[Condition, ...]
    after: tuple[Condition, ...]
    readings_before: Mapping[str, Reading] = {}
    readings_during: Mapping[str, Reading] = {}
    readings_after: Mapping[str, Reading] = {}
    telemetry: Telemetry | None = None
    lost: str | None = None
    kernel_log: KernelLogDelta | None = None


def shown_at(samples: Samples, place: int) -> tuple[Condition, ...]:
    """Return the hottest sensor and the mean clock at sample `place` (0 is the first, -1 the last)."""
    return tuple(one for one in (hottest(samples, place), mean_frequency(samples, place)) if one is not None)


def hottest(samples: Samples, place: int = -1) -> Condition | None:
    degrees = _summary_of(samples, place, TEMPERATURES)
    if not degrees:
        return None
    name = max(degrees, key=lambda sensor: degrees[sensor])
    return Condition(name="temperature", value=degrees[name], unit="C", of=name.removeprefix(TEMPERATURES))


def mean_frequency(samples: Samples, place: int = -1) -> Condition | None:
    clocks = tuple(_summary_of(samples, place, CLOCKS).values())
    if not clocks:
        return None
    mean = math.fsum(clocks) / len(clocks)
    return Condition(name="frequency", value=mean, unit="Hz", of=f"mean of {len(clocks)} policies")


def _summary_of(samples: Samples, place: int, source: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, sensor in samples.units.items():
        values = samples.columns[name]
        value = values[place] if name.startswith(source) and values else None
        if value is not None:
            found[name] = value / sensor.per_unit
    return found
