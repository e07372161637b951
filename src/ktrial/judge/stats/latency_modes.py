# SPDX-License-Identifier: Apache-2.0
"""Modes of a histogram of latencies: groups of requests around a peak, with a valley between two groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import floor, log2

import msgspec
import numpy as np

from ktrial.judge.stats.arrays import Array

#: Bars per doubling in the histograms.
_BARS = 4
#: A valley is no higher than this share of the lower of the two heaps beside it.
_VALLEY = 0.5
#: A heap needs at least this share of the requests, and this many of them.
_LEAST_SHARE, _FEWEST = 0.002, 5


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    """A group of latencies around a peak: its median, and its share of all requests."""

    at_s: float
    share: float


def modes(histogram: Sequence[tuple[float, int]]) -> tuple[Mode, ...]:
    """Return the modes, shortest latency first. `histogram` holds (end of bar, count); empty bars are left out."""
    total = sum(count for _, count in histogram)
    if total == 0:
        return ()
    places = [_place(end_s) for end_s, _ in histogram]
    first = min(places)
    counts = np.zeros(max(places) - first + 1)
    ends = np.zeros(len(counts))
    for place, (end_s, count) in zip(places, histogram, strict=True):
        counts[place - first] += count
        ends[place - first] = end_s
    heaps = _heaps(_smooth(counts))
    found = []
    for begin, end in heaps:
        own = counts[begin:end]
        if own.sum() >= max(_FEWEST, _LEAST_SHARE * total):
            middle = begin + int(np.searchsorted(np.cumsum(own), own.sum() / 2))
            found.append(Mode(at_s=float(ends[middle]), share=float(own.sum() / total)))
    return tuple(found)


def _place(end_s: float) -> int:
    """Return the number of a bar; each doubling has four of equal width."""
    begin = end_s * (1 - 1e-9)
    doubling = floor(log2(begin))
    return doubling * _BARS + min(int((begin / 2.0**doubling - 1) * _BARS), _BARS - 1)


def _smooth(counts: Array) -> Array:
    padded = np.concatenate([[0.0], counts, [0.0]])
    return np.asarray((padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4)


def _heaps(heights: Array) -> list[tuple[int, int]]:
    """Return the stretches between valleys; a valley that is too shallow does not separate its neighbours."""
    cuts = [at for at in range(1, len(heights) - 1) if heights[at] <= heights[at - 1] and heights[at] < heights[at + 1]]
    edges = [0, *cuts, len(heights)]
    heaps = list(pairwise(edges))
    while len(heaps) > 1:
        tops = [float(heights[begin:end].max()) for begin, end in heaps]
        depth = [float(heights[heaps[at][1]]) / max(min(tops[at], tops[at + 1]), 1e-12) for at in range(len(heaps) - 1)]
        shallow = int(np.argmax(depth))
        if depth[shallow] <= _VALLEY:
            break
        heaps[shallow : shallow + 2] = [(heaps[shallow][0], heaps[shallow + 1][1])]
    return heaps
