# SPDX-License-Identifier: Apache-2.0
"""Runs that follow each other and are alike are no units: how many of them in a row make one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ktrial.judge.stats.arrays import Array, mean_ranks
from ktrial.kit.startup import load_special

special = load_special()

#: A stretch is so many times as long as runs stay alike.
TIMES = 4
#: In fewer runs nothing is seen of their likeness.
FEWEST = 8


def stretches(scores: Array) -> list[list[int]] | None:
    """Return places of scores in their order, by stretch; None if each run is a unit of its own."""
    runs = len(scores)
    length = _length(scores) if runs >= FEWEST else 1
    if length == 1:
        return None
    return [part.tolist() for part in np.array_split(np.arange(runs), max(1, runs // length))]


#: Values that lie sorted by luck alone do so in fewer cases than this.
_LUCK = 0.001


def lie_sorted(series: Sequence[Sequence[float]]) -> bool:
    """Whether all of them lie sorted in one direction, as in a table that was: then rows are in no order of time."""
    luck, rises, falls = 2.0, True, True
    for values in series:
        luck /= math.factorial(min(len(set(values)), 20))
        rises = rises and all(one <= other for one, other in pairwise(values))
        falls = falls and all(one >= other for one, other in pairwise(values))
    return luck < _LUCK and (rises or falls)


def _length(scores: Array) -> int:
    """By the time over which ranks stay correlated: autocorrelations, two by two, as long as they are above zero."""
    runs = len(scores)
    ranks = mean_ranks(scores[np.newaxis, :])[0]
    centred = ranks - ranks.mean()
    power = np.abs(np.fft.rfft(centred, 2 * runs)) ** 2
    if power.sum() <= 0:
        return 1
    correlated = np.fft.irfft(power, 2 * runs)[:runs]
    correlated = correlated / correlated[0]
    if correlated[1] <= float(special.ndtri(0.975)) / math.sqrt(runs):
        return 1
    twos = correlated[: runs // 2 * 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(twos <= 0)
    together = 2 * float(twos[: ended[0] if len(ended) else len(twos)].sum()) - 1
    return min(runs, math.ceil(TIMES * together))
