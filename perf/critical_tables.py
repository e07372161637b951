# SPDX-License-Identifier: Apache-2.0
"""Generates the rows of `ktrial.judge.stats.critical` for campaigns: errors smaller than 0.05/20.

Run in a checkout that is set up:  .venv/bin/python -m perf.critical_tables [TRIALS]   (8,000,000; five minutes)
Prints one line a cap, with the new rows in the form in which the module has them. Each row spends its error over the
looks, from simulated trials without a difference, and never decides more than the row before it. Rows up to 20 stay
as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ktrial.judge.stats.critical import CRITICAL, LOOKS, ROWS, SPENT_BY_TABLE
from perf.arguments import argument, how_many

#: The last row that this does not generate.
KEPT = 20
#: Trials that are simulated at a time.
PORTION = 100_000

Index = int | None


def null_sums(trials: int, seed: int = 1) -> dict[int, NDArray[np.int16]]:
    """Return the smaller rank sum (of the positive or the negative differences) at each look of each trial."""
    generator = np.random.default_rng(seed)
    found = {look: np.empty(trials, np.int16) for look in LOOKS}
    for first in range(0, trials, PORTION):
        some = min(PORTION, trials - first)
        noise = generator.normal(size=(some, LOOKS[-1])).astype(np.float32)
        for look in LOOKS:
            here = noise[:, :look]
            by_size = np.argsort(np.abs(here), axis=1)
            positive = (np.take_along_axis(here, by_size, axis=1) > 0) @ np.arange(1.0, look + 1)
            found[look][first : first + some] = np.minimum(positive, look * (look + 1) / 2 - positive)
    return found


def next_row(sums: dict[int, NDArray[np.int16]], cap: int, row: int, before: tuple[Index, ...]) -> tuple[Index, ...]:
    """Return the indices of a row, none of them beyond those of the row before it."""
    trials = len(sums[cap])
    alive = np.ones(trials, dtype=bool)
    used = 0.0
    found: list[Index] = []
    for look, most in zip(LOOKS, before, strict=False):
        shares = np.cumsum(np.bincount(sums[look][alive], minlength=1)) / trials
        allowed = np.nonzero(shares <= SPENT_BY_TABLE / row * (look / cap) ** 0.7 - used)[0]
        index = None if most is None or not len(allowed) else min(most, int(allowed[-1]))
        found.append(index)
        if index is not None:
            used += float(shares[min(index, len(shares) - 1)])
            alive &= sums[look] > index
    return tuple(found)


def main() -> int:
    sums = null_sums(argument("TRIALS", 8_000_000, how_many))
    for cap, rows in CRITICAL.items():
        before = rows[ROWS.index(KEPT)]
        made = []
        for row in ROWS[ROWS.index(KEPT) + 1 :]:
            before = next_row(sums, cap, row, before)
            made.append(before)
        print(f"{cap}: {made}".replace("None", "_NO"), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
