# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]

from ktrial.judge.screening import CAP, FIRST_LOOK, LOOK_EACH, Screening, configuration, design, screen


def screened(effects: dict[int, float], settings: int, seed: int = 1, sd: float = 0.04) -> Screening:
    """A whole screening of settings with these effects on the score."""
    signs = design(settings, seed, CAP)
    truth = np.zeros(settings)
    for place, effect in effects.items():
        truth[place] = effect
    differences = signs @ truth + np.random.default_rng(seed).normal(0, sd, CAP)
    for blocks in range(1, CAP + 1):
        found = screen(signs, differences[:blocks], -1)
        if found.over:
            return found
    raise AssertionError("a screening ends at its cap")


@pytest.mark.parametrize("settings, order", [(1, 2), (3, 4), (7, 8), (8, 16), (31, 32)])
def test_a_deck_measures_all_settings_evenly(settings: int, order: int) -> None:
    """A Hadamard matrix without its first row and column: all columns sum to -1, and so do products of two."""
    signs = design(settings, 5, order - 1).astype(int)
    assert set(np.unique(signs)) <= {-1, 1}
    products = signs.T @ signs
    assert (products[~np.eye(settings, dtype=bool)] == -1).all()
    assert (signs.sum(axis=0) == -1).all()


def test_decks_differ_and_come_from_the_seed() -> None:
    first, again = design(16, 7, 62), design(16, 7, 62)
    assert (first == again).all()
    assert (first[:31] != first[31:]).any()
    assert (design(16, 8, 31) != first[:31]).any()
    assert (configuration(16, 7, 40) == first[39]).all()


def test_the_culprit_is_named_with_its_effect() -> None:
    found = screened({5: -0.05}, 16)
    assert found.named == (5,)
    assert found.effects[0] == pytest.approx(-0.05, abs=0.04)
    both = screened({2: -0.08, 11: -0.09}, 24, seed=3, sd=0.02)
    assert set(both.named) == {2, 11}


def test_nothing_is_named_before_the_first_look_and_between_looks() -> None:
    signs = design(8, 1, 40)
    differences = -1.0 * signs[:, 3] + np.random.default_rng(1).normal(0, 0.01, 40)
    looks = [blocks for blocks in range(1, 41) if screen(signs, differences[:blocks], -1).named]
    assert looks == list(range(FIRST_LOOK, 41, LOOK_EACH))


def test_the_wrong_direction_is_not_named() -> None:
    signs = design(8, 1, CAP)
    differences = 0.2 * signs[:, 3] + np.random.default_rng(1).normal(0, 0.02, CAP)
    assert screen(signs, differences, -1) == Screening((), (), CAP, over=True)
    assert screen(signs, differences, 1).named == (3,)
    assert screen(signs, differences, 0).named == (3,)


def test_effects_of_opposite_sign_hide_nothing() -> None:
    signs = design(16, 1, CAP)
    differences = signs[:, 3] * 0.1 - signs[:, 9] * 0.1 + np.random.default_rng(1).normal(0, 0.02, CAP)
    assert set(screen(signs, differences, 0).named[:2]) == {3, 9}


def test_false_names_are_rare() -> None:
    named = sum(bool(screened({}, 16, seed).named) for seed in range(200))
    # 16 looks at 2 %, much of the same data: well below 16 times as much.
    assert named <= 30


def test_coefficients_are_those_of_statsmodels() -> None:
    signs = design(8, 2, 24)
    noise = np.random.default_rng(2).normal(0, 0.01, 24)
    differences = (signs @ np.array([0, -0.1, 0, 0, -0.2, 0, 0, 0]) + noise).tolist()
    found = screen(signs, differences, -1)
    assert set(found.named) == {1, 4}
    fit = OLS(differences, signs[:, list(found.named)].astype(float)).fit()
    assert found.effects == pytest.approx(fit.params, abs=1e-12)


def test_noise_without_any_spread_is_no_accident() -> None:
    signs = design(4, 1, 12)
    assert screen(signs, (-0.1 * signs[:, 2]).tolist(), -1).named[0] == 2
    assert screen(signs, np.zeros(12), -1).named == ()
