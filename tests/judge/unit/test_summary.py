# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import statistics

import pytest

from ktrial.judge.outcome_series import summarise


def test_it_is_what_the_standard_library_says() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]
    summary = summarise(values)
    assert summary is not None
    assert (summary.n, summary.minimum, summary.maximum) == (6, 1.0, 9.0)
    assert summary.mean == pytest.approx(statistics.fmean(values))
    assert summary.median == statistics.median(values)
    assert summary.sd == pytest.approx(statistics.stdev(values))
    assert summary.cv == pytest.approx(statistics.stdev(values) / statistics.fmean(values))
    assert summary.spread == pytest.approx(8 / 3.5)


def test_what_cannot_be_told_is_missing() -> None:
    one = summarise([2.0])
    assert one is not None
    assert (one.sd, one.cv) == (None, None)
    around_zero = summarise([-1.0, 0.0, 1.0])
    assert around_zero is not None
    assert (around_zero.cv, around_zero.spread) == (None, None)
    assert summarise([math.nan, math.inf]) is None
    kept = summarise([math.nan, 1.0, 2.0])
    assert kept is not None
    assert kept.n == 2
