# SPDX-License-Identifier: Apache-2.0
"""The single measurements that a chart shows, thinned where there are too many."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktrial.judge.model.comparison import OutcomeComparison, Point
from ktrial.reports.charts.drawing import Cast, Style


class Shown(msgspec.Struct, frozen=True):
    """A measurement with the number of its arm, and where it stands in the order of all."""

    arm: int
    at: int
    point: Point


class PointSelection(msgspec.Struct, frozen=True):
    """What is shown of how many. `ordered` says that every place is known."""

    shown: tuple[Shown, ...]
    of: int
    ordered: bool

    @property
    def note(self) -> str:
        """What a caption says of points left out; empty where none are."""
        if len(self.shown) == self.of:
            return ""
        return (
            f" {len(self.shown):,} of {self.of:,} runs are drawn: of each stretch of runs in order, "
            "the smallest and the largest value of each arm."
        )


def select(outcome: OutcomeComparison, cast: Cast, style: Style) -> PointSelection:
    """The points of all arms in run order; of each arm its share of the points that fit."""
    arms = [values for values in outcome.arms if values.arm in cast.arms]
    total = sum(len(values.points) for values in arms)
    places = [point.place for values in arms for point in values.points]
    ordered = None not in places and len(set(places)) == len(places)
    kept: list[Shown] = []
    at = 0
    for values in arms:
        number = cast.number(values.arm)
        all_of_arm = []
        for point in values.points:
            at += 1
            all_of_arm.append(Shown(number, point.place if ordered and point.place is not None else at, point))
        all_of_arm.sort(key=lambda one: one.at)
        share = len(all_of_arm) if total <= style.most_points else style.most_points * len(all_of_arm) // total
        kept += thin(all_of_arm, share)
    return PointSelection(tuple(sorted(kept, key=lambda one: one.at)), total, ordered)


def thin(points: Sequence[Shown], most: int) -> list[Shown]:
    """Of each of as many stretches as fit, the smallest and the largest value: no outlier is lost."""
    if len(points) <= max(2, most):
        return list(points)
    stretches = max(1, most // 2)
    kept = []
    for number in range(stretches):
        part = points[number * len(points) // stretches : (number + 1) * len(points) // stretches]
        ends = {min(part, key=_value).at, max(part, key=_value).at}
        kept += [one for one in part if one.at in ends]
    return kept


def _value(one: Shown) -> float:
    return one.point.value
