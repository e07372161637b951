# SPDX-License-Identifier: Apache-2.0
"""Changes of level: against a published one, against all partitions and all orders, and on noise alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.datasets import nile  # type: ignore[import-untyped]

from ktrial.judge.stats.change_points import FEWEST, _best_cuts, change_points


def test_the_nile_at_aswan() -> None:
    """Cobb (1978) and all after him: the flow fell between 1898 and 1899, and that is all."""
    flow = nile.load_pandas().data
    found = change_points(np.log(flow["volume"].to_numpy(dtype=np.float64)))
    assert [int(flow["year"].iloc[one.place]) for one in found] == [1899]
    assert found[0].p == 1 / 2000, "no order of 1,999 has such a step"


def cost(values: np.ndarray, cuts: tuple[int, ...], penalty: float) -> float:
    pieces = np.split(values, cuts)
    return sum(float(np.sum((piece - piece.mean()) ** 2)) for piece in pieces) + penalty * len(cuts)


@given(
    st.lists(st.integers(-5, 5), min_size=6, max_size=11),
    st.sampled_from([0.3, 2.1, 7.7, 30.3]),
)
@settings(max_examples=60, deadline=None)
def test_no_partition_is_cheaper(numbers: list[int], penalty: float) -> None:
    values = np.array(numbers, dtype=np.float64)
    n = len(values)
    every = [
        cuts
        for count in range(n // FEWEST)
        for cuts in itertools.combinations(range(FEWEST, n - FEWEST + 1), count)
        if all(b - a >= FEWEST for a, b in itertools.pairwise(cuts))
    ]
    found = tuple(_best_cuts(values, penalty))
    assert found in every
    assert cost(values, found, penalty) == pytest.approx(min(cost(values, cuts, penalty) for cuts in every))


def test_the_check_is_that_of_all_orders() -> None:
    """Five low values and then five high ones: 2 of the 252 ways to mix them have such a step."""
    low, high = [1.0, 1.01, 0.99, 1.005, 0.995], [2.0, 2.01, 1.99, 2.005, 1.995]
    (found,) = change_points(np.array(low + high))
    assert found.place == 5
    assert found.p == pytest.approx(2 / 252, abs=3 * np.sqrt(2 / 252 / 1999))


def test_two_changes_and_one_value_that_strays() -> None:
    generator = np.random.default_rng(3)
    level = np.repeat([0.0, 0.3, 0.1], 12)
    values = level + generator.normal(0, 0.02, len(level))
    values[6] += 0.5
    assert [one.place for one in change_points(values)] == [12, 24]


@pytest.mark.parametrize("freedom", [2, 30])
def test_noise_has_a_change_as_seldom_as_said(freedom: int) -> None:
    generator = np.random.default_rng(11)
    series = [generator.standard_t(freedom, 24) for _ in range(200)]
    found = sum(bool(change_points(values)) for values in series)
    assert found <= 0.05 * 200 + 2.6 * np.sqrt(200 * 0.05 * 0.95)


def test_a_level_that_was_there_for_a_while() -> None:
    generator = np.random.default_rng(4)
    values = np.repeat([0.0, 1.0, 0.0], 8) + generator.normal(0, 0.2, 24)
    assert [one.place for one in change_points(values)] == [8, 16]


@pytest.mark.parametrize(
    "values", [[], [1.0], [1.0] * 50, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0], [1.0, 2.0] * 10], ids=str
)
def test_nothing_where_nothing_can_be_told(values: list[float]) -> None:
    assert change_points(np.array(values, dtype=np.float64)) == ()


@pytest.mark.parametrize("factor, shift", [(-1.0, 0.0), (1e-9, 0.0), (1.0, 1000.0)])
def test_the_unit_does_not_matter(factor: float, shift: float) -> None:
    generator = np.random.default_rng(5)
    values = np.repeat([0.0, 1.0], 10) + generator.normal(0, 0.1, 20)
    assert [one.place for one in change_points(values * factor + shift)] == [10]
