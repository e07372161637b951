# SPDX-License-Identifier: Apache-2.0
"""Stutters among frames or wake-ups: when they happen, their share of the time with its interval, their recurrence."""

from __future__ import annotations

import msgspec
import numpy as np

from ktrial.judge.model.interval import Interval
from ktrial.judge.model.stutter import STUTTER_FACTOR, STUTTER_S, usual
from ktrial.judge.stats.arrays import Array, Truth
from ktrial.judge.stats.time_blocks import cell_of_each, cells_of, drawn_again

_FEWEST_EPISODES = 5
_DRAWS = 1999
_SEED = 20261122


class Stutters(msgspec.Struct, frozen=True, kw_only=True):
    """Begin, end and lateness of each stutter; `share` is late time / all time, `per_hour` the stutters per hour."""

    definition: str
    begins_s: Array
    ends_s: Array
    excess_s: Array
    share: Interval
    per_hour: Interval

    @property
    def count(self) -> int:
        return len(self.begins_s)


def late_frames(
    ends_s: Array,
    durations_s: Array,
    begin_s: float,
    end_s: float,
    limit_s: float | None,
    *,
    stands_for: Array | None = None,
) -> Stutters:
    """Return the frames longer than `limit_s` or, without a limit, the frames that meet the definition of a stutter.

    For sampled frames, `stands_for` is how many frames each sample represents, and multiplies its late time.
    """
    if limit_s is None:
        around_s = np.array(usual(durations_s.tolist())) if len(durations_s) else durations_s
        late = (durations_s > STUTTER_FACTOR * around_s) & (durations_s > STUTTER_S)
        definition = f"longer than {STUTTER_FACTOR:g} times the median around it and longer than {STUTTER_S * 1e3:g} ms"
        excess_s = (durations_s - around_s)[late]
    else:
        late = durations_s > limit_s
        definition = f"longer than {limit_s * 1e3:g} ms"
        excess_s = durations_s[late] - limit_s
    if stands_for is not None:
        excess_s = excess_s * stands_for[late]
    ends = ends_s[late]
    share, per_hour = _shares(ends, excess_s, begin_s, end_s)
    return Stutters(
        definition=definition,
        begins_s=ends - durations_s[late],
        ends_s=ends,
        excess_s=excess_s,
        share=share,
        per_hour=per_hour,
    )


def within(stutters: Stutters, begin_s: float, end_s: float) -> Stutters:
    """Return the stutters that end within a period, with their share of this period."""
    return choose_stutters(stutters, (stutters.ends_s >= begin_s) & (stutters.ends_s < end_s), begin_s, end_s)


def choose_stutters(stutters: Stutters, keep: Truth, begin_s: float, end_s: float) -> Stutters:
    """Return the stutters that `keep` marks, with their share of a period."""
    ends_s, excess_s = stutters.ends_s[keep], stutters.excess_s[keep]
    share, per_hour = _shares(ends_s, excess_s, begin_s, end_s)
    return Stutters(
        definition=stutters.definition,
        begins_s=stutters.begins_s[keep],
        ends_s=ends_s,
        excess_s=excess_s,
        share=share,
        per_hour=per_hour,
    )


def _shares(ends_s: Array, excess_s: Array, begin_s: float, end_s: float) -> tuple[Interval, Interval]:
    """Return late time over all time and stutters per hour, with intervals from a circular block bootstrap."""
    length_s = end_s - begin_s
    if length_s <= 0:
        return Interval(estimate=0.0), Interval(estimate=0.0)
    late, hourly = float(excess_s.sum()) / length_s, len(ends_s) * 3600 / length_s
    cells = cells_of(length_s)
    if cells is None:
        return Interval(estimate=late), Interval(estimate=hourly)
    place = cell_of_each(ends_s, begin_s, length_s, cells)
    counts = np.bincount(place, minlength=cells)
    drawn = drawn_again(np.stack([np.bincount(place, weights=excess_s, minlength=cells), counts], axis=1))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    scale = np.array([1 / length_s, 3600 / length_s])
    return (
        Interval(estimate=late, low=float(low[0] * scale[0]), high=float(high[0] * scale[0])),
        Interval(estimate=hourly, low=float(low[1] * scale[1]), high=float(high[1] * scale[1])),
    )


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """A group of stutters without a long gap between them."""

    begin_s: float
    end_s: float
    count: int


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """The median time between the starts of two episodes, and the chance that random episodes are as regular."""

    period_s: float
    p: float


def episodes(begins_s: Array, ends_s: Array, gap_s: float) -> tuple[Episode, ...]:
    if len(begins_s) == 0:
        return ()
    reach = np.maximum.accumulate(ends_s)
    starts = np.concatenate([[0], 1 + np.flatnonzero(begins_s[1:] - reach[:-1] > gap_s)])
    stops = np.concatenate([starts[1:], [len(begins_s)]])
    return tuple(
        Episode(begin_s=float(begins_s[start]), end_s=float(ends_s[start:stop].max()), count=int(stop - start))
        for start, stop in zip(starts, stops, strict=True)
    )


def recurrence(found: tuple[Episode, ...], begin_s: float, end_s: float, gap_s: float) -> Recurrence | None:
    """Return how regularly episodes recur, compared with random episodes; None if there are too few."""
    if len(found) < _FEWEST_EPISODES:
        return None
    starts = np.array([one.begin_s for one in found])
    taken = np.array([one.end_s - one.begin_s + gap_s for one in found])
    spare_s = max(end_s - begin_s - float(taken[:-1].sum()), 0.0)
    generator = np.random.default_rng(_SEED)
    free = np.sort(generator.uniform(0, spare_s, size=(_DRAWS, len(found))), axis=1)
    distances = np.diff(free + np.concatenate([[0.0], np.cumsum(taken[:-1])]), axis=1)
    gaps = np.diff(starts)
    seen = float(np.std(gaps) / np.mean(gaps))
    uneven = np.std(distances, axis=1) / np.mean(distances, axis=1)
    p = (1 + int(np.sum(uneven <= seen))) / (_DRAWS + 1)
    return Recurrence(period_s=float(np.median(gaps)), p=p)
