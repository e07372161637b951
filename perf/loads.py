# SPDX-License-Identifier: Apache-2.0
"""Resolution and self-noise of the agent's own loads against tools that measure the same, in one run.

Run in a checkout that is set up:  .venv/bin/python -m perf.loads [ROUNDS]

A round runs each load and each tool once, in random order. Noise is the width of the middle half of the values,
relative to their median. The step is the smallest difference between two different values, relative to their median,
which is the best resolution of the number. The goal: our noise is at most twice the tool's, or below 5 %.

On a busy machine the goals are not judged. cyclictest leaves out the moments that a late wake-up has missed, and our
timer counts each of them: while other programs use the CPUs, the tool's median stays the same, and ours shows the wait.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from perf.arguments import argument, how_many
from tests.support.references import REFERENCES, ours, theirs, user_session

ROUNDS = 20
#: The middle half of 20 values is itself only known to a factor of about 1.5.
MOST_TIMES = 2.0
LITTLE_NOISE = 0.05
#: The share of the CPUs that other programs may use while nothing of ours runs.
MOST_BUSY = 0.1
LOOK_S = 0.2


def noise(values: Sequence[float]) -> float:
    """Return the width of the middle half, relative to the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def step(values: Sequence[float]) -> float | None:
    """Return the smallest difference, relative to the median; None if all values are equal."""
    ordered = sorted(set(values))
    steps = [above - below for below, above in pairwise(ordered)]
    return min(steps) / statistics.median(values) if steps else None


def used_by_others() -> float:
    """Return the busy share of all CPUs' time while this program waits."""
    before = _ticks()
    time.sleep(LOOK_S)
    spent = [late - early for early, late in zip(before, _ticks(), strict=True)]
    return 1 - (spent[3] + spent[4]) / max(1, sum(spent))


def _ticks() -> list[int]:
    """Return the ticks of user, nice, system, idle, iowait, irq, softirq and steal."""
    first, _, _ = Path("/proc/stat").read_text(encoding="ascii").partition("\n")
    return [int(word) for word in first.split()[1:9]]


def measure(rounds: int) -> tuple[dict[str, tuple[list[float], list[float]]], float]:
    """Return our values and the tool's for each reference that is installed here, and the load of others meanwhile."""
    order = random.Random(7)
    session = user_session()
    found: dict[str, tuple[list[float], list[float]]] = {}
    actions: list[tuple[list[float], Callable[[], float]]] = []
    for name, reference in REFERENCES.items():
        if reference.program is None:
            print(f"{name}: {reference.name} is not installed")
            continue
        found[name] = ([], [])
        actions.append((found[name][0], partial(ours, reference, session)))
        actions.append((found[name][1], partial(theirs, reference, session)))
    busy = []
    for _ in range(rounds):
        busy.append(used_by_others())
        order.shuffle(actions)
        for values, action in actions:
            values.append(action())
    session.close()
    return found, statistics.median(busy)


def row(who: str, values: Sequence[float], verdict: str = "") -> None:
    """Print one line of the table."""
    smallest = step(values)
    shown = "all equal" if smallest is None else f"{smallest:.2e}"
    print(
        f"  {who:12} median {statistics.median(values):12.5g}  noise {noise(values):7.1%}  step {shown:>9}  {verdict}"
    )


def main() -> int:
    """Measure and print; return 1 if a goal was missed or could not be judged."""
    rounds = argument("ROUNDS", ROUNDS, how_many)
    met = True
    found, busy = measure(rounds)
    if busy > MOST_BUSY:
        print(f"others used {busy:.0%} of the CPUs: no goal is judged; run it again when the machine is calm")
    for name, (own, others) in found.items():
        reference = REFERENCES[name]
        allowed = max(MOST_TIMES * noise(others), LITTLE_NOISE)
        good = noise(own) <= allowed
        met = met and good
        apart = statistics.median(own) / statistics.median(others)
        print(f"{name}: {apart:.2f} times {reference.name}'s ({rounds} rounds in random order)")
        verdict = "not judged" if busy > MOST_BUSY else "met" if good else "MISSED"
        row("ours", own, f"noise at most {allowed:.1%}: {verdict}")
        row(reference.name, others)
    return 0 if met and busy <= MOST_BUSY else 1


if __name__ == "__main__":
    sys.exit(main())
