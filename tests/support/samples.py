# SPDX-License-Identifier: Apache-2.0
"""Samples made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial.machine.sensors import Samples, Sensor

LEVEL = Sensor(unit="C", per_unit=1000, kind="level")
TICKS = Sensor(unit="s", per_unit=100, kind="counter", bits=64)
NARROW = Sensor(unit="count", per_unit=1, kind="counter", bits=32)


def document(columns: Mapping[str, Sequence[int | None]], units: Mapping[str, Sensor], **more: Any) -> dict[str, Any]:
    count = max((len(values) for values in columns.values()), default=0)
    return {
        "times_ns": [10**9 * (place + 1) for place in range(count)],
        "columns": {name: list(values) for name, values in columns.items()},
        "units": {name: msgspec.to_builtins(unit) for name, unit in units.items()},
        "absent": {"fan": "no fan of hwmon"},
        "unopened": [],
        "lies": {},
        "failures": {},
        "gone": {},
        "appeared": [],
        "started_ns": 10**9,
        "wall_ns": 5,
        "ended": "told",
        "period_s": 1.0,
        "taken": count,
        "missed": 0,
        "kept_of": 1,
        "cost": {"cpu_ns_per_sample": 1, "read_ns_p50": 1, "read_ns_p99": 1, "read_ns_max": 1},
        **more,
    }


def samples(columns: Mapping[str, Sequence[int | None]], units: Mapping[str, Sensor]) -> Samples:
    return msgspec.convert(document(columns, units), Samples)
