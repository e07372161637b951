# SPDX-License-Identifier: Apache-2.0
"""The effect after correction for a covariate that may explain it (the start temperature)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ktrial.judge.model.verdict import Effect
from ktrial.judge.observational_layout import Layout, Scale
from ktrial.judge.stats.arrays import Array
from ktrial.kit.startup import load_special

special = load_special()

#: What `Observation.covariate` measures.
NAME = "start temperature"


def adjusted(layout: Layout, scale: Scale, alpha: float) -> Effect | None:
    """Return the effect at equal covariates, by regression.

    Return None if a covariate is unknown or does not vary, or if there are too few units.
    """
    if layout.covariates is None:
        return None
    control, arm = layout.covariates
    if layout.blocked:
        return _of_differences(layout.arm - layout.control, arm - control, scale, alpha)
    return _of_arms(layout, control, arm, scale, alpha)


def _of_arms(layout: Layout, control: Array, arm: Array, scale: Scale, alpha: float) -> Effect | None:
    """Fit score = arm + slope * covariate, with one slope for both arms.

    Return None for too few units, or if the covariate does not vary within arms.
    """
    x = np.concatenate([control - control.mean(), arm - arm.mean()])
    y = np.concatenate([layout.control - layout.control.mean(), layout.arm - layout.arm.mean()])
    freedom, spread = len(x) - 3, float(x @ x)
    if freedom < 1 or spread <= 1e-12 * float(np.sum(control**2) + np.sum(arm**2)):
        return None
    slope = float(x @ y) / spread
    apart = float(arm.mean() - control.mean())
    estimate = float(layout.arm.mean() - layout.control.mean()) - slope * apart
    variance = float(np.sum((y - slope * x) ** 2)) / freedom
    error = math.sqrt(variance * (1 / len(control) + 1 / len(arm) + apart**2 / spread))
    return _effect(estimate, error, freedom, scale, alpha)


class Regression(NamedTuple):
    """The effect where the covariates of both arms are equal, with its standard error, and a slope per covariate."""

    estimate: float
    error: float
    freedom: int
    slopes: Array


def regress_differences(differences: Array, apart: Array) -> Regression | None:
    """Fit difference of scores = effect + slopes * differences of covariates (one column each).

    Return None if there are too few blocks, or if a covariate never varies or varies only together with others.
    """
    x, freedom = apart - apart.mean(axis=0), len(apart) - 1 - apart.shape[1]
    if freedom < 1:
        return None
    sizes = np.maximum((apart**2).sum(axis=0), 1e-300)
    if (np.linalg.svd(x / np.sqrt(sizes), compute_uv=False) ** 2 <= 1e-12).any():
        return None
    within = np.linalg.inv(x.T @ x)
    slopes = within @ (x.T @ differences)
    residuals = differences - differences.mean() - x @ slopes
    variance = float(residuals @ residuals) / freedom
    middle = apart.mean(axis=0)
    error = math.sqrt(variance * (1 / len(x) + float(middle @ within @ middle)))
    return Regression(float(differences.mean() - slopes @ middle), error, freedom, slopes)


def _of_differences(differences: Array, apart: Array, scale: Scale, alpha: float) -> Effect | None:
    found = regress_differences(differences, apart[:, np.newaxis])
    return None if found is None else _effect(found.estimate, found.error, found.freedom, scale, alpha)


def _effect(estimate: float, error: float, freedom: int, scale: Scale, alpha: float) -> Effect:
    reach = float(special.stdtrit(freedom, 1 - alpha / 2)) * error
    return Effect(
        estimate=estimate,
        low=estimate - reach,
        high=estimate + reach,
        confidence=1 - alpha,
        scale=scale,
        method="least squares with covariate",
    )
