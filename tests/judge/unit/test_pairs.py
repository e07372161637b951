# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.factors import Model, one_way, two_way
from ktrial.judge.stats.pairs import dunnett, games_howell, tukey


def arrays(*groups: tuple[float, ...]) -> list[Array]:
    return [np.array(group, dtype=np.float64) for group in groups]


#: Relief by three brands, and the intervals that SAS prints for them: 2-1, 3-1, 3-2.
RELIEF = arrays((24.5, 23.5, 26.4, 27.1, 29.9), (28.4, 34.2, 29.5, 32.2, 30.1), (26.1, 28.3, 24.3, 26.2, 27.8))
RELIEF_UNEQUAL = arrays(
    (24.5, 23.5, 26.4),
    (28.4, 34.2, 29.5, 32.2, 30.1, 28.4, 34.2, 29.5, 32.2, 30.1),
    (26.1, 28.3, 24.3, 26.2, 27.8),
)
#: Reduction of stress by treatment.
STRESS = arrays((1, 2, 2, 2, 3, 2, 3, 1, 3, 1), (2, 2, 3, 4, 4, 5, 3, 4, 4, 4), (4, 4, 3, 5, 4, 1, 1, 2, 3, 3))
#: Dunnett (1955), blood counts; p-values and intervals of R's multcomp.
BLOOD = arrays((7.40, 8.50, 7.20, 8.24, 9.84, 8.32), (9.76, 8.80, 7.68, 9.36), (12.80, 9.68, 12.16, 9.20, 10.55))
NAMES = ("one", "two", "three")


@pytest.mark.parametrize(
    "groups, intervals",
    [
        (RELIEF, [(0.9508830568, 8.249116943), (-3.389116943, 3.909116943), (-7.989116943, -0.6908830568)]),
        (RELIEF_UNEQUAL, [(2.740784879, 9.419215121), (-1.964526566, 5.444526566), (-7.118394925, -1.561605075)]),
    ],
)
def test_tukey_is_that_of_sas_and_of_scipy(groups: list[Array], intervals: list[tuple[float, float]]) -> None:
    model = one_way(groups)
    assert model is not None
    table = tukey(model, NAMES, "difference", 0.05)
    assert table is not None
    theirs = stats.tukey_hsd(*groups)
    for pair, (low, high), (i, j) in zip(table.pairs, intervals, [(0, 1), (0, 2), (1, 2)], strict=True):
        assert (pair.effect.low, pair.effect.high) == pytest.approx((low, high), abs=5e-4)
        assert pair.p_adjusted == pytest.approx(theirs.pvalue[i, j], abs=1e-9)
        assert pair.effect.estimate == pytest.approx(-theirs.statistic[i, j])
        assert pair.differs == (not low < 0 < high)
        assert (pair.first, pair.second) == (NAMES[i], NAMES[j])


def test_tukey_q_is_root_two_times_t_for_two_arms() -> None:
    model = one_way(RELIEF[:2])
    assert model is not None
    table = tukey(model, NAMES[:2], "difference", 0.05)
    assert table is not None
    theirs = stats.ttest_ind(RELIEF[0], RELIEF[1])
    assert table.pairs[0].statistic == pytest.approx(abs(theirs.statistic) * np.sqrt(2))
    assert table.pairs[0].p_adjusted == pytest.approx(theirs.pvalue, abs=1e-9)


def test_tukey_after_two_factors_takes_blocks_out() -> None:
    """By hand: three arms in four blocks, values arm + block + a residual of +-0.1."""
    residual = 0.1 * np.array([[1, -1, 1, -1], [-1, 1, -1, 1], [0, 0, 0, 0]])
    scores = (np.array([[0], [1], [5]]) + np.array([[0, 10, 20, 30]]) + residual).ravel()
    arms, blocks = np.repeat([0, 1, 2], 4), np.tile([0, 1, 2, 3], 3)
    model = two_way(scores, arms, blocks)
    assert isinstance(model, Model)
    assert (model.noise, model.freedom) == pytest.approx((0.08 / 6, 6))
    table = tukey(model, NAMES, "difference", 0.05)
    assert table is not None
    q = 1 / np.sqrt(0.08 / 6 / 4)
    assert table.pairs[0].statistic == pytest.approx(q)
    assert table.pairs[0].p_adjusted == pytest.approx(stats.studentized_range.sf(q, 3, 6), abs=1e-9)


def test_tukey_holds_pairs_against_what_arms_do_from_block_to_block() -> None:
    """Two runs in each cell that differ by 0.002: against them all would differ. Blocks are the units, as before."""
    residual = 0.1 * np.array([[1, -1, 1, -1], [-1, 1, -1, 1], [0, 0, 0, 0]])
    scores = (np.array([[0], [0.1], [5]]) + np.array([[0, 10, 20, 30]]) + residual).ravel()
    arms, blocks = np.repeat([0, 1, 2], 4), np.tile([0, 1, 2, 3], 3)
    twice = two_way(np.concatenate([scores - 0.001, scores + 0.001]), np.tile(arms, 2), np.tile(blocks, 2))
    once = two_way(scores, arms, blocks)
    assert isinstance(once, Model)
    assert isinstance(twice, Model)
    tables = [tukey(model, NAMES, "difference", 0.05) for model in (once, twice)]
    assert tables[0] is not None
    assert tables[1] is not None
    for pair, same in zip(tables[0].pairs, tables[1].pairs, strict=True):
        assert same.p_adjusted == pytest.approx(pair.p_adjusted, abs=1e-9)
    assert not tables[1].pairs[0].differs


def test_games_howell_is_that_of_scipy() -> None:
    groups = arrays(*(tuple(group)[:9] if index == 0 else tuple(group) for index, group in enumerate(STRESS)))
    table = games_howell(groups, NAMES, "difference", 0.05)
    assert table is not None
    theirs = stats.tukey_hsd(*groups, equal_var=False)
    assert [pair.p_adjusted for pair in table.pairs] == pytest.approx(
        [theirs.pvalue[0, 1], theirs.pvalue[0, 2], theirs.pvalue[1, 2]], abs=1e-9
    )
    assert [pair.effect.estimate for pair in table.pairs] == pytest.approx(
        [theirs.statistic[1, 0], theirs.statistic[2, 0], theirs.statistic[2, 1]]
    )


def test_dunnett_is_that_of_his_paper() -> None:
    table = dunnett(BLOOD, NAMES, "one", "difference", 0.05)
    assert table is not None
    assert [pair.statistic for pair in table.pairs] == pytest.approx([0.85703, 3.69375], abs=1e-5)
    assert [pair.p_adjusted for pair in table.pairs] == pytest.approx([0.6201020, 0.0058254], abs=1e-5)
    for pair, bounds in zip(table.pairs, [(-1.2564116, 2.5564116), (0.8396273, 4.4163727)], strict=True):
        assert (pair.effect.low, pair.effect.high) == pytest.approx(bounds, abs=5e-4)
    assert [(pair.first, pair.differs) for pair in table.pairs] == [("one", False), ("one", True)]


def test_without_noise_there_is_no_table() -> None:
    same = [np.full(4, 1.0), np.full(4, 2.0), np.full(4, 3.0)]
    model = one_way(same)
    assert model is not None
    assert tukey(model, NAMES, "log", 0.05) is None
    assert games_howell(same, NAMES, "log", 0.05) is None
    assert dunnett(same, NAMES, "one", "log", 0.05) is None
    single = [np.array([1.0]), np.array([2.0]), np.array([3.0])]
    assert games_howell(single, NAMES, "log", 0.05) is None
    assert dunnett(single, NAMES, "one", "log", 0.05) is None
