# SPDX-License-Identifier: Apache-2.0
"""Resolution and self-noise of the agent's own loads against the tools that measure the same, in one run.

Run in a checkout that is set up:  .venv/bin/python -m perf.loads [ROUNDS]

A round runs each load and each tool once, in random order. Noise is the width of the middle half of the values over
their median. The step is the smallest difference between two values that differ, over their median: what the number
can tell apart at best. The goal: our noise is at most twice the tool's, or lies below 5 %.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from tests.support.references import REFERENCES, ours, theirs, user_session

ROUNDS = 20
#: The middle half of 20 values is itself known to a factor of 1.5 or so.
MOST_TIMES = 2.0
LITTLE_NOISE = 0.05


def noise(values: Sequence[float]) -> float:
    """Width of the middle half over the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def step(values: Sequence[float]) -> float | None:
    """Smallest difference over the median; None where all values are equal."""
    ordered = sorted(set(values))
    steps = [above - below for below, above in pairwise(ordered)]
    return min(steps) / statistics.median(values) if steps else None


def measure(rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Our values and the tool's for each reference that is installed here."""
    order = random.Random(7)
    session = user_session()
    found: dict[str, tuple[list[float], list[float]]] = {}
    actions: list[tuple[list[float], Callable[[], float]]] = []
    for name, reference in REFERENCES.items():
        if reference.program is None:
            print(f"{name}: {reference.argv[0]} is not installed")
            continue
        found[name] = ([], [])
        actions.append((found[name][0], partial(ours, reference, session)))
        actions.append((found[name][1], partial(theirs, reference, session)))
    for _ in range(rounds):
        order.shuffle(actions)
        for values, action in actions:
            values.append(action())
    session.close()
    return found


def row(who: str, values: Sequence[float], verdict: str = "") -> None:
    """One line of the table."""
    smallest = step(values)
    shown = "all equal" if smallest is None else f"{smallest:.2e}"
    print(
        f"  {who:12} median {statistics.median(values):12.5g}  noise {noise(values):7.1%}  step {shown:>9}  {verdict}"
    )


def main() -> int:
    """Measure and print; 1 when a goal was missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    met = True
    for name, (own, others) in measure(rounds).items():
        reference = REFERENCES[name]
        allowed = max(MOST_TIMES * noise(others), LITTLE_NOISE)
        good = noise(own) <= allowed
        met = met and good
        apart = statistics.median(own) / statistics.median(others)
        print(f"{name}: {apart:.2f} times {reference.argv[0]}'s ({rounds} rounds in random order)")
        row("ours", own, f"noise at most {allowed:.1%}: {'met' if good else 'MISSED'}")
        row(reference.argv[0], others)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
