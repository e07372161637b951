# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]

from ktrial.judge.stats import factors
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.factors import Labels, Model, one_way, two_way

#: NIST Statistical Reference Datasets, analysis of variance: SiRstv and AtmWtAg, with their certified values.
SI_RSTV = (
    (196.3052, 196.1240, 196.1890, 196.2569, 196.3403),
    (196.3042, 196.3825, 196.1669, 196.3257, 196.0422),
    (196.1303, 196.2005, 196.2889, 196.0343, 196.1811),
    (196.2795, 196.1748, 196.1494, 196.1485, 195.9885),
    (196.2119, 196.1051, 196.1850, 196.0052, 196.2090),
)
ATM_WT_AG = (
    (
        107.8681568,
        107.8681465,
        107.8681572,
        107.8681785,
        107.8681446,
        107.8681903,
        107.8681526,
        107.8681494,
        107.8681616,
        107.8681587,
        107.8681519,
        107.8681486,
        107.8681419,
        107.8681569,
        107.8681508,
        107.8681672,
        107.8681385,
        107.8681518,
        107.8681662,
        107.8681424,
        107.8681360,
        107.8681333,
        107.8681610,
        107.8681477,
    ),
    (
        107.8681079,
        107.8681344,
        107.8681513,
        107.8681197,
        107.8681604,
        107.8681385,
        107.8681642,
        107.8681365,
        107.8681151,
        107.8681082,
        107.8681517,
        107.8681448,
        107.8681198,
        107.8681482,
        107.8681334,
        107.8681609,
        107.8681101,
        107.8681512,
        107.8681469,
        107.8681360,
        107.8681254,
        107.8681261,
        107.8681450,
        107.8681368,
    ),
)
#: Dean and Voss (1999), life of batteries in minutes per dollar: duty (alkaline, heavy) by brand (name, store).
BATTERIES = ((611, 537, 542, 593), (923, 794, 827, 898), (445, 490, 384, 413), (476, 569, 480, 460))


@pytest.mark.parametrize(
    "groups, between, within, f",
    [
        (SI_RSTV, 5.11462616e-02, 2.16636560e-01, 1.18046237440255),
        (ATM_WT_AG, 3.63834187500000e-09, 1.04951729166667e-08, 1.59467335677930e01),
    ],
)
def test_one_way_meets_certified_values(
    groups: tuple[tuple[float, ...], ...], between: float, within: float, f: float
) -> None:
    model = one_way([np.array(group) for group in groups])
    assert model is not None
    arm, residual = model.anova.rows
    # AtmWtAg has seven constant leading digits: of 16 digits of a float nine are left.
    assert arm.sum_of_squares == pytest.approx(between, rel=1e-6)
    assert residual.sum_of_squares == pytest.approx(within, rel=1e-6)
    assert arm.f == pytest.approx(f, rel=1e-6)
    assert arm.p == pytest.approx(stats.f_oneway(*groups).pvalue, abs=1e-9)


def test_kruskal_wallis_is_that_of_scipy() -> None:
    model = one_way([np.round(np.array(group), 2) for group in SI_RSTV])
    assert model is not None
    theirs = stats.kruskal(*(np.round(group, 2) for group in SI_RSTV))
    assert model.anova.note == f"Kruskal-Wallis: H = {theirs.statistic:.4g}, p = {theirs.pvalue:.3g}"


def labelled(cells: dict[tuple[int, int], list[float]]) -> tuple[Array, Labels, Labels]:
    values = [(value, arm, block) for (arm, block), held in cells.items() for value in held]
    return (
        np.array([value for value, _, _ in values], dtype=np.float64),
        np.array([arm for _, arm, _ in values]),
        np.array([block for _, _, block in values]),
    )


def residual_of(scores: Array, *factor: Labels) -> tuple[float, float]:
    """Sum of squares and degrees of freedom that statsmodels leaves of a model with these factors."""
    columns = [np.ones(len(scores))]
    for labels in factor:
        columns += [(labels == level).astype(np.float64) for level in np.unique(labels)[1:]]
    fitted = OLS(scores, np.array(columns).T).fit()
    return float(fitted.ssr), float(fitted.df_resid)


def modelled(scores: Array, arms: Labels, blocks: Labels) -> Model:
    model = two_way(scores, arms, blocks)
    assert isinstance(model, Model), model
    return model


def test_two_way_meets_the_textbook() -> None:
    """The analysis of R's aov for the batteries, as printed."""
    cells = {(duty, brand): [float(v) for v in BATTERIES[2 * duty + brand]] for duty in (0, 1) for brand in (0, 1)}
    rows = {row.source: row for row in modelled(*labelled(cells)).anova.rows}
    assert [round(row.sum_of_squares) for row in rows.values()] == [252004, 124609, 51302, 28412]
    assert [row.df for row in rows.values()] == [1, 1, 1, 12]
    assert [round(row.f, 2) for row in rows.values() if row.f] == [106.43, 52.63, 21.67]
    assert rows["block"].p == pytest.approx(1.01e-05, rel=0.005)
    assert rows["arm"].p == pytest.approx(2.55e-07, rel=0.005)
    assert rows["arm x block"].p == pytest.approx(0.000556, rel=0.002)


def test_unequal_cells_are_type_ii_of_statsmodels() -> None:
    random = np.random.default_rng(6)
    cells = {(a, b): list(random.normal(a * 0.5 + b, 1, random.integers(1, 5))) for a in range(3) for b in range(4)}
    scores, arms, blocks = labelled(cells)
    model = modelled(scores, arms, blocks)
    additive, of_arms, of_blocks = (residual_of(scores, *factor)[0] for factor in ((arms, blocks), (arms,), (blocks,)))
    within, freedom = residual_of(scores, arms * 4 + blocks)
    expected = {
        "arm": (of_blocks - additive, 2.0),
        "block": (of_arms - additive, 3.0),
        "arm x block": (additive - within, 6.0),
    }
    for source, (squares, df) in expected.items():
        row = next(row for row in model.anova.rows if row.source == source)
        f = squares / df / (within / freedom)
        assert (row.sum_of_squares, row.f, row.p) == pytest.approx((squares, f, stats.f.sf(f, df, freedom)), abs=1e-9)
    assert model.freedom == freedom
    assert model.means is None
    assert "type II" in str(model.anova.note)


def test_an_empty_cell_leaves_no_interaction() -> None:
    cells = {(a, b): [float(a + b * b), a - 0.5] for a in range(3) for b in range(3) if (a, b) != (1, 1)}
    scores, arms, blocks = labelled(cells)
    model = modelled(scores, arms, blocks)
    assert [row.source for row in model.anova.rows] == ["arm", "block", "residual"]
    assert "missing" in str(model.anova.note)
    squares, freedom = residual_of(scores, arms, blocks)
    assert (model.anova.rows[-1].sum_of_squares, model.freedom) == pytest.approx((squares, freedom))


def test_single_runs_are_judged_by_what_arms_and_blocks_leave() -> None:
    random = np.random.default_rng(1)
    cells = {(a, b): [float(random.normal(a, 1))] for a in range(3) for b in range(5)}
    scores, arms, blocks = labelled(cells)
    model = modelled(scores, arms, blocks)
    squares, freedom = residual_of(scores, arms, blocks)
    assert (model.anova.rows[-1].sum_of_squares, model.freedom) == pytest.approx((squares, freedom))
    assert len(model.anova.rows) == 3


def test_what_cannot_be_analysed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = labelled({(0, 0): [1.0, 2.0], (1, 1): [3.0, 4.0]})
    assert "share no block" in str(two_way(*apart))
    alone = labelled({(0, 0): [1.0], (0, 1): [2.0]})
    assert "too few runs" in str(two_way(*alone))
    unequal = labelled({(0, 0): [1.0, 2.0], (0, 1): [3.0], (1, 0): [1.0], (1, 1): [2.0]})
    monkeypatch.setattr(factors, "SOLVED_LEVELS", 3)
    assert "too many" in str(two_way(*unequal))
    assert one_way([np.array([1.0]), np.array([2.0])]) is None
    assert one_way([np.array([1.0, 2.0])]) is None


def test_equal_values_have_no_f() -> None:
    same = one_way([np.full(4, 0.1), np.full(4, 0.1)])
    assert same is not None
    assert [row.f for row in same.anova.rows] == [None, None]
    assert same.noise == 0
    steps = modelled(*labelled({(a, b): [0.1 * a + 0.3 * b] for a in range(3) for b in range(4)}))
    assert steps.anova.rows[0].f is None
