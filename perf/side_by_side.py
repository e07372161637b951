# SPDX-License-Identifier: Apache-2.0
"""Times several actions in interleaved random order, and prints the ratio of each to a peer."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping

Action = Callable[[], object]


def measure(actions: Mapping[str, Action], rounds: int, seed: int = 7) -> dict[str, list[float]]:
    """Return the seconds of each action in each round.

    A round runs each action once, in random order; the first round is dropped.
    """
    order = random.Random(seed)
    times_s: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        names = list(actions)
        order.shuffle(names)
        for name in names:
            begin = time.perf_counter()
            actions[name]()
            if number:
                times_s[name].append(time.perf_counter() - begin)
    return times_s


def report(times_s: Mapping[str, list[float]], peer: str, goals: Mapping[str, float]) -> bool:
    """Print medians, the middle half and ratios to the peer, round by round; return whether every goal was met."""
    met = True
    print(f"{'':38} {'median':>10} {'middle half':>21} {'ratio':>7}  goal")
    for name, values in times_s.items():
        low, middle, high = statistics.quantiles(values, n=4)
        ratio = statistics.median(a / b for a, b in zip(values, times_s[peer], strict=True))
        goal = goals.get(name)
        verdict = "" if goal is None else f"at most {goal:g}: {'met' if ratio <= goal else 'MISSED'}"
        met = met and (goal is None or ratio <= goal)
        print(f"{name:38} {middle * 1e3:7.2f} ms {low * 1e3:8.2f} to {high * 1e3:7.2f} ms {ratio:6.2f}x  {verdict}")
    print(f"ratios are to: {peer}; {len(times_s[peer])} interleaved rounds")
    return met
