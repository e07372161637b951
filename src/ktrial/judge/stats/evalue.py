# SPDX-License-Identifier: Apache-2.0
"""E-values of block differences: evidence that may be checked after every block, without limit.

If the differences lie symmetrically around `theta`, an e-value has the mean 1 at every block. Its chance of ever
reaching 1/alpha is therefore at most alpha. E-values of independent trials multiply.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ktrial.judge.sequential import Array

#: The sizes of the bets, in units of the scale; ktrial averages their results.
BETS = (0.3, 0.6, 1.2, 2.4, 5.0)
_BETS = np.array(BETS)
#: Without a profile there is no bet until this many earlier blocks show the scale.
_FIRST_SCALED = 4
_MAD = 1.4826
_HALVINGS = 80
_LARGEST_LOG = 700.0


class Halves(NamedTuple):
    """Evidence that the differences lie above theta, and below it."""

    above: float
    below: float

    @property
    def both(self) -> float:
        return (self.above + self.below) / 2


def scales(differences: Array, profile: tuple[float, ...] | None) -> Array:
    """Return the scale of each block: from the profile or, without a profile, from earlier blocks.

    A block with an infinite scale adds no evidence.
    """
    if profile is not None and (fixed := _spread(np.asarray(profile))) > 0:
        return np.full(len(differences), fixed)
    found = np.full(len(differences), math.inf)
    for place in range(_FIRST_SCALED, len(differences)):
        earlier = differences[:place]
        if (spread := _spread(earlier - np.median(earlier))) > 0:
            found[place] = spread
    return found


def e_value(differences: Array, scale: Array | float, theta: float = 0.0) -> Halves:
    """Return the evidence that the differences lie above `theta`, and the evidence that they lie below it."""
    bets = np.outer(_BETS, (differences - theta) / scale)
    cost = (np.logaddexp(bets, -bets) - math.log(2)).sum(axis=1)
    gain = bets.sum(axis=1)
    return Halves(_mean_exp(gain - cost), _mean_exp(-gain - cost))


def e_interval(differences: Array, scale: Array | float, bound: float) -> tuple[float, float] | None:
    """Return the interval of theta in which neither half reaches `bound`.

    Return None if the blocks give no evidence, or if no such interval exists or it has no end.
    """
    if not len(differences) or not np.isfinite(scale).any():
        return None
    reach = float(np.abs(differences).max()) + 1.0
    middle = float(np.median(differences))
    if max(e_value(differences, scale, middle)) >= bound:
        return None
    ends = []
    for sign in (-1.0, 1.0):
        inside, outside = middle, middle + sign * reach
        while _half(differences, scale, outside, sign) < bound:
            outside += sign * (reach := reach * 2)
            if reach > _LARGEST_LOG:
                return None
        for _ in range(_HALVINGS):
            theta = (inside + outside) / 2
            if _half(differences, scale, theta, sign) < bound:
                inside = theta
            else:
                outside = theta
        ends.append(inside)
    return ends[0], ends[1]


def _half(differences: Array, scale: Array | float, theta: float, sign: float) -> float:
    halves = e_value(differences, scale, theta)
    return halves.below if sign > 0 else halves.above


def _spread(values: Array) -> float:
    """Return the larger of root mean square and robust sd around zero."""
    return max(float(np.sqrt(np.mean(values**2))), _MAD * float(np.median(np.abs(values))))


def _mean_exp(logs: Array) -> float:
    return float(np.exp(np.minimum(logs, _LARGEST_LOG)).mean())
