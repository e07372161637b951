# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from ktrial.judge.stats import unpaired
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.stretches import stretches


def alike(rng: np.random.Generator, runs: int, likeness: float) -> Array:
    noise, made = rng.normal(size=runs + 300), np.zeros(runs + 300)
    for place in range(1, runs + 300):
        made[place] = likeness * made[place - 1] + noise[place]
    return made[300:]


def units(scores: Array) -> Array:
    found = stretches(scores)
    return scores if found is None else np.array([np.median(scores[places]) for places in found])


@pytest.mark.parametrize("runs, likeness", [(100, 0.0), (100, 0.6), (400, 0.3), (400, 0.9), (3000, 0.98)])
def test_alike_runs_of_one_kind_are_seldom_told_apart(runs: int, likeness: float) -> None:
    """5 %, and what three hundred pairs may miss it by; as single runs up to nine of ten pairs would differ."""
    rng, trials, claims, apart = np.random.default_rng([runs, int(100 * likeness)]), 300, 0, 0
    for _ in range(trials):
        pair = alike(rng, runs, likeness), alike(rng, runs, likeness)
        one, other = map(units, pair)
        claims += unpaired.rank_sum(one[np.newaxis], other[np.newaxis])[1][0] <= 0.05
        apart += unpaired.rank_sum(pair[0][np.newaxis], pair[1][np.newaxis])[1][0] <= 0.05
    assert claims / trials <= 0.10
    assert likeness < 0.5 or apart / trials > 0.25


def test_runs_that_are_not_alike_stay_units() -> None:
    rng = np.random.default_rng(4)
    kept = sum(stretches(rng.normal(size=50)) is None for _ in range(200))
    assert kept >= 185
    assert stretches(np.arange(7.0)) is None
    assert stretches(np.ones(100)) is None


def test_every_run_is_in_one_stretch() -> None:
    found = stretches(alike(np.random.default_rng(5), 1000, 0.9))
    assert found is not None
    assert [place for part in found for place in part] == list(range(1000))
    assert max(map(len, found)) - min(map(len, found)) <= 1
