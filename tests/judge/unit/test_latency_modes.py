# SPDX-License-Identifier: Apache-2.0
"""Heaps of a histogram of latencies."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.judge.stats.latency_modes import modes


def histogram(*lengths_s: float) -> list[tuple[float, int]]:
    """As the agent counts: four bars to each doubling, told by their ends."""
    ends: Counter[float] = Counter()
    for length_s in lengths_s:
        step = 2.0 ** (np.floor(np.log2(length_s)) - 2)
        ends[float((np.floor(length_s / step) + 1) * step)] += 1
    return sorted(ends.items())


def around(middle_s: float, count: int, seed: int = 1) -> list[float]:
    generator = np.random.default_rng(seed)
    return [float(one) for one in middle_s * np.exp(0.15 * generator.standard_normal(count))]


def test_one_heap_is_one_mode() -> None:
    (found,) = modes(histogram(*around(0.0002, 2000)))
    assert found.at_s == pytest.approx(0.0002, rel=0.2)
    assert found.share == 1


def test_a_small_heap_far_behind_is_found() -> None:
    first, second = modes(histogram(*around(0.0002, 2000), *around(0.0105, 40)))
    assert first.at_s < 0.0003
    assert second.at_s == pytest.approx(0.0105, rel=0.2)
    assert second.share == pytest.approx(40 / 2040)


def test_a_few_strays_are_no_heap() -> None:
    assert len(modes(histogram(*around(0.0002, 2000), 0.02, 0.05, 0.3))) == 1


def test_nothing_has_no_modes() -> None:
    assert modes([]) == ()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(min_value=1e-6, max_value=10), min_size=1, max_size=60))
def test_shares_of_any_requests_are_no_more_than_all(lengths_s: list[float]) -> None:
    found = modes(histogram(*lengths_s))
    assert sum(one.share for one in found) <= 1 + 1e-9
    assert [one.at_s for one in found] == sorted(one.at_s for one in found)
