# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]

from ktrial.judge.sequential import Array
from ktrial.judge.stats.signflip import sign_flip_p
from ktrial.live.covariates import adjust_effect


def blocks(seed: int, count: int, effect: float, sd: float = 0.02) -> tuple[Array, dict[str, Array]]:
    """Differences of blocks whose load and temperature differ by chance, and matter."""
    generator = np.random.default_rng(seed)
    load, heat = generator.normal(0, 0.2, count), generator.normal(0, 2.0, count)
    return effect - 0.5 * load + 0.02 * heat + generator.normal(0, sd, count), {"load": load, "heat": heat}


def test_adjusted_and_raw_stand_side_by_side() -> None:
    differences, apart = blocks(1, 20, 0.03)
    found = adjust_effect(differences, apart)
    assert found is not None
    assert found.raw.estimate == pytest.approx(differences.mean())
    assert found.raw_p == sign_flip_p(differences)
    assert found.raw_p > 0.05
    assert found.adjusted_p < 0.001
    low, high = found.adjusted.low, found.adjusted.high
    assert low is not None
    assert high is not None
    assert 0 < low < 0.03 < high < 0.05
    assert found.slopes["load"] == pytest.approx(-0.5, abs=0.1)
    assert found.findings == ()


def test_the_estimate_is_that_of_statsmodels() -> None:
    differences, apart = blocks(2, 12, 0.03)
    found = adjust_effect(differences, apart)
    design = np.column_stack((np.ones(12), apart["load"], apart["heat"]))
    expected = OLS(differences, design).fit()
    assert found is not None
    assert found.adjusted.estimate == pytest.approx(expected.params[0])
    assert list(found.slopes.values()) == pytest.approx(expected.params[1:])


def test_p_is_the_share_of_all_orders_with_a_t_as_large() -> None:
    differences, apart = blocks(3, 7, 0.02)
    found = adjust_effect(differences, apart)
    rivals = np.column_stack([*apart.values()])
    sizes = []
    for pattern in itertools.product((1.0, -1.0), repeat=7):
        signs = np.array(pattern)
        design = np.column_stack((np.ones(7), rivals * signs[:, None]))
        sizes.append(abs(float(OLS(differences * signs, design).fit().tvalues[0])))
    assert found is not None
    assert found.adjusted_p == pytest.approx(np.mean(np.array(sizes) >= sizes[0] - 1e-9))


def test_no_effect_is_seldom_claimed() -> None:
    """At 5 %, more than 8 of 80 are rarer than 1 in 60."""
    answers = [adjust_effect(*blocks(seed, 8, 0.0)) for seed in range(80)]
    assert sum(one is not None and one.adjusted_p <= 0.05 for one in answers) <= 8


def test_a_covariate_that_the_arm_changes_is_a_doubt() -> None:
    differences, apart = blocks(4, 20, 0.03)
    found = adjust_effect(differences, {**apart, "load": apart["load"] + 0.5})
    assert found is not None
    (finding,) = found.findings
    assert finding.kind == "covariate-changed"
    assert finding.sentence.startswith("the arm changes load (p = ")


def test_covariates_that_say_nothing_leave_no_adjusted_effect() -> None:
    differences, apart = blocks(5, 20, 0.03)
    assert adjust_effect(differences, {"constant": np.ones(20)}) is None
    assert adjust_effect(differences, {"load": apart["load"], "again": 2 * apart["load"]}) is None
    assert adjust_effect(differences[:3], {name: row[:3] for name, row in apart.items()}) is None
