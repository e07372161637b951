# SPDX-License-Identifier: Apache-2.0
"""The conditions of runs for reports: which are worth showing, and their values in each arm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple

from ktrial.judge.model.comparison import Comparison, Point


class ShownCondition(NamedTuple):
    """A condition and the unit in which reports show it; `matters` decides from all values whether to show it."""

    name: str
    title: str
    factor: float
    digits: int
    matters: Callable[[Sequence[float]], bool]

    def of(self, point: Point) -> float | None:
        """Return the value in the unit of the report; None if unknown."""
        value = point.temperature_c if self.name == "temperature_c" else point.conditions.get(self.name)
        return None if value is None else value / self.factor

    def show(self, value: float | None) -> str:
        return "-" if value is None else f"{value:.{self.digits}f}"


def _varies_by(least: float) -> Callable[[Sequence[float]], bool]:
    return lambda values: max(values) - min(values) >= least


def _any_above(least: float) -> Callable[[Sequence[float]], bool]:
    return lambda values: max(values) > least


#: In the order of reports.
CONDITIONS = (
    ShownCondition("temperature_c", "°C at start", 1, 1, lambda values: True),
    ShownCondition("frequency_hz", "clock, GHz", 1e9, 2, _varies_by(0.02)),
    ShownCondition("throttled_share", "% of time throttled", 0.01, 0, _any_above(0)),
    ShownCondition("kernel_warnings", "kernel warnings", 1, 0, _any_above(0)),
    ShownCondition("steal_share", "% of CPU stolen", 0.01, 1, _any_above(0.05)),
    ShownCondition("pressure_cpu_share", "% waiting for CPU", 0.01, 1, _varies_by(1)),
    ShownCondition("pressure_memory_share", "% waiting for memory", 0.01, 1, _varies_by(1)),
    ShownCondition("pressure_io_share", "% waiting for I/O", 0.01, 1, _varies_by(1)),
    ShownCondition("battery_percent", "battery, %", 1, 0, _varies_by(1)),
)


def worth_showing(points: Iterable[Point]) -> tuple[ShownCondition, ...]:
    """Return the conditions that were measured and matter."""
    runs = list(points)
    values = {one: [value for point in runs if (value := one.of(point)) is not None] for one in CONDITIONS}
    return tuple(one for one, measured in values.items() if measured and one.matters(measured))


def by_arm(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return a row for each condition worth showing: its title, and each arm's median, minimum and maximum."""
    arms: dict[str, dict[str, Point]] = {source.arm: {} for source in comparison.arms}
    for outcome in comparison.outcomes:
        for values in outcome.arms:
            if values.arm in arms:
                arms[values.arm].update({point.run: point for point in values.points})
    shown = worth_showing(point for runs in arms.values() for point in runs.values())
    return [(one.title, *(_range_text(one, runs.values()) for runs in arms.values())) for one in shown]


def _range_text(condition: ShownCondition, points: Iterable[Point]) -> str:
    values = [value for point in points if (value := condition.of(point)) is not None]
    if not values:
        return "-"
    middle, low, high = (condition.show(value) for value in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
