# SPDX-License-Identifier: Apache-2.0
"""Arms of comparisons, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktrial.compare.arms import Arm, ComparedRun
from ktrial.results.model import StoredMeasurement


def measured(value: float, outcome: str = "p50", unit: Any = "s", direction: Any = "lower") -> StoredMeasurement:
    """Return a stored measurement."""
    return StoredMeasurement(outcome=outcome, value=value, unit=unit, direction=direction, original=str(value))


def a_run(name: str, *values: StoredMeasurement, **fields: Any) -> ComparedRun:
    """Return a run of `wakeup`."""
    return ComparedRun(name=name, measurements=values, **{"benchmark": "wakeup", **fields})


def an_arm(name: str, values: Sequence[float], **fields: Any) -> Arm:
    """Return an arm with one run for each value, all on one boot and with the same facts."""
    given: dict[str, Any] = {"boot": "b1", "known": {"governor": "performance"}, **fields}
    runs = tuple(a_run(f"{name}/{number}", measured(value), **given) for number, value in enumerate(values, 1))
    return Arm(name=name, sources=(f"session-{name}",), runs=runs)
