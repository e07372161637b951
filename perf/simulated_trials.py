# SPDX-License-Identifier: Apache-2.0
"""Simulated trials: logs for the shipped judge, and a vectorised twin of it for many trials at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ktrial.judge.model.log import BlockDrawn, Event, OutcomeRule, Protocol, RunEnded, TrialArm, block_order
from ktrial.judge.stats.critical import LOOKS, indices
from perf.noise_sources import Array, Generator, Rows

OUTCOME = "sim.time"
CONTROL, ARM = "control", "case"
PROFILE_BLOCKS = 10
MARGIN = 0.02
BETTER, WORSE, EQUIVALENT, INCONCLUSIVE = 1, -1, 0, 9
CODES = {"better": BETTER, "worse": WORSE, "equivalent": EQUIVALENT, "inconclusive": INCONCLUSIVE}


class Outcomes(NamedTuple):
    """One entry per trial: verdict code, blocks used, estimate and interval (NaN if there is none)."""

    verdict: NDArray[np.int64]
    blocks: NDArray[np.int64]
    estimate: Array
    low: Array
    high: Array

    def share(self, *codes: int) -> float:
        return float(np.isin(self.verdict, codes).mean())

    def covers(self, truth: float) -> float:
        return float(((self.low <= truth) & (truth <= self.high)).mean())

    @property
    def claims(self) -> float:
        return self.share(BETTER, WORSE)

    @property
    def runs(self) -> float:
        return 2 * float(self.blocks.mean())


def block_differences(generator: Generator, rows: Rows, effect: float, *, fixed: bool = False) -> Rows:
    """Return differences of two runs a block, in an order that a coin decides (`fixed`: control first).

    `effect` is on the log scale.
    """
    blocks = rows.shape[1] // 2
    pairs = rows[:, : 2 * blocks].reshape(len(rows), blocks, 2)
    arm_first = np.zeros((len(rows), blocks), dtype=bool) if fixed else generator.random((len(rows), blocks)) < 0.5
    step = pairs[:, :, 1] - pairs[:, :, 0]
    return np.where(arm_first, -step, step) + effect


def twin(differences: Rows, cap: int, margin: float = MARGIN, profile: Rows | None = None, row: int = 1) -> Outcomes:
    """Return the judge's results for all these trials of one comparison.

    `profile` has A/A differences, one row per trial.
    """
    trials = len(differences)
    limit = math.log1p(margin)
    verdict = np.full(trials, INCONCLUSIVE)
    blocks = np.full(trials, cap)
    estimate, low, high = np.full(trials, np.nan), np.full(trials, -np.inf), np.full(trials, np.inf)
    live = np.arange(trials)
    if profile is not None:
        first = differences[:, :4]
        reach = 1.5 * np.abs(profile).max(axis=1)
        spread = profile.max(axis=1) > profile.min(axis=1)
        one_sided = (first.min(axis=1) > 0) | (first.max(axis=1) < 0)
        hit = spread & one_sided & (np.abs(first).min(axis=1) > np.maximum(reach, 2 * limit))
        verdict[hit] = np.where(first[hit, 0] > 0, BETTER, WORSE)
        blocks[hit] = 4
        estimate[hit] = np.median(_walsh(first[hit]), axis=1)
        low[hit] = first[hit].min(axis=1) - reach[hit]
        high[hit] = first[hit].max(axis=1) + reach[hit]
        live = np.nonzero(~hit)[0]
    for look, index in zip(LOOKS, indices(cap, row), strict=False):
        if index is None or not len(live):
            continue
        means = _walsh(differences[live, :look])
        newest_low, newest_high = means[:, index], means[:, -1 - index]
        both_low, both_high = np.maximum(low[live], newest_low), np.minimum(high[live], newest_high)
        apart = both_low > both_high
        both_low, both_high = np.where(apart, newest_low, both_low), np.where(apart, newest_high, both_high)
        middle = np.median(means, axis=1)
        low[live], high[live], estimate[live], blocks[live] = both_low, both_high, middle, look
        same = (both_low > -limit) & (both_high < limit)
        found = np.where(same, EQUIVALENT, np.where(both_low > 0, BETTER, np.where(both_high < 0, WORSE, INCONCLUSIVE)))
        verdict[live] = found
        stop = found != INCONCLUSIVE
        if 12 <= look < cap:
            stop |= _futile(means, middle, look, cap, limit)
        live = live[~stop]
    return Outcomes(verdict, blocks, estimate, low, high)


def _walsh(differences: Rows) -> Rows:
    first, second = np.triu_indices(differences.shape[1])
    return np.sort((differences[:, first] + differences[:, second]) / 2, axis=1)


def _futile(means: Rows, middle: Array, look: int, cap: int, limit: float) -> NDArray[np.bool_]:
    quarter, three = np.quantile(means, (0.25, 0.75), axis=1)
    spread = (three - quarter) / 0.95
    half = 2.25 * spread / math.sqrt(cap)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = spread * math.sqrt(1 / look - 1 / cap)
        chance = 1 - ndtr((half - np.abs(middle)) / error) + ndtr((limit - half - np.abs(middle)) / error)
    return np.asarray((spread > 0) & (chance < 0.10))


def protocol_of(cap: int, seed: int, profile: Sequence[float] = (), margin: float = MARGIN) -> Protocol:
    """Return the protocol of a trial of one arm, judged by a time."""
    return Protocol(
        name="simulated",
        arms=(TrialArm(name=CONTROL), TrialArm(name=ARM)),
        control=CONTROL,
        outcomes={OUTCOME: OutcomeRule(direction="lower", role="primary", margin=margin)},
        cap=cap,
        seed=seed,
        profile={OUTCOME: tuple(profile)} if len(profile) else {},
    )


def trial_log(protocol: Protocol, noise: Array, effect: float) -> list[Event]:
    """Return the log of a trial whose runs have this noise, with the orders that the protocol's seed draws.

    Values are times: the score is minus their logarithm.
    """
    log: list[Event] = [protocol]
    blocks = len(noise) // 2
    for block in range(1, blocks + 1):
        order = block_order(protocol.seed, block, (CONTROL, ARM))
        log.append(BlockDrawn(block=block, order=order))
        for place, arm in enumerate(order):
            number = 2 * (block - 1) + place
            value = math.exp(-(float(noise[number]) + (effect if arm == ARM else 0.0)))
            log.append(RunEnded(run=number + 1, block=block, arm=arm, measurements={OUTCOME: value}))
    return log


def differences_of(log: Sequence[Event], noise: Array, effect: float) -> Array:
    """Return the block differences of this log, computed directly from its noise."""
    found = []
    for event in log:
        if isinstance(event, BlockDrawn):
            first, second = noise[2 * event.block - 2], noise[2 * event.block - 1]
            found.append((second - first if event.order[0] == CONTROL else first - second) + effect)
    return np.array(found)
