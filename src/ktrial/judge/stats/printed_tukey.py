# SPDX-License-Identifier: Apache-2.0
"""Tukey's test recomputed from printed means, deviations and counts, with the bounds that their rounding allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ktrial.judge.model.claim import ClaimedNumber


class PrintedGroup(NamedTuple):
    """One printed row: mean, standard deviation and number of values."""

    mean: ClaimedNumber
    sd: ClaimedNumber
    n: int


class Bounds(NamedTuple):
    """A figure computed from the printed values, with the smallest and largest figure that their rounding allows."""

    value: float
    low: float
    high: float


def q_of(groups: Mapping[str, PrintedGroup], first: str, second: str) -> Bounds:
    """Return the studentised range statistic of a pair (Tukey-Kramer if the counts differ)."""
    one, other = groups[first], groups[second]
    gap = abs(one.mean.value - other.mean.value)
    slack = (one.mean.high - one.mean.low + other.mean.high - other.mean.low) / 2
    share = (1 / one.n + 1 / other.n) / 2
    errors = [
        math.sqrt(_pooled({name: getattr(group.sd, end) for name, group in groups.items()}, groups) * share)
        for end in ("value", "low", "high")
    ]
    return Bounds(gap / errors[0], max(0.0, gap - slack) / errors[2], (gap + slack) / errors[1])


def p_of(q: Bounds, groups: Mapping[str, PrintedGroup]) -> Bounds:
    """Return the bounds of p for bounds of Q; a larger Q means a smaller p."""
    from scipy import stats

    count, df = len(groups), sum(group.n for group in groups.values()) - len(groups)
    value, low, high = (float(stats.studentized_range.sf(one, count, df)) for one in (q.value, q.high, q.low))
    return Bounds(value, low, high)


def _pooled(deviations: Mapping[str, float], groups: Mapping[str, PrintedGroup]) -> float:
    total = math.fsum(deviations[name] ** 2 * (group.n - 1) for name, group in groups.items())
    return total / sum(group.n - 1 for group in groups.values())
