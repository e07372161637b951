# SPDX-License-Identifier: Apache-2.0
"""Procedures of other tools and people, on the same simulated runs, with which `perf/decide` compares the judge.

Each takes rows of log scores (one trial per row, runs in order of time), the log effect of the arm and a generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ktrial.judge.stats.blocked import critical_rank
from perf.noise_sources import Array, Generator, Rows
from perf.simulated_trials import EQUIVALENT, MARGIN, block_differences, twin

NONE = 9


class Result(NamedTuple):
    """One entry per trial: claim (1, -1, 0 equivalent, 9 none), runs, evidence (larger is more), interval or NaN."""

    claim: Array
    runs: Array
    evidence: Array | None
    low: Array | None
    high: Array | None

    def share(self, *codes: int) -> float:
        return float(np.isin(self.claim, codes).mean())

    def covers(self, truth: float) -> float | None:
        if self.low is None or self.high is None:
            return None
        return float(((self.low <= truth) & (truth <= self.high)).mean())


Procedure = Callable[[Rows, float, Generator], Result]


def _in_sequence(rows: Rows, effect: float, each: int, warm: int = 0) -> tuple[Rows, Rows]:
    """Return all runs of the control, then all runs of the arm; `warm` runs before each are dropped."""
    begin = 2 * warm + each
    return rows[:, warm : warm + each], rows[:, begin : begin + each] + effect


def _alternating(rows: Rows, effect: float, each: int) -> tuple[Rows, Rows]:
    return rows[:, 0 : 2 * each : 2], rows[:, 1 : 2 * each : 2] + effect


def _claims(sure: Any, estimate: Any) -> Array:
    return np.where(sure, np.sign(estimate), NONE)


def _result(claim: Array, runs: float, evidence: Any, low: Any = None, high: Any = None) -> Result:
    bounds = (None if end is None else np.asarray(end, dtype=np.float64) for end in (low, high))
    known = None if evidence is None else np.asarray(evidence, dtype=np.float64)
    return Result(claim, np.full(len(claim), runs), known, *bounds)


def _every(rows: Rows, runs: float) -> Array:
    return np.full(len(rows), runs)


def median_of_four(least: float) -> Procedure:
    """Compare medians of 4 and 4 runs.

    A swing above 25 % is not a result, and neither is a difference below `least`.
    """

    def run(rows: Rows, effect: float, _: Generator) -> Result:
        control, arm = (np.exp(side) for side in _in_sequence(rows, effect, 4))
        estimate = np.log(np.median(arm, 1) / np.median(control, 1))
        swing = np.maximum(np.ptp(control, 1) / np.median(control, 1), np.ptp(arm, 1) / np.median(arm, 1)) > 0.25
        evidence = np.where(swing, 0, np.abs(estimate))
        return _result(_claims(~swing & (np.abs(estimate) > least), estimate), 8, evidence)

    return run


def cv_floor(rows: Rows, effect: float, _: Generator) -> Result:
    """Compare means of 5 and 5 runs; claim a difference above the larger coefficient of variation."""
    control, arm = (np.exp(side) for side in _in_sequence(rows, effect, 5))
    change = arm.mean(1) / control.mean(1) - 1
    floor = np.maximum(*(side.std(1, ddof=1) / side.mean(1) for side in (control, arm)))
    return _result(_claims(np.abs(change) > floor, change), 10, np.abs(change) / floor)


def anova(rows: Rows, effect: float, _: Generator) -> Result:
    """One-way ANOVA of 12 and 12 runs after one warm-up each; for two arms, Tukey's test is the same."""
    control, arm = (np.exp(side) for side in _in_sequence(rows, effect, 12, warm=1))
    difference = arm.mean(1) - control.mean(1)
    error = np.sqrt((control.var(1, ddof=1) + arm.var(1, ddof=1)) / 12)
    p = 2 * stats.t.sf(np.abs(difference) / error, 22)
    half = float(stats.t.ppf(0.975, 22)) * error
    mean = control.mean(1)
    low, high = (np.log1p(np.maximum(end, -0.999 * mean) / mean) for end in (difference - half, difference + half))
    return _result(_claims(p < 0.05, difference), 26, 1 - p, low, high)


def welch(*, alternate: bool) -> Procedure:
    """Welch's t of the logarithms of 10 and 10 runs."""

    def run(rows: Rows, effect: float, _: Generator) -> Result:
        control, arm = (_alternating if alternate else _in_sequence)(rows, effect, 10)
        found = stats.ttest_ind(arm, control, axis=1, equal_var=False)
        ends = found.confidence_interval(0.95)
        estimate = arm.mean(1) - control.mean(1)
        return _result(_claims(found.pvalue < 0.05, estimate), 20, 1 - found.pvalue, ends.low, ends.high)

    return run


def mann_whitney(*, alternate: bool) -> Procedure:
    """The test of benchstat: U of 10 and 10 runs."""

    def run(rows: Rows, effect: float, _: Generator) -> Result:
        control, arm = (_alternating if alternate else _in_sequence)(rows, effect, 10)
        p = stats.mannwhitneyu(arm, control, axis=1, method="asymptotic").pvalue
        estimate = np.median(arm, 1) - np.median(control, 1)
        return _result(_claims(p < 0.05, estimate), 20, 1 - p)

    return run


def hyperfine(rows: Rows, effect: float, _: Generator) -> Result:
    """Claim a difference if hyperfine's summary suggests one: the ratio of mean times less its sd is above 1."""
    control, arm = (np.exp(-side) for side in _in_sequence(rows, effect, 10))
    faster = control.mean(1) / arm.mean(1)
    ratio = np.where(faster >= 1, faster, 1 / faster)
    sd = ratio * np.sqrt(sum((side.std(1, ddof=1) / side.mean(1)) ** 2 for side in (control, arm)))
    return _result(_claims(ratio - sd > 1, faster - 1), 20, (ratio - 1) / sd)


def paired_with_retry(rows: Rows, effect: float, generator: Generator) -> Result:
    """Ten pairs, control always first; up to ten more pairs, one by one, until the paired t is above 2."""
    differences = block_differences(generator, rows[:, :40], effect, fixed=True)
    claim, runs = _every(rows, NONE), _every(rows, 40)
    evidence = np.zeros(len(rows))
    low, high = _every(rows, np.nan), _every(rows, np.nan)
    live = np.ones(len(rows), dtype=bool)
    for pairs in range(10, 21):
        seen = differences[:, :pairs]
        mean, error = seen.mean(1), seen.std(1, ddof=1) / np.sqrt(pairs)
        evidence = np.maximum(evidence, np.abs(mean) / error)
        end = live & ((np.abs(mean) / error > 2) | (pairs == 20))
        claim[end] = np.where(np.abs(mean) / error > 2, np.sign(mean), NONE)[end]
        runs[end], low[end], high[end] = 2 * pairs, (mean - 2 * error)[end], (mean + 2 * error)[end]
        live &= ~end
    return Result(claim, runs, evidence, low, high)


def blocks_t(rows: Rows, effect: float, generator: Generator) -> Result:
    """Paired t-test of 12 random blocks."""
    differences = block_differences(generator, rows[:, :24], effect)
    mean, error = differences.mean(1), differences.std(1, ddof=1) / np.sqrt(12)
    half = float(stats.t.ppf(0.975, 11)) * error
    return _by_interval(mean - half, mean + half, 24, np.abs(mean) / error)


def blocks_bootstrap(rows: Rows, effect: float, generator: Generator, draws: int = 600) -> Result:
    """Percentile bootstrap of the mean of 12 random blocks."""
    differences = block_differences(generator, rows[:, :24], effect)
    means = np.sort(differences[:, generator.integers(0, 12, (draws, 12))].mean(2), 1)
    return _by_interval(means[:, int(0.025 * draws)], means[:, int(0.975 * draws) - 1], 24, None)


def blocks_signed_rank(blocks: int) -> Procedure:
    """One look at a fixed number of random blocks: signed rank with its Hodges-Lehmann interval."""

    def run(rows: Rows, effect: float, generator: Generator) -> Result:
        differences = block_differences(generator, rows[:, : 2 * blocks], effect)
        index = critical_rank(blocks, 0.05)
        assert index is not None
        first, second = np.triu_indices(blocks)
        means = np.sort((differences[:, first] + differences[:, second]) / 2, axis=1)
        positive = (means > 0).sum(1)
        evidence = np.maximum(positive, means.shape[1] - positive) + generator.random(len(rows)) * 1e-3
        return _by_interval(means[:, index], means[:, -1 - index], 2 * blocks, evidence)

    return run


def _by_interval(low: Array, high: Array, runs: int, evidence: Any) -> Result:
    limit = np.log1p(MARGIN)
    inside = (low > -limit) & (high < limit)
    claim = np.where(inside, EQUIVALENT, np.where(low > 0, 1, np.where(high < 0, -1, NONE)))
    return _result(claim.astype(np.float64), runs, evidence, low, high)


def judged(cap: int, profile_of: Callable[[Generator, int], Rows]) -> Procedure:
    """The judge of ktrial (its twin), with a noise profile of ten A/A blocks from another session."""

    def run(rows: Rows, effect: float, generator: Generator) -> Result:
        differences = block_differences(generator, rows[:, : 2 * cap], effect)
        found = twin(differences, cap, profile=profile_of(generator, len(rows)))
        runs = np.asarray(2.0 * found.blocks, dtype=np.float64)
        return Result(found.verdict.astype(np.float64), runs, None, found.low, found.high)

    return run


PEERS: dict[str, Procedure] = {
    "median of 4+4, swing > 25 % flagged": median_of_four(0.0),
    "the same, claims above 5 % only": median_of_four(0.05),
    "CV as noise floor, 5+5": cv_floor,
    "ANOVA/Tukey, 12+12 in sequence": anova,
    "Welch t, 10+10 in sequence": welch(alternate=False),
    "Welch t, 10+10 alternating": welch(alternate=True),
    "Mann-Whitney (benchstat), in sequence": mann_whitney(alternate=False),
    "Mann-Whitney, alternating": mann_whitney(alternate=True),
    "mean ± sd of ratio (hyperfine), 10+10": hyperfine,
    "paired t, retried up to 20 pairs": paired_with_retry,
    "random blocks, 12, paired t": blocks_t,
    "random blocks, 12, bootstrap": blocks_bootstrap,
    "random blocks, 12, signed rank": blocks_signed_rank(12),
    "random blocks, 20, signed rank": blocks_signed_rank(20),
}
