# SPDX-License-Identifier: Apache-2.0
"""Pairwise comparisons of arms, all pairs or each with the control, with one error rate for all."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ktrial.judge.model.comparison import Pair, Pairwise
from ktrial.judge.model.verdict import Effect
from ktrial.judge.observational_layout import Scale
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.factors import Model
from ktrial.kit.startup import load_special

special = load_special()

#: The resolution of 1 - P; a smaller p is reported as this.
SMALLEST = 1e-15
_STEP = 0.2
_NODES: Array = np.arange(-8.6, 8.6 + _STEP / 2, _STEP)
_DENSITY: Array = np.exp(-(_NODES**2) / 2) * (_STEP / math.sqrt(2 * math.pi))
_BELOW: Array = np.asarray(special.ndtr(_NODES), dtype=np.float64)


@functools.lru_cache(maxsize=512)
def _deviations(freedom: float) -> tuple[Array, Array]:
    """Return nodes and weights of the distribution of estimated over true standard deviation."""
    from scipy import optimize

    def decline(u: float) -> float:
        return freedom * (u - math.exp(2 * u) / 2 + 0.5) + 40

    low = optimize.brentq(decline, -41 / freedom - 1, 0)
    high = optimize.brentq(decline, 0, math.sqrt(40 / freedom) + 1e-9)
    step = min(0.25 / math.sqrt(freedom), 0.08)
    nodes = np.arange(low, high + step, step)
    logs = freedom * (nodes - np.exp(2 * nodes) / 2)
    weights = np.exp(logs - logs.max())
    return np.exp(nodes), weights / weights.sum()


def range_sf(q: Sequence[float], arms: int, freedom: float) -> Array:
    """Return P(studentised range of `arms` means > q) for each q."""
    deviations, weights = _deviations(freedom)
    found = np.empty(len(q))
    for index, value in enumerate(q):
        shifted = special.ndtr(_NODES[np.newaxis, :] - value * deviations[:, np.newaxis])
        inside = (_BELOW - shifted) ** (arms - 1) @ _DENSITY
        found[index] = 1 - arms * float(inside @ weights)
    return np.clip(found, SMALLEST, 1.0)


def dunnett_sf(t: Sequence[float], n_control: int, n_arms: Sequence[int], freedom: float) -> Array:
    """Return for each t the probability that the largest |t| of all arms against one control exceeds it."""
    deviations, weights = _deviations(freedom)
    found = np.empty(len(t))
    for index, value in enumerate(t):
        inside = np.ones((len(deviations), len(_NODES)))
        for size, count in {size: list(n_arms).count(size) for size in n_arms}.items():
            share = size / (size + n_control)
            centre = math.sqrt(share / (1 - share)) * _NODES[np.newaxis, :]
            reach = abs(value) * deviations[:, np.newaxis] / math.sqrt(1 - share)
            inside *= (special.ndtr(centre + reach) - special.ndtr(centre - reach)) ** count
        found[index] = 1 - float(inside @ _DENSITY @ weights)
    return np.clip(found, SMALLEST, 1.0)


@functools.lru_cache(maxsize=512)
def range_quantile(arms: int, freedom: float, alpha: float) -> float:
    """Return the q that the studentised range of `arms` means exceeds with probability alpha."""
    return _root(lambda q: float(range_sf([q], arms, freedom)[0]) - alpha)


@functools.lru_cache(maxsize=512)
def dunnett_quantile(n_control: int, n_arms: tuple[int, ...], freedom: float, alpha: float) -> float:
    """Return the t that the largest |t| of all arms against one control exceeds with probability `alpha`."""
    return _root(lambda t: float(dunnett_sf([t], n_control, n_arms, freedom)[0]) - alpha)


def _root(excess: Callable[[float], float]) -> float:
    from scipy import optimize

    high = 8.0
    while excess(high) > 0 and high < 1e6:
        high *= 2
    return float(optimize.brentq(excess, 0.0, high, xtol=1e-12))


def tukey(model: Model, arms: Sequence[str], scale: Scale, alpha: float) -> Pairwise | None:
    """Return comparisons of all pairs, using the noise of the whole analysis; None without means or noise.

    For unequal arms this is Tukey-Kramer.
    """
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
    """Return comparisons of all pairs, using the noise of each pair; None if an arm has only one run or no spread."""
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
    """Return comparisons of each arm with the control, using the noise of all arms.

    Return None without noise or degrees of freedom.
    """
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
