# SPDX-License-Identifier: Apache-2.0
"""Samples of a machine's sensors and counters beside a run, and what they come to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]


class Sensor(msgspec.Struct, frozen=True, kw_only=True):
    """What a column holds: its whole numbers over `per_unit` are in `unit`. A counter begins anew after `bits`."""

    unit: str
    per_unit: Annotated[int, msgspec.Meta(ge=1)]
    kind: Literal["level", "counter"]
    bits: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    label: str | None = None


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """A file that vanished: since when, and what the kernel said."""

    at_ns: int
    why: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What sampling took itself: CPU time of a sample, and the time from its first to its last read."""

    cpu_ns_per_sample: Count
    read_ns_p50: Count
    read_ns_p99: Count
    read_ns_max: Count


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, in the order of time; None is what was absent, could not be read, or was a lie.

    `absent`: source to why. `unopened`: files that could not be read from the beginning on. `lies` and `failures`:
    how often a column showed what cannot be, and how often a file could not be read. `appeared`: columns that came to
    be during the sampling; they were not read. Of `kept_of` samples that were taken one was kept.
    """

    times_ns: tuple[int, ...]
    columns: dict[str, tuple[int | None, ...]]
    units: dict[str, Sensor]
    absent: dict[str, str]
    unopened: tuple[str, ...]
    lies: dict[str, int]
    failures: dict[str, int]
    gone: dict[str, Gone]
    appeared: tuple[str, ...]
    started_ns: int
    wall_ns: Count
    ended: Literal["done", "limit", "told"]
    period_s: float
    taken: Count
    missed: Count
    kept_of: Annotated[int, msgspec.Meta(ge=1)]
    cost: Cost

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        if self.columns.keys() != self.units.keys():
            raise ValueError("not every column of the samples has a unit")
        uneven = [name for name, values in self.columns.items() if len(values) != len(self.times_ns)]
        if uneven:
            raise ValueError(f"the column {uneven[0]} has not one value for each of {len(self.times_ns)} moments")
        if any(after <= before for before, after in pairwise(self.times_ns)):
            raise ValueError("the moments of the samples do not rise")

    def values(self, name: str) -> tuple[float | None, ...]:
        per_unit = self.units[name].per_unit
        return tuple(None if value is None else value / per_unit for value in self.columns[name])


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a column comes to, in its unit; None if nothing was read.

    Of a counter `difference` is what it grew by, and `minimum`, `maximum` and `mean` are of its growth per second.
    `fell`: it went back without having wrapped (a device was reset), so that no growth can be told.
    """

    unit: str
    kind: Literal["level", "counter"]
    n: int
    first: float | None = None
    last: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    difference: float | None = None
    fell: bool = False


def summarise(samples: Samples) -> dict[str, Summary]:
    return {name: _summary(samples, name) for name in samples.columns}


def _summary(samples: Samples, name: str) -> Summary:
    sensor = samples.units[name]
    known = [
        (at, value) for at, value in zip(samples.times_ns, samples.columns[name], strict=True) if value is not None
    ]
    if not known:
        return Summary(unit=sensor.unit, kind=sensor.kind, n=0)
    values = [value / sensor.per_unit for _, value in known]
    summary = Summary(unit=sensor.unit, kind=sensor.kind, n=len(values), first=values[0], last=values[-1])
    if sensor.kind == "counter":
        return _growth(summary, sensor, known)
    return msgspec.structs.replace(
        summary, minimum=min(values), maximum=max(values), mean=math.fsum(values) / len(values)
    )


def _growth(summary: Summary, sensor: Sensor, known: Sequence[tuple[int, int]]) -> Summary:
    steps = list(_steps(known, sensor.bits))
    if any(step is None for step, _ in steps):
        return msgspec.structs.replace(summary, fell=True)
    if not steps:
        return summary
    total = sum(step for step, _ in steps if step is not None) / sensor.per_unit
    rates = [step / sensor.per_unit / elapsed_s for step, elapsed_s in steps if step is not None]
    elapsed_s = (known[-1][0] - known[0][0]) / 1e9
    return msgspec.structs.replace(
        summary, difference=total, minimum=min(rates), maximum=max(rates), mean=total / elapsed_s
    )


def _steps(known: Sequence[tuple[int, int]], bits: int | None) -> Iterator[tuple[int | None, float]]:
    """Growth from each value to the next one, and the seconds between them; None if it fell."""
    for (before_ns, before), (after_ns, after) in pairwise(known):
        step: int | None = after - before
        if after < before:
            # One that wrapped is far below where it was; one that was reset has not come half way round.
            wrapped = None if bits is None else after - before + (1 << bits)
            step = wrapped if wrapped is not None and bits is not None and wrapped < 1 << (bits - 1) else None
        yield step, (after_ns - before_ns) / 1e9


#: What was not there.
MISSING = -(2**63)
