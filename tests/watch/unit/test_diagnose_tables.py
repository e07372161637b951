# SPDX-License-Identifier: Apache-2.0
"""Numbers of a diagnosis as people read them."""

from __future__ import annotations

import pytest

from ktrial.judge.model.interval import Interval
from ktrial.watch.diagnosis.tables import range_text


@pytest.mark.parametrize(
    "found, text",
    [
        (Interval(estimate=17_834.4, low=None, high=None), "17834"),
        (Interval(estimate=0.012345, low=0.0001, high=1_234.5), "0.0123 (0.0001 to 1234)"),
        (Interval(estimate=-2_000.0, low=-3e6, high=999.6), "-2000 (-3000000 to 1000)"),
    ],
)
def test_large_numbers_have_no_exponent(found: Interval, text: str) -> None:
    assert range_text(found, 1, "") == text
