# SPDX-License-Identifier: Apache-2.0
"""Generates tables of `ktrial.judge.stats.critical`: rows for campaigns (errors below 0.05/20), and caps beyond 60.

Run in a checkout that is set up:  .venv/bin/python -m perf.critical_tables [TRIALS]   (8,000,000; some ten minutes)
Prints the new rows of each cap in the form in which the module has them. Each row spends its error over the looks,
from simulated trials without a difference, and never decides more than the row before it. The other rows stay as they
are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ktrial.judge.stats.critical import CRITICAL, LOOKS, ROWS, SPENT_BY_TABLE
from perf.arguments import argument, how_many

#: Up to this cap, rows up to this one are not generated.
KEPT_CAP, KEPT_ROW = 60, 20
#: Trials that are simulated at a time.
PORTION = 20_000

Index = int | None


def null_sums(trials: int, seed: int = 1) -> dict[int, NDArray[np.int32]]:
    """Return the smaller rank sum (of the positive or the negative differences) at each look of each trial."""
    generator = np.random.default_rng(seed)
    found = {look: np.empty(trials, np.int32) for look in LOOKS}
    for first in range(0, trials, PORTION):
        some = min(PORTION, trials - first)
        # Random numbers whose order is that of the sizes, and whose last bit is the sign.
        noise = generator.integers(0, 2**64, size=(some, LOOKS[-1]), dtype=np.uint64)
        for look in LOOKS:
            signs = np.sort(noise[:, :look], axis=1) & np.uint64(1)
            positive = signs.astype(np.float32) @ np.arange(1, look + 1, dtype=np.float32)
            found[look][first : first + some] = np.minimum(positive, look * (look + 1) / 2 - positive)
    return found


def next_row(sums: dict[int, NDArray[np.int32]], cap: int, row: int, before: tuple[Index, ...]) -> tuple[Index, ...]:
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


def new_rows(sums: dict[int, NDArray[np.int32]], cap: int) -> Iterator[tuple[Index, ...]]:
    """Yield the rows of a cap that are generated."""
    if cap <= KEPT_CAP:
        first = ROWS.index(KEPT_ROW) + 1
        before = CRITICAL[cap][first - 1]
    else:
        first = 0
        before = tuple(look * (look + 1) // 2 for look in LOOKS if look <= cap)
    for row in ROWS[first:]:
        before = next_row(sums, cap, row, before)
        yield before


def main() -> int:
    sums = null_sums(argument("TRIALS", 8_000_000, how_many))
    for cap in LOOKS:
        rows = "".join(f"        {row},\n" for row in new_rows(sums, cap)).replace("None", "_NO")
        print(f"    {cap}: (\n{rows}    ),", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
