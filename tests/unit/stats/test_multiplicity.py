# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from ktrial.stats.multiplicity import benjamini_hochberg, holm

P = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@given(P)
def test_holm_is_that_of_statsmodels(p: list[float]) -> None:
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


@given(P)
def test_benjamini_hochberg_is_that_of_statsmodels(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-12)


def test_nothing_asked_is_nothing_adjusted() -> None:
    assert len(holm([])) == len(benjamini_hochberg([])) == 0


def test_holm_by_hand() -> None:
    assert np.allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
