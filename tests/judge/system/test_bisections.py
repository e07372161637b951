# SPDX-License-Identifier: Apache-2.0
"""Bisections of simulated kernels: how often a wrong commit is named, and how often the right one."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from ktrial.kit.commits import Commit
from ktrial.kit.errors import Refused
from ktrial.studies.bisect.bisect import BisectRequest, bisect

COUNT, SEARCHES = 16, 30
COMMITS = [Commit(id=f"c{number}", parents=(f"c{number - 1}",)) for number in range(COUNT)]


def searched(change: float, seed: int) -> tuple[str | None, int]:
    """The commit that is named, or None, and the one that it is. Noise has heavy tails."""
    generator = np.random.default_rng(seed)
    culprit = int(generator.integers(COUNT))
    noise = change * float(generator.uniform(0.1, 0.5))

    def measure(commit: str, run: int) -> float:
        number = int(commit[1:])
        drawn = np.random.default_rng((seed, number + 1, run)).standard_t(3)
        return 100 * math.exp(change * (number >= culprit) + noise * drawn)

    wanted = BisectRequest("c-1", f"c{COUNT - 1}", COMMITS, "x", 30, seed)
    try:
        found = bisect(wanted, measure, lambda text: None, time.monotonic)
    except Refused:
        return None, culprit
    return (found.suspects[0].id if found.why == "found" else None), culprit


@pytest.mark.parametrize("change", [0.05, 0.4])
def test_what_is_named_is_right_and_what_cannot_be_told_is_not_named(change: float) -> None:
    found = [searched(change, seed) for seed in range(SEARCHES)]
    wrong = [pair for pair in found if pair[0] not in (None, f"c{pair[1]}")]
    right = [pair for pair in found if pair[0] == f"c{pair[1]}"]
    # At most 5 in 100 may be wrong: of 30 searches more than 5 are so in one of 500 such tests.
    assert len(wrong) <= 5, wrong
    assert len(right) >= SEARCHES / 2, found
