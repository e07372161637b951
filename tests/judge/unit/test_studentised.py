# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.stats.pairs import dunnett_quantile, dunnett_sf, range_quantile, range_sf


@pytest.mark.parametrize("arms, freedom", [(2, 1.5), (3, 6), (4, 36), (10, 3.7), (30, 2), (5, 1000)])
def test_the_range_is_that_of_scipy(arms: int, freedom: float) -> None:
    q = [0.3, 3.2, 8.0]
    assert range_sf(q, arms, freedom) == pytest.approx(stats.studentized_range.sf(q, arms, freedom), abs=1e-9)


@pytest.mark.parametrize("arms, freedom, published", [(3, 12, 3.77), (4, 20, 3.96), (10, 10, 5.60), (2, 5, 3.64)])
def test_its_quantiles_are_those_of_printed_tables(arms: int, freedom: int, published: float) -> None:
    assert range_quantile(arms, freedom, 0.05) == pytest.approx(published, abs=0.005)


def test_no_difference_is_reached_by_all_and_a_huge_one_by_none() -> None:
    assert range_sf([0.0, 1e6], 4, 10) == pytest.approx([1.0, 0.0], abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 5, 40])
def test_dunnett_with_one_arm_is_students_t(freedom: int) -> None:
    assert dunnett_sf([2.1], 7, [5], freedom)[0] == pytest.approx(2 * stats.t.sf(2.1, freedom), abs=1e-9)


@pytest.mark.parametrize("sizes, freedom", [((6, 6), 10), ((4, 9, 20), 8), ((5,) * 6, 30)])
def test_dunnetts_maximum_is_that_of_a_multivariate_t(sizes: tuple[int, ...], freedom: int) -> None:
    shares = np.sqrt([size / (size + 7) for size in sizes])
    related = np.outer(shares, shares)
    np.fill_diagonal(related, 1.0)
    t = dunnett_quantile(7, sizes, freedom, 0.05)
    reach = np.full(len(sizes), t)
    inside = stats.multivariate_t(shape=related, df=freedom, seed=5).cdf(reach, lower_limit=-reach, maxpts=200_000)
    assert inside == pytest.approx(0.95, abs=2e-4)
