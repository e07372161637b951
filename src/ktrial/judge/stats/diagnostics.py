# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of runs: drift, dependence, coarse values, and the assumptions of t-tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from ktrial.judge.model.comparison import Check
from ktrial.judge.stats.arrays import Array
from ktrial.kit.startup import load_special

special = load_special()

#: The drift of a longer series is computed from this many evenly spaced runs.
DRIFT_RUNS = 400


def normality(name: str, values: Array) -> Check | None:
    """Return the Shapiro-Wilk test; None for fewer than 3 values, more than 5,000 values, or equal values."""
    if not 3 <= len(values) <= 5000 or np.ptp(values) <= 1e-12 * np.max(np.abs(values)):
        return None
    from scipy import stats  # its import takes longer than a comparison

    p = float(stats.shapiro(values).pvalue)
    seen = "do not look normal" if p < 0.05 else "may well be normal"
    return Check(
        name=f"normality of {name}", holds=p >= 0.05, value=p, sentence=f"{name} {seen} (Shapiro-Wilk p = {p:.2g})"
    )


def equal_variance(groups: Sequence[Array]) -> Check | None:
    """Return Levene's test around medians; None for a single group, if a group is too small, or if no group varies."""
    if len(groups) < 2 or min(len(group) for group in groups) < 3:
        return None
    deviations = [np.abs(group - np.median(group)) for group in groups]
    count, means = sum(len(group) for group in groups), [float(d.mean()) for d in deviations]
    middle = sum(float(d.sum()) for d in deviations) / count
    within = sum(float(np.sum((d - mean) ** 2)) for d, mean in zip(deviations, means, strict=True))
    between = sum(len(d) * (mean - middle) ** 2 for d, mean in zip(deviations, means, strict=True))
    if within <= 0:
        return None
    freedom = count - len(groups)
    p = float(special.fdtrc(len(groups) - 1, freedom, between / (len(groups) - 1) / (within / freedom)))
    seen = "may well be equal" if p >= 0.05 else "differ"
    return Check(name="equal spread", holds=p >= 0.05, value=p, sentence=f"spreads {seen} (Levene p = {p:.2g})")


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The change of the score from one run to the next within arms, and its p."""

    slope: float
    p: float


def drift(series: Sequence[tuple[Array, Array]]) -> Drift | None:
    """Return drift by Theil-Sen and Kendall over the (places, scores) of each arm; None if no arm has three runs.

    Only runs of the same arm are compared.
    """
    alike: dict[int, list[tuple[Array, Array]]] = {}
    for places, scores in series:
        if len(places) > DRIFT_RUNS:
            kept = np.linspace(0, len(places) - 1, DRIFT_RUNS).astype(np.int64)
            alike.setdefault(DRIFT_RUNS, []).append((places[kept], scores[kept]))
        elif len(places) > 2:
            alike.setdefault(len(places), []).append((places, scores))
    slopes: list[Array] = []
    surplus = variance = 0.0
    for runs, members in alike.items():
        first, second = np.triu_indices(runs, 1)
        places, scores = np.array([place for place, _ in members]), np.array([score for _, score in members])
        found = (scores[:, second] - scores[:, first]) / (places[:, second] - places[:, first])
        slopes.append(found.ravel())
        surplus += float(np.sign(found).sum())
        variance += len(members) * runs * (runs - 1) * (2 * runs + 5) / 18
    if not slopes:
        return None
    p = 2 * float(special.ndtr(-max(abs(surplus) - 1, 0) / math.sqrt(variance)))
    return Drift(slope=float(np.median(np.concatenate(slopes))), p=min(p, 1.0))


def autocorrelation(residuals: Array, what: str = "runs", *, looks: int = 1) -> Check | None:
    """Return the check of lag-1 autocorrelation; `residuals` are the runs' scores minus the median of their arm.

    `residuals` must be in the order of the runs. The limit is corrected for `looks` checks. Return None for fewer than
    8 runs, or if all residuals are equal.
    """
    if len(residuals) < 8:
        return None
    centred = residuals - residuals.mean()
    total = float(centred @ centred)
    if total <= 0:
        return None
    r = float(centred[1:] @ centred[:-1]) / total
    limit = float(special.ndtri(1 - 0.025 / looks)) / math.sqrt(len(residuals))
    seen = "are alike" if r > limit else "are not more alike than by chance"
    sentence = f"consecutive {what} {seen} (lag-1 autocorrelation {r:.2f}, limit {limit:.2f})"
    return Check(name="independent runs", holds=r <= limit, value=r, sentence=sentence)


def coarse(values: Array, resolution: float | None) -> bool:
    """Return whether the tool is too coarse: many runs share few values, or a step exceeds the spread."""
    if len(values) < 6:
        return False
    if resolution is not None and resolution > float(values.std(ddof=1)):
        return True
    return len(np.unique(values)) <= len(values) / 2
