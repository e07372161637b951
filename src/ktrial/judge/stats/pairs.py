# SPDX-License-Identifier: Apache-2.0
"""Which arms differ, of all pairs or from the control, with one error rate for all of them together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ktrial.judge.model.comparison import Pair, Pairwise
from ktrial.judge.model.verdict import Effect
from ktrial.judge.observational_layout import Scale
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.factors import Model
from ktrial.judge.stats.studentised import dunnett_quantile, dunnett_sf, range_quantile, range_sf


def tukey(model: Model, arms: Sequence[str], scale: Scale, alpha: float) -> Pairwise | None:
    """All pairs against the noise of the whole analysis (Tukey-Kramer where arms are unequal); None without noise."""
    if model.means is None or model.noise <= 0:
        return None
    pairs = list(itertools.combinations(range(len(arms)), 2))
    differences = np.array([model.means[j] - model.means[i] for i, j in pairs])
    errors = np.array([math.sqrt(model.noise / 2 * (1 / model.sizes[i] + 1 / model.sizes[j])) for i, j in pairs])
    q = np.abs(differences) / errors
    p = range_sf(q.tolist(), len(arms), model.freedom)
    reach = range_quantile(len(arms), model.freedom, alpha) * errors
    return _pairwise("Tukey HSD", "Q", [(arms[i], arms[j]) for i, j in pairs], (differences, reach, q, p), scale, alpha)


def games_howell(groups: Sequence[Array], arms: Sequence[str], scale: Scale, alpha: float) -> Pairwise | None:
    """All pairs, each against its own noise; None where an arm has no spread."""
    if min(len(group) for group in groups) < 2:
        return None
    shares = [float(np.var(group, ddof=1)) / len(group) for group in groups]
    if min(shares) <= 0:
        return None
    pairs = list(itertools.combinations(range(len(arms)), 2))
    differences = np.array([groups[j].mean() - groups[i].mean() for i, j in pairs])
    errors = np.array([math.sqrt((shares[i] + shares[j]) / 2) for i, j in pairs])
    freedom = [
        (shares[i] + shares[j]) ** 2 / (shares[i] ** 2 / (len(groups[i]) - 1) + shares[j] ** 2 / (len(groups[j]) - 1))
        for i, j in pairs
    ]
    q = np.abs(differences) / errors
    p = np.array([range_sf([value], len(arms), df)[0] for value, df in zip(q.tolist(), freedom, strict=True)])
    reach = np.array([range_quantile(len(arms), df, alpha) for df in freedom]) * errors
    names = [(arms[i], arms[j]) for i, j in pairs]
    return _pairwise("Games-Howell", "Q", names, (differences, reach, q, p), scale, alpha)


def dunnett(groups: Sequence[Array], arms: Sequence[str], control: str, scale: Scale, alpha: float) -> Pairwise | None:
    """Each arm against the control, against the noise of all arms together; None without noise."""
    freedom = sum(len(group) for group in groups) - len(groups)
    if freedom < 1:
        return None
    noise = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups) / freedom
    if noise <= 0:
        return None
    base = groups[list(arms).index(control)]
    others = [(arm, group) for arm, group in zip(arms, groups, strict=True) if arm != control]
    sizes = tuple(len(group) for _, group in others)
    differences = np.array([group.mean() - base.mean() for _, group in others])
    errors = np.array([math.sqrt(noise * (1 / size + 1 / len(base))) for size in sizes])
    t = np.abs(differences) / errors
    p = dunnett_sf(t.tolist(), len(base), sizes, freedom)
    reach = dunnett_quantile(len(base), tuple(sorted(sizes)), freedom, alpha) * errors
    return _pairwise("Dunnett", "t", [(control, arm) for arm, _ in others], (differences, reach, t, p), scale, alpha)


def _pairwise(
    method: str,
    statistic: str,
    names: Sequence[tuple[str, str]],
    numbers: tuple[Array, Array, Array, Array],
    scale: Scale,
    alpha: float,
) -> Pairwise:
    pairs = []
    for (first, second), difference, reach, value, p in zip(names, *(row.tolist() for row in numbers), strict=True):
        effect = Effect(
            estimate=difference,
            low=difference - reach,
            high=difference + reach,
            confidence=1 - alpha,
            scale=scale,
            method=f"difference of means, {method}",
        )
        differs = p <= alpha
        pairs.append(Pair(first=first, second=second, effect=effect, statistic=value, p_adjusted=p, differs=differs))
    return Pairwise(method=method, statistic=statistic, pairs=tuple(pairs))
