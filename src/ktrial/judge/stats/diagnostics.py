# SPDX-License-Identifier: Apache-2.0
"""What runs look like beside their middle: drift, dependence, two modes, steps, and what t-tests assume."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from ktrial.judge.model.comparison import Check
from ktrial.judge.stats.arrays import Array
from ktrial.kit.startup import load_special

special = load_special()

#: Of longer series so many runs, evenly spaced, tell the drift.
DRIFT_RUNS = 400


def normality(name: str, values: Array) -> Check | None:
    """Shapiro-Wilk; None below 3 values, where all are equal, and above 5,000."""
    if not 3 <= len(values) <= 5000 or np.ptp(values) <= 1e-12 * np.max(np.abs(values)):
        return None
    from scipy import stats  # takes longer to import than a comparison to make

    p = float(stats.shapiro(values).pvalue)
    seen = "do not look normal" if p < 0.05 else "may well be normal"
    return Check(
        name=f"normality of {name}", holds=p >= 0.05, value=p, sentence=f"{name} {seen} (Shapiro-Wilk p = {p:.2g})"
    )


def equal_variance(groups: Sequence[Array]) -> Check | None:
    """Levene's test about medians; None if no group varies or one is too small."""
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
    """Change of the score from one run to the next within arms, and the chance that there is none."""

    slope: float
    p: float


def drift(series: Sequence[tuple[Array, Array]]) -> Drift | None:
    """Theil-Sen and Kendall over (places, scores) of each arm by itself, so that a difference of arms is no drift."""
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
    """Of each run with the next, in order, after the arms' medians are taken away; one of several `looks`."""
    if len(residuals) < 8:
        return None
    centred = residuals - residuals.mean()
    total = float(centred @ centred)
    if total <= 0:
        return None
    r = float(centred[1:] @ centred[:-1]) / total
    limit = float(special.ndtri(1 - 0.025 / looks)) / math.sqrt(len(residuals))
    seen = "are alike" if r > limit else "are not alike beyond chance"
    sentence = f"{what} that follow each other {seen} (lag-1 autocorrelation {r:.2f}, limit {limit:.2f})"
    return Check(name="independent runs", holds=r <= limit, value=r, sentence=sentence)


def coarse(values: Array, resolution: float | None) -> bool:
    """Return whether the tool's steps hide what is measured: many runs on few values, or a step above the spread."""
    if len(values) < 6:
        return False
    if resolution is not None and resolution > float(values.std(ddof=1)):
        return True
    return len(np.unique(values)) <= len(values) / 2
