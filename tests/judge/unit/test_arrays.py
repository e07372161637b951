# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.stats.arrays import STEP, find_sorted, mean_ranks, steps, without_dust


def test_steps_cover_all_rows_and_stay_below_the_limit() -> None:
    parts = list(steps(1000, 10_000))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(1000))
    assert max(part.stop - part.start for part in parts) * 10_000 <= STEP
    assert len(list(steps(3, 10 * STEP))) == 3


def test_what_differs_by_rounding_only_is_a_tie() -> None:
    row = np.log([[2.0, 4.0, 6.0]]) - np.log([[1.0, 2.0, 3.0]])
    assert len(np.unique(without_dust(row))) == 1
    assert len(np.unique(without_dust(np.array([[1.0, 1.0 + 1e-9]])))) == 2
    assert not without_dust(np.zeros((1, 3))).any()


def test_a_position_is_found_without_sorting() -> None:
    values = np.sort(np.random.default_rng(3).normal(size=501))
    for position in (0, 1, 250, 500):
        found = find_sorted(lambda value: int(np.sum(values <= value)), position, values[0] - 1, values[-1])
        assert abs(found - values[position]) < 1e-12


@pytest.mark.parametrize("rows, columns, kinds", [(1, 1, 1), (3, 1, 2), (50, 7, 3), (50, 12, 1000), (4, 9, 1)])
def test_ranks_are_those_of_scipy(rows: int, columns: int, kinds: int) -> None:
    values = np.random.default_rng(rows + columns).integers(0, kinds, (rows, columns)).astype(np.float64)
    assert (mean_ranks(values) == stats.rankdata(values, axis=1)).all()


def test_ranks_by_hand() -> None:
    assert mean_ranks(np.array([[5.0, 2.0, 5.0, 9.0]])).tolist() == [[2.5, 1.0, 2.5, 4.0]]
