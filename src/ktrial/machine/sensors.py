# SPDX-License-Identifier: Apache-2.0
"""Samples of a machine's sensors and counters during a run, and their summaries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]


class Sensor(msgspec.Struct, frozen=True, kw_only=True):
    """The format of a column: an integer divided by `per_unit` is a value in `unit`; a counter wraps at `bits` bits."""

    unit: str
    per_unit: Annotated[int, msgspec.Meta(ge=1)]
    kind: Literal["level", "counter"]
    bits: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    label: str | None = None


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """The moment at which a file vanished during sampling, and the kernel's error."""

    at_ns: int
    why: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of sampling: CPU time per sample, and the time to read all files of a sample."""

    cpu_ns_per_sample: Count
    read_ns_p50: Count
    read_ns_p99: Count
    read_ns_max: Count


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Samples in order of time. In `columns`, None stands for a value that was absent, unreadable or impossible.

    `absent` holds reasons by source, `unopened` the files that were unreadable from the start. `lies` and `failures`
    count impossible values and failed reads. `appeared` names columns that appeared during sampling and were not read.
    The agent kept one of every `kept_of` samples.
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
        if self.columns.keys() != self.units.keys():
            raise ValueError("the columns and units of the samples differ")
        uneven = [name for name, values in self.columns.items() if len(values) != len(self.times_ns)]
        if uneven:
            raise ValueError(f"the column {uneven[0]} does not have {len(self.times_ns)} values, one per sample")
        if any(after <= before for before, after in pairwise(self.times_ns)):
            raise ValueError("the times of the samples do not increase")

    def values(self, name: str) -> tuple[float | None, ...]:
        per_unit = self.units[name].per_unit
        return tuple(None if value is None else value / per_unit for value in self.columns[name])


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The summary of a column, in its unit. A field is None if the column has no value.

    For a counter, `difference` is its growth, and `minimum`, `maximum` and `mean` are growth per second. `fell` means
    that the counter decreased without wrapping (a device was reset), so its growth is unknown.
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
    """Yield the growth between neighbouring values (None: the counter fell) and the seconds between them."""
    for (before_ns, before), (after_ns, after) in pairwise(known):
        step: int | None = after - before
        if after < before:
            # A wrapped counter has grown by less than half its range; anything more means a reset.
            wrapped = None if bits is None else after - before + (1 << bits)
            step = wrapped if wrapped is not None and bits is not None and wrapped < 1 << (bits - 1) else None
        yield step, (after_ns - before_ns) / 1e9


#: The stored value of a missing reading.
MISSING = -(2**63)
