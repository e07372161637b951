# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

from ktrial.judge.other_roles import holm_over_tables

p_values = pytest.mark.parametrize(
    "values",
    [
        [0.03],
        [0.01, 0.04, 0.03, 0.005],
        [0.02, 0.02, 0.02, 1.0, 0.0],
        [0.0125, 0.012, 0.6, 0.0126, 0.05, 0.2, 0.001],
    ],
)


@p_values
def test_holm_over_tables_is_holm_where_a_table_is_a_p(values: list[float]) -> None:
    """Reading a member at row r is comparing its p with 0.05/r: then the known method must come out."""
    found = holm_over_tables(len(values), lambda member, row: "found" if values[member] <= 0.05 / row else None)
    assert [one is not None for one in found] == list(multipletests(values, method="holm")[0])


def test_each_one_found_lets_the_rest_be_read_wider() -> None:
    rows: list[tuple[int, int]] = []

    def read(member: int, row: int) -> str | None:
        rows.append((member, row))
        return "x" if row <= (3, 2, 0)[member] else None

    assert holm_over_tables(3, read) == ("x", "x", None)
    assert rows == [(0, 3), (1, 3), (2, 3), (1, 2), (2, 2), (2, 1)]
