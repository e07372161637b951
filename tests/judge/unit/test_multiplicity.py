# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

from ktrial.judge.stats.multiplicity import benjamini_hochberg, holm


@pytest.mark.parametrize("seed", range(5))
def test_both_are_those_of_statsmodels(seed: int) -> None:
    p = np.random.default_rng(seed).choice([0.001, 0.01, 0.02, 0.04, 0.3, 1.0], 2 + 3 * seed).tolist()
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusting_keeps_the_order_and_lowers_nothing(p: list[float]) -> None:
    for correct in (holm, benjamini_hochberg):
        adjusted = correct(p)
        assert (adjusted >= np.array(p) - 1e-15).all()
        assert (adjusted <= 1).all()
        assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= -1e-15).all()


def test_nothing_asked_is_nothing_adjusted() -> None:
    assert len(holm([])) == len(benjamini_hochberg([])) == 0


def test_holm_by_hand() -> None:
    assert np.allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
