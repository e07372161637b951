# SPDX-License-Identifier: Apache-2.0
"""The definition of a stutter: a frame that takes much longer than its neighbours."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

#: A stutter takes more than this many times the usual time. A frame that misses one refresh of the screen takes twice
#: as long, so the limit lies below 2; at 2, chance would decide whether it counts.
STUTTER_FACTOR = 1.75
#: A stutter also takes longer than this: at hundreds of frames a second nobody sees a frame of 5 ms.
STUTTER_S = 0.010
#: Number of frames on each side that define the usual time.
NEIGHBOURS = 15


def usual(times_s: Sequence[float]) -> list[float]:
    """Return for each frame time the median of the times around it; a single time is its own median."""
    if len(times_s) == 1:
        return list(times_s)
    found: list[float] = []
    window = sorted(times_s[:NEIGHBOURS])
    for index, time_s in enumerate(times_s):
        if index > 0:
            insort(window, times_s[index - 1])
        if index + NEIGHBOURS < len(times_s):
            insort(window, times_s[index + NEIGHBOURS])
        if index > NEIGHBOURS:
            _take(window, times_s[index - NEIGHBOURS - 1])
        _take(window, time_s)
        middle = len(window) // 2
        found.append(window[middle] if len(window) % 2 else (window[middle - 1] + window[middle]) / 2)
    return found


def _take(window: list[float], value: float) -> None:
    del window[bisect_left(window, value)]
