# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

from ktrial.judge.stats.ranking import all_pairs
from ktrial.kit.errors import BadInput


def test_all_pairs_are_scipys_test_with_holm() -> None:
    generator = np.random.default_rng(1)
    drift = generator.normal(0, 1, 12)
    scores = {name: drift + generator.normal(mean, 0.05, 12) for name, mean in (("a", 0), ("b", 0.02), ("c", 0.2))}
    found = all_pairs(scores)
    assert [(one.first, one.second) for one in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    p = [stats.wilcoxon(scores[one.second] - scores[one.first], method="exact").pvalue for one in found.pairs]
    assert [one.statistic for one in found.pairs] == pytest.approx(p, abs=1e-9)
    rejected, adjusted = multipletests(p, method="holm")[:2]
    assert [one.p_adjusted for one in found.pairs] == pytest.approx(adjusted, abs=1e-9)
    assert [one.differs for one in found.pairs] == list(rejected) == [False, True, True]
    for one in found.pairs:
        assert one.effect.low is not None
        assert one.effect.high is not None
        assert one.effect.low <= one.effect.estimate <= one.effect.high
        assert one.effect.confidence == pytest.approx(1 - 0.05 / 3)


def test_too_few_blocks_or_arms_are_refused() -> None:
    with pytest.raises(BadInput, match="6 blocks cannot decide 3 pairs"):
        all_pairs({name: np.zeros(6) for name in "abc"})
    with pytest.raises(BadInput, match="two arms"):
        all_pairs({"a": np.zeros(12)})
    with pytest.raises(BadInput, match="in every block"):
        all_pairs({"a": np.zeros(12), "b": np.zeros(11)})
