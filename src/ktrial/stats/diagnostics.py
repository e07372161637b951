# SPDX-License-Identifier: Apache-2.0
"""What runs look like beside their middle: drift, dependence, two modes, steps, and what t-tests assume."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from scipy import special, stats

from ktrial.domain.comparison import Check
from ktrial.stats.arrays import Array

#: Of longer series so many runs, evenly spaced, tell the drift.
DRIFT_RUNS = 400
#: Two modes are told from one by this much, with their middles so many standard deviations apart.
BIC_GAIN = 10.0
MODE_GAP = 3.0
MODE_RUNS = 10


def normality(name: str, values: Array) -> Check | None:
    """Shapiro-Wilk; None below 3 values, where all are equal, and above 5,000."""
    if not 3 <= len(values) <= 5000 or np.ptp(values) <= 1e-12 * np.max(np.abs(values)):
        return None
    p = float(stats.shapiro(values).pvalue)
    seen = "do not look normal" if p < 0.05 else "may well be normal"
    return Check(
        name=f"normality of {name}", holds=p >= 0.05, value=p, sentence=f"{name} {seen} (Shapiro-Wilk p = {p:.2g})"
    )


def equal_variance(groups: Sequence[Array]) -> Check | None:
    """Levene's test about medians; None where no group varies or one is too small."""
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


def autocorrelation(residuals: Array) -> Check | None:
    """Of each run with the next, in order, after the arms' medians are taken away."""
    if len(residuals) < 8:
        return None
    centred = residuals - residuals.mean()
    total = float(centred @ centred)
    if total <= 0:
        return None
    r = float(centred[1:] @ centred[:-1]) / total
    limit = float(special.ndtri(0.975)) / math.sqrt(len(residuals))
    seen = "are alike" if r > limit else "are not alike beyond chance"
    sentence = f"runs that follow each other {seen} (lag-1 autocorrelation {r:.2f}, limit {limit:.2f})"
    return Check(name="independent runs", holds=r <= limit, value=r, sentence=sentence)


def two_modes(groups: Mapping[str, Array]) -> dict[str, float]:
    """Share of runs in the lower-scored mode, of each arm whose scores have two."""
    found = {}
    for arm, scores in groups.items():
        if len(scores) >= MODE_RUNS and (split := _best_split(np.sort(scores))) is not None:
            share = _two_normals(np.sort(scores), split)
            if share is not None:
                found[arm] = share
    return found


def _best_split(ordered: Array) -> int | None:
    """Where two groups differ most; None where they cannot be two modes even if no run were in doubt."""
    n = len(ordered)
    cuts = np.arange(2, n - 1)
    centred = ordered - ordered.mean()
    sums, squares = np.cumsum(centred)[cuts - 1], np.cumsum(centred**2)[cuts - 1]
    left, right = sums / cuts, -sums / (n - cuts)
    within = squares - cuts * left**2 + float(centred @ centred) - squares - (n - cuts) * right**2
    best = int(np.argmin(within))
    spread = max(math.sqrt(max(float(within[best]), 0.0) / n), 1e-3 * float(centred.std()))
    if float(right[best] - left[best]) <= MODE_GAP * spread:
        return None
    # What two modes gain when each run belongs to one for certain; the mixture gains little more where they are apart.
    share = float(cuts[best]) / n
    sure = n * (share * math.log(share) + (1 - share) * math.log(1 - share)) - n * math.log(spread / centred.std())
    return int(cuts[best]) if 2 * sure - 2 * math.log(n) > 0 else None


def _two_normals(ordered: Array, split: int) -> float | None:
    """Expectation-maximisation with one spread for both modes; the lower one's share where two beat one."""
    n = len(ordered)
    spread_of_one = max(float(ordered.std()), 1e-300)
    floor = 1e-3 * spread_of_one
    weight = (np.arange(n) < split).astype(np.float64)
    share = spread = low = high = 0.0
    logs = np.zeros(n)
    for _ in range(200):
        share = float(weight.mean())
        low = float(weight @ ordered) / (share * n)
        high = float((1 - weight) @ ordered) / ((1 - share) * n)
        within = float(weight @ (ordered - low) ** 2 + (1 - weight) @ (ordered - high) ** 2)
        spread = max(math.sqrt(within / n), floor)
        of_low = math.log(share) - ((ordered - low) / spread) ** 2 / 2
        of_high = math.log(1 - share) - ((ordered - high) / spread) ** 2 / 2
        logs = np.logaddexp(of_low, of_high)
        updated = np.exp(of_low - logs)
        if np.max(np.abs(updated - weight)) < 1e-9 or not 1 / n <= updated.mean() <= 1 - 1 / n:
            break
        weight = updated
    two = float(logs.sum()) - n * math.log(spread)
    one = -n * math.log(spread_of_one) - n / 2
    gain = 2 * (two - one) - 2 * math.log(n)
    return share if gain > BIC_GAIN and abs(high - low) > MODE_GAP * spread else None


def coarse(values: Array, resolution: float | None) -> bool:
    """Whether the tool's steps hide what is measured: many runs on few values, or a step above the spread."""
    if len(values) < 6:
        return False
    if resolution is not None and resolution > float(values.std(ddof=1)):
        return True
    return len(np.unique(values)) <= len(values) / 2
