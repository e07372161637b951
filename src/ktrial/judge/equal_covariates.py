# SPDX-License-Identifier: Apache-2.0
"""Scores at equal covariates: remove from each visit's score what its load, or another covariate, explains.

The slope comes from how scores and covariates differ within blocks, whichever arm they belong to. If no arm has an
effect, only the coin that drew a block's order decides the sign of its difference. Tests of signs therefore stay exact.
The slope of a block comes from all blocks up to the look at which the block is first judged, and never changes
afterwards.

All this holds only if the arm does not change the covariate; otherwise a part of the arm's effect is removed too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ktrial.judge.sequential import Array
from ktrial.judge.stats.critical import LOOKS

#: A slope needs this many more differences within blocks than there are covariates.
_SPARE = 3
#: A covariate that moves by less than this share of its size is constant.
_CONSTANT = 1e-9
#: Two covariates have separate slopes only if they move apart by more than this share.
_TOGETHER = 1e-6


class _Block(NamedTuple):
    """The visits of a block that have a score, with their covariates and scores less the means of the block."""

    arms: tuple[str, ...]
    apart: Array
    scores: Array
    largest: Array


def level_scores(
    scores: Mapping[int, Mapping[str, float]], covariates: Mapping[int, Mapping[str, Sequence[float]]]
) -> dict[int, dict[str, float]]:
    """Return the scores at the mean covariates of each block. A visit without covariates gets no score."""
    blocks = {number: _block(visits, covariates.get(number, {})) for number, visits in sorted(scores.items())}
    held = list(blocks.values())
    found: dict[int, dict[str, float]] = {}
    slopes: dict[int, Array] = {}
    for place, (number, block) in enumerate(blocks.items(), start=1):
        look = next((look for look in LOOKS if look >= place), len(held))
        if len(block.arms) > 1 and look not in slopes:
            slopes[look] = _slopes(held[:look])
        explained = block.apart @ slopes[look] if len(block.arms) > 1 else np.zeros(len(block.arms))
        found[number] = {
            arm: scores[number][arm] - value for arm, value in zip(block.arms, explained.tolist(), strict=True)
        }
    return found


def _block(visits: Mapping[str, float], covariates: Mapping[str, Sequence[float]]) -> _Block:
    arms = tuple(arm for arm in visits if arm in covariates)
    values = np.array([covariates[arm] for arm in arms], dtype=np.float64).reshape(len(arms), -1)
    found = np.array([visits[arm] for arm in arms], dtype=np.float64)
    if not arms:
        return _Block((), values, found, np.zeros(values.shape[1]))
    return _Block(arms, values - values.mean(axis=0), found - found.mean(), np.abs(values).max(axis=0))


def _slopes(blocks: Sequence[_Block]) -> Array:
    """Return how much the score changes with each covariate within blocks; zeros if that is unknown.

    Slopes that rest on a few outliers, and do not make typical visits more alike, are zero.
    """
    whole = [one for one in blocks if len(one.arms) > 1 and np.isfinite(one.scores).all()]
    count = next(one.apart.shape[1] for one in blocks if one.arms)
    none = np.zeros(count)
    if sum(len(one.arms) - 1 for one in whole) < count + _SPARE:
        return none
    apart = np.concatenate([one.apart for one in whole])
    scores = np.concatenate([one.scores for one in whole])
    sizes = np.sqrt((apart**2).mean(axis=0))
    moves = sizes > _CONSTANT * np.max([one.largest for one in whole], axis=0)
    scaled = np.where(moves, apart / np.where(moves, sizes, 1.0), 0.0)
    fitted, *_ = np.linalg.lstsq(scaled, scores, rcond=_TOGETHER)
    if np.median(np.abs(scores - scaled @ fitted)) >= np.median(np.abs(scores)):
        return none
    return np.where(moves, fitted / np.where(moves, sizes, 1.0), 0.0)
