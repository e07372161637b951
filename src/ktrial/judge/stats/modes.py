# SPDX-License-Identifier: Apache-2.0
"""Two modes: whether values fall into two groups."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ktrial.judge.stats.arrays import Array

#: Two modes need this gain in BIC over one mode, centres this many standard deviations apart, and this many runs.
_GAIN, _GAP, _RUNS = 10.0, 3.0, 12
_EM_STEPS, _EM_STOP = 60, 1e-7
#: Each mode has at least this share of the runs, and at least this share of the whole spread.
_LEAST_SHARE, _LEAST_SD = 0.02, 0.05
#: A relative spread below this is rounding of equal values.
_DUST = 1e-12
#: Blocks explain the values of an arm if they correlate with those of the other arms (one-sided 1 %).
_BEYOND_CHANCE = 2.326
#: With fewer blocks than this, nothing shows how much they explain.
_FEWEST_BLOCKS = 6


class Modes(NamedTuple):
    """Two modes of log values.

    `gain` is their gain over one mode (BIC), `sd` the standard deviation within a mode.
    """

    gain: float
    low: float
    high: float
    sd: float
    low_share: float

    @property
    def clear(self) -> bool:
        return self.gain > _GAIN and self.high - self.low > _GAP * self.sd


def two_modes(values: Array) -> Modes | None:
    """Return the best mixture of two normals; None if there are too few values, no spread, or no clear gap."""
    count = len(values)
    spread = float(values.std()) if count else 0.0
    if count < _RUNS or spread <= _DUST * float(np.abs(values).max()) or not _may_be_two(np.sort(values)):
        return None
    standard = (values - values.mean()) / spread
    weights, centres, sds = _starts(standard)
    best = -math.inf
    parts = np.zeros((len(weights), 2, count))
    for _ in range(_EM_STEPS):
        z = (standard - centres[:, :, None]) / sds[:, :, None]
        parts = weights[:, :, None] / (sds[:, :, None] * math.sqrt(2 * math.pi)) * np.exp(-0.5 * z * z) + 1e-300
        whole = parts.sum(axis=1)
        likelihood = float(np.log(whole).sum(axis=1).max())
        if likelihood - best < _EM_STOP:
            break
        best = likelihood
        shares = parts / whole[:, None, :]
        mass = shares.sum(axis=2)
        weights = np.clip(mass / count, _LEAST_SHARE, 1 - _LEAST_SHARE)
        weights /= weights.sum(axis=1, keepdims=True)
        centres = (shares * standard).sum(axis=2) / np.maximum(mass, 1e-12)
        squares = (shares * (standard - centres[:, :, None]) ** 2).sum(axis=2) / np.maximum(mass, 1e-12)
        sds = np.maximum(np.sqrt(squares), _LEAST_SD)
    choice = int(np.log(parts.sum(axis=1)).sum(axis=1).argmax())
    one = -0.5 * count * (math.log(2 * math.pi) + 1)
    two = float(np.log(parts[choice].sum(axis=0)).sum())
    gain = 2 * (two - one) - 3 * math.log(count)
    low, high = (0, 1) if centres[choice, 0] <= centres[choice, 1] else (1, 0)
    within = math.sqrt(float((weights[choice] * sds[choice] ** 2).sum()))
    place = float(values.mean())
    return Modes(
        gain,
        place + spread * float(centres[choice, low]),
        place + spread * float(centres[choice, high]),
        spread * within,
        float(weights[choice, low]),
    )


#: By number of runs: the widest gap exceeds the wider side by this factor in 1 of 100 cases with a single mode.
_APART = {4: 15.0, 5: 6.3, 6: 3.8, 7: 2.8, 8: 2.2, 9: 1.8, 10: 1.6, 11: 1.4}
#: Groups lie apart if their values differ by at least this factor.
APART_FACTOR = 1.5


class Apart(NamedTuple):
    """A few runs that a gap separates from the others: how many, out of how many, and the ratio of the two medians."""

    runs: int
    of: int
    factor: float


def apart(logs: Array) -> Apart | None:
    """Return the few runs that a wide gap separates from all others; None without such a gap.

    Use this for series that are too short for `two_modes`.
    """
    count = len(logs)
    if count < min(_APART):
        return None
    ordered = np.sort(logs)
    gaps = np.diff(ordered)
    cut = int(gaps.argmax())
    lower, upper = ordered[: cut + 1], ordered[cut + 1 :]
    limit = _APART[min(count, max(_APART))]
    if gaps[cut] < math.log(APART_FACTOR) or gaps[cut] <= limit * max(np.ptp(lower), np.ptp(upper)):
        return None
    few, many = (lower, upper) if len(lower) <= len(upper) else (upper, lower)
    return Apart(len(few), count, math.exp(float(np.median(few) - np.median(many))))


def within_blocks(scores: Mapping[str, Array], blocks: Mapping[str, Sequence[Hashable | None]]) -> dict[str, Array]:
    """Return the scores of each arm without what its blocks explain.

    Something that changes all arms of a block alike is not a mode. It is estimated by regression on the mean of the
    other arms in the same block. Scores are unchanged if some runs have no block, or an arm shares too few blocks with
    the others.
    """
    names = list(dict.fromkeys(block for of_arm in blocks.values() for block in of_arm))
    if len(scores) < 2 or len(names) < _FEWEST_BLOCKS or None in names:
        return dict(scores)
    number = {name: index for index, name in enumerate(names)}
    places = np.array([number[block] for arm in scores for block in blocks[arm]], dtype=np.intp)
    arms = np.repeat(np.arange(len(scores)), [len(of_arm) for of_arm in scores.values()])
    cells, shape = arms * len(names) + places, (len(scores), len(names))
    counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    every = np.concatenate(list(scores.values()))
    middles = np.bincount(cells, weights=every, minlength=counts.size).reshape(shape) / np.maximum(counts, 1)
    there = counts > 0
    others = there.sum(axis=0) - there
    beside = (middles.sum(axis=0) - middles) / np.maximum(others, 1)
    shared, enough = (others > 0)[arms, places], (there & (others > 0)).sum(axis=1)
    found = {}
    for index, arm in enumerate(scores):
        of_arm = (arms == index) & shared
        found[arm] = (
            _unexplained(every[of_arm], beside[index, places[of_arm]], int(enough[index]))
            if enough[index] >= _FEWEST_BLOCKS
            else scores[arm]
        )
    return found


def _unexplained(scores: Array, beside: Array, blocks: int) -> Array:
    """Return the residuals of scores after regression on the mean of the other arms in their blocks."""
    centred, beside = scores - scores.mean(), beside - beside.mean()
    square, product = float(beside @ beside), float(centred @ beside)
    if product <= _BEYOND_CHANCE / math.sqrt(blocks) * math.sqrt(square * float(centred @ centred)):
        return scores
    return np.asarray(scores - product / square * beside, dtype=np.float64)


def _starts(standard: Array) -> tuple[Array, Array, Array]:
    centres = []
    for share in (0.25, 0.5, 0.75):
        cut = np.quantile(standard, share)
        lower, upper = standard[standard <= cut], standard[standard > cut]
        centres.append((lower.mean(), upper.mean() if len(upper) else standard.max()))
    return np.full((3, 2), 0.5), np.array(centres, dtype=np.float64), np.full((3, 2), 0.5)


def _may_be_two(ordered: Array) -> bool:
    """Return whether the best cut leaves two groups far enough apart.

    Most data fail this test, which is fast.
    """
    n = len(ordered)
    cuts = np.arange(2, n - 1)
    centred = ordered - ordered.mean()
    sums, squares = np.cumsum(centred)[cuts - 1], np.cumsum(centred**2)[cuts - 1]
    left, right = sums / cuts, -sums / (n - cuts)
    within = squares - cuts * left**2 + float(centred @ centred) - squares - (n - cuts) * right**2
    best = int(np.argmin(within))
    spread = max(math.sqrt(max(float(within[best]), 0.0) / n), 1e-3 * float(centred.std()))
    if float(right[best] - left[best]) <= _GAP * spread:
        return False
    # The gain of two modes if each run surely belongs to one; if the modes lie apart, a mixture gains little more.
    share = float(cuts[best]) / n
    sure = n * (share * math.log(share) + (1 - share) * math.log(1 - share)) - n * math.log(spread / centred.std())
    return 2 * sure - 2 * math.log(n) > 0
