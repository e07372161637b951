# SPDX-License-Identifier: Apache-2.0
"""Stretches of time: how many consecutive runs form one unit if neighbours are alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ktrial.judge.stats.arrays import Array, mean_ranks
from ktrial.kit.startup import load_special

special = load_special()

#: A stretch lasts this many times as long as the correlation between runs.
TIMES = 4
#: Correlation needs at least this many runs.
FEWEST = 8


def stretches(scores: Array) -> list[list[int]] | None:
    """Split the indexes of ordered scores into stretches of time; None if each run is a unit."""
    runs = len(scores)
    length = _length(scores) if runs >= FEWEST else 1
    if length == 1:
        return None
    return [part.tolist() for part in np.array_split(np.arange(runs), max(1, runs // length))]


#: Values count as sorted if the chance of that order is below this.
_LUCK = 0.001


def lie_sorted(series: Sequence[Sequence[float]]) -> bool:
    """Return whether all series are sorted in one direction, which is unlikely unless somebody sorted the table."""
    luck, rises, falls = 2.0, True, True
    for values in series:
        luck /= math.factorial(min(len(set(values)), 20))
        rises = rises and all(one <= other for one, other in pairwise(values))
        falls = falls and all(one >= other for one, other in pairwise(values))
    return luck < _LUCK and (rises or falls)


def _length(scores: Array) -> int:
    """Return the length of a stretch, from the autocorrelation time of ranks (sums of two lags while positive)."""
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
