# SPDX-License-Identifier: Apache-2.0
"""Other procedures that look at random blocks more than once: sequential t, a confidence sequence, an e-process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from scipy import stats

from perf.noise_sources import Array, Generator, Rows
from perf.peers import NONE, Procedure, Result
from perf.simulated_trials import EQUIVALENT, MARGIN, block_differences

CAP = 30
ALPHA = 0.05
_T_LOOKS = (4, 6, 8, 10, 12, 15, 20, 25, 30)
_FIRST_OF_SEQUENCE = 6
_BETS = np.array([0.3, 0.6, 1.2, 2.4, 5.0])
#: From this block on, the e-process estimates the spread itself; before, it uses a pilot that was 30 % wrong.
_OWN_SPREAD = 5
#: Smallest spread, because a few values may show no noise at all.
_LEAST_SPREAD = 1e-6


def _pocock(t: float) -> float:
    return ALPHA * float(np.log(1 + (np.e - 1) * t))


def _obrien_fleming(t: float) -> float:
    return 2 * float(stats.norm.sf(stats.norm.isf(ALPHA / 2) / np.sqrt(t)))


_SPENDING: Mapping[str, Callable[[float], float]] = {"Pocock": _pocock, "O'Brien-Fleming": _obrien_fleming}


@cache
def _cuts(spending: str, trials: int = 100_000) -> dict[int, float]:
    """Return the p below which each look decides, so that normal noise makes false claims as fast as alpha is spent."""
    differences = np.random.default_rng(1).normal(size=(trials, CAP))
    open_trials = np.ones(trials, dtype=bool)
    cuts = {}
    for look in _T_LOOKS:
        mean, error = _mean_and_error(differences[:, :look])
        p = 2 * stats.t.sf(np.abs(mean) / error, look - 1)
        allowed = int(_SPENDING[spending](look / CAP) * trials) - int((~open_trials).sum())
        cuts[look] = float(np.partition(p[open_trials], allowed - 1)[allowed - 1]) if allowed > 0 else 0.0
        open_trials &= p > cuts[look]
    return cuts


def _mean_and_error(seen: Rows) -> tuple[Array, Array]:
    return seen.mean(1), seen.std(1, ddof=1) / np.sqrt(seen.shape[1])


class _Course:
    """Trials that end one after the other, each at its first verdict or at the cap."""

    def __init__(self, trials: int) -> None:
        self.live = np.ones(trials, dtype=bool)
        self.claim = np.full(trials, float(NONE))
        self.runs = np.full(trials, 2.0 * CAP)
        self.low = np.full(trials, np.nan)
        self.high = np.full(trials, np.nan)

    def look(self, blocks: int, low: Array, high: Array) -> None:
        limit = np.log1p(MARGIN)
        claim = np.select([(low > -limit) & (high < limit), low > 0, high < 0], [EQUIVALENT, 1, -1], NONE)
        self.end(blocks, claim, low, high)

    def end(self, blocks: int, claim: Array, low: Array, high: Array) -> None:
        ends = self.live & ((claim != NONE) | (blocks == CAP))
        self.claim[ends], self.runs[ends] = claim[ends], 2 * blocks
        self.low[ends], self.high[ends] = low[ends], high[ends]
        self.live &= ~ends

    def result(self, *, has_interval: bool) -> Result:
        if has_interval:
            return Result(self.claim, self.runs, None, self.low, self.high)
        return Result(self.claim, self.runs, None, None, None)


def sequential_t(spending: str) -> Procedure:
    """Paired t at nine looks from 4 to 30 random blocks."""

    def run(rows: Rows, effect: float, generator: Generator) -> Result:
        differences = block_differences(generator, rows[:, : 2 * CAP], effect)
        course = _Course(len(rows))
        for look, cut in _cuts(spending).items():
            mean, error = _mean_and_error(differences[:, :look])
            if cut > 0:
                half = error * float(stats.t.isf(cut / 2, look - 1))
                course.look(look, mean - half, mean + half)
        return course.result(has_interval=True)

    return run


def confidence_sequence(rows: Rows, effect: float, generator: Generator) -> Result:
    """An asymptotic confidence sequence (normal mixture, tuned to 12 blocks), checked after each block."""
    differences = block_differences(generator, rows[:, : 2 * CAP], effect)
    squared = (-2 * np.log(ALPHA) + np.log(-2 * np.log(ALPHA)) + 1) / 12
    course = _Course(len(rows))
    for blocks in range(_FIRST_OF_SEQUENCE, CAP + 1):
        seen = differences[:, :blocks]
        widened = blocks * squared + 1
        half = seen.std(1, ddof=1) * np.sqrt(2 * widened / (blocks**2 * squared) * np.log(np.sqrt(widened) / ALPHA))
        course.look(blocks, seen.mean(1) - half, seen.mean(1) + half)
    return course.result(has_interval=True)


def e_process(rows: Rows, effect: float, generator: Generator) -> Result:
    """Bets on sign and size against no effect and against both margins; each half rejects at 2/alpha, at any block."""
    differences = block_differences(generator, rows[:, : 2 * CAP], effect)
    limit = float(np.log1p(MARGIN))
    nulls = np.array([0.0, limit, -limit])
    pilot = 1.2 * np.median(np.abs(differences - effect), axis=1) * np.exp(generator.normal(0, 0.3, len(rows)))
    wealth = np.zeros((len(rows), len(nulls), 2, len(_BETS)))
    most = np.zeros((len(rows), len(nulls), 2))
    course = _Course(len(rows))
    unknown = np.full(len(rows), np.nan)
    for block in range(CAP):
        earlier = differences[:, :block]
        spread = np.maximum(pilot, _LEAST_SPREAD)
        if block >= _OWN_SPREAD:
            own = 1.4826 * np.median(np.abs(earlier - np.median(earlier, axis=1, keepdims=True)), axis=1)
            spread = np.maximum(own, 0.2 * spread)
        score = (differences[:, block, None] - nulls) / spread[:, None]
        bet = score[:, :, None, None] * np.array([1.0, -1.0])[:, None] * _BETS
        wealth += bet - (np.logaddexp(bet, -bet) - np.log(2))
        most = np.maximum(most, np.exp(wealth).mean(axis=3))
        sure = most >= 2 / ALPHA
        claim = np.select([sure[:, 2, 0] & sure[:, 1, 1], sure[:, 0, 0], sure[:, 0, 1]], [EQUIVALENT, 1, -1], NONE)
        course.end(block + 1, claim, unknown, unknown)
    return course.result(has_interval=False)


SEQUENTIAL_PEERS: dict[str, Procedure] = {
    "sequential t, Pocock, cap 30": sequential_t("Pocock"),
    "sequential t, O'Brien-Fleming, cap 30": sequential_t("O'Brien-Fleming"),
    "confidence sequence, cap 30": confidence_sequence,
    "e-process, sign and size, cap 30": e_process,
}
