# SPDX-License-Identifier: Apache-2.0
"""Quantiles of histograms as Prometheus computes them, with the bucket that contains the quantile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ktrial.live.sources.web import IdleSource, NotRead


class BucketQuantile(NamedTuple):
    """A quantile, interpolated within its bucket from `low` to `high`. The last bucket's `high` is None."""

    value: float
    low: float
    high: float | None


def bucket_quantile(buckets: Mapping[float, float], quantile: float) -> BucketQuantile:
    """Return a quantile of events. `buckets` maps upper bounds to cumulative counts.

    Raise NotRead if there are too few buckets, and IdleSource if no event was counted.
    """
    bounds = sorted(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf:
        raise NotRead(
            'the histogram needs a bucket le="+Inf" and at least one other bucket',
            hint="measure the events per second, with the series …_count",
        )
    # Counters of one scrape may be of different moments, so that a bucket holds less than one below it.
    counts: list[float] = []
    for bound in bounds:
        counts.append(max(buckets[bound], counts[-1] if counts else 0.0))
    if not math.isfinite(counts[-1]) or counts[-1] <= 0:
        raise IdleSource("no event was counted", hint="start the work that this series counts")
    rank = quantile * counts[-1]
    place = next(place for place, count in enumerate(counts) if count >= rank)
    if place == len(bounds) - 1:
        return BucketQuantile(bounds[-2], bounds[-2], None)
    high, below = bounds[place], counts[place - 1] if place else 0.0
    if place == 0 and high <= 0:
        return BucketQuantile(high, high, high)
    low = bounds[place - 1] if place else 0.0
    inside = counts[place] - below
    share = (rank - below) / inside if inside > 0 else 1.0
    return BucketQuantile(low + (high - low) * share, low, high)


def bound_of(text: str) -> float | None:
    """Return the upper bound in a label `le`; None if it is not a number."""
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound
