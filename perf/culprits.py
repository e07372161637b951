# SPDX-License-Identifier: Apache-2.0
"""Finding the responsible settings among many by foldover screening with confirmation, in simulation.

Run in a checkout that is set up:  .venv/bin/python -m perf.culprits [TRIALS]   (400 a cell; some minutes)

The whole set is known to be harmful. The noise of a block's difference has heavy tails (t with 4 degrees of freedom); a
culprit's effect is 1.2 or 2.4 of its standard deviation. Runs include everything: screening, the trial of the whole set
against the set without the named settings, and the trial of the rest against stock. The second table, with a quarter of
the trials, is `ktrial blame` itself: its course and the judge, with normal noise. Its confirmation is one trial of
three arms, and each culprit is tried alone after it. Exits with status 1 if a target is missed by more than Monte Carlo
error.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ktrial.judge.screening import CAP, Signs, design, screen
from ktrial.judge.sequential import Rule, decide
from perf.arguments import argument, how_many
from perf.noise_sources import Array, Generator
from tests.support.blame import blamed, question

#: Maximum number of blocks of a confirming trial.
CONFIRM_CAP = 20
#: Shares of the known effect that do not matter: of the cure, and of what is left without the culprits.
CURE, REST = 0.5, 0.75
#: Rounds of screening, confirming, and testing the rest.
ROUNDS = 3
SIZES = (8, 16, 24, 40)
EXACT, MOST_RUNS = 0.95, 85.0
#: Approximate standard deviation of the runs of a blame.
_RUNS_SD = 25.0
_SD = 1 / math.sqrt(2)


class Machine:
    """Settings with culprits, and a count of runs. `harm` is the cost of a set of settings, in sd of a block."""

    def __init__(
        self, settings: int, culprits: frozenset[int], effect: float, *, together: bool, rng: Generator
    ) -> None:
        self.settings, self.culprits, self.effect = settings, culprits, effect
        self.together = together
        self.rng = rng
        self.runs = 0

    def score(self, on: Sequence[int]) -> float:
        there = self.culprits & set(on)
        if self.together:
            return -self.effect * (there == self.culprits)
        return -self.effect * len(there)

    def differences(self, first: Sequence[int], second: Sequence[int], blocks: int) -> Array:
        return self.score(first) - self.score(second) + self.rng.standard_t(4, blocks) * _SD

    def is_better(self, first: Sequence[int], second: Sequence[int], negligible: float) -> bool:
        """Run a trial; return whether `first` is better than `second`.

        A share `negligible` of the known effect does not matter.
        """
        found = decide(self.differences(first, second, CONFIRM_CAP), Rule(CONFIRM_CAP, negligible * self.effect))
        self.runs += 2 * found.blocks
        return found.verdict == "better"

    def screened(self, settings: Sequence[int]) -> list[int]:
        """Return the settings that foldover screening names."""
        signs: Signs = design(len(settings), int(self.rng.integers(2**31)), CAP)
        differences = np.empty(0)
        while True:
            row = signs[len(differences)]
            first = [one for one, sign in zip(settings, row, strict=True) if sign > 0]
            second = [one for one, sign in zip(settings, row, strict=True) if sign < 0]
            differences = np.append(differences, self.differences(first, second, 1))
            self.runs += 2
            found = screen(signs, differences, -1)
            if found.over:
                return [settings[place] for place in found.named]


def name_culprits(machine: Machine) -> set[int]:
    """Screen, confirm and test the rest; return only confirmed settings."""
    left = list(range(machine.settings))
    named: set[int] = set()
    for _ in range(ROUNDS):
        found = machine.screened(left)
        without = [one for one in left if one not in found]
        if not found or not machine.is_better(without, left, CURE):
            break
        named |= set(found)
        left = without
        if not left or not machine.is_better([], left, REST):
            break
    return named


class Cell(NamedTuple):
    exact: float
    false: float
    runs: float


def simulate(trials: int, settings: int, culprits: int, effect: float, rng: Generator, *, together: bool) -> Cell:
    exact = false = runs = 0
    for _ in range(trials):
        guilty = frozenset(int(one) for one in rng.choice(settings, culprits, replace=False))
        machine = Machine(settings, guilty, effect, together=together, rng=rng)
        named = name_culprits(machine)
        # If a pair acts only together, removing either setting is the cure.
        exact += bool(named) and named <= guilty if together else named == guilty
        false += bool(named - guilty)
        runs += machine.runs
    return Cell(exact / trials, false / trials, runs / trials)


class Shipped(NamedTuple):
    exact: float
    false: float
    confirmed: float
    runs: float


def ship(trials: int, settings: int, culprits: int, *, together: bool) -> Shipped:
    """Run blames of this many settings; an effect is 1.2 standard deviations of a block's difference."""
    sd = 0.03
    effect = 1.2 * math.sqrt(2) * sd
    guilty = frozenset(f"s{place}" for place in range(1, culprits + 1))

    def harm(on: frozenset[str]) -> float:
        return -effect * ((guilty <= on) if together else len(guilty & on))

    exact = false = confirmed = runs = 0
    for seed in range(trials):
        found, parts = blamed(
            question(settings, seed=1000 * seed, known="worse"), {"time": harm, "other": lambda on: 0.0}, seed, sd
        )
        named = {name for one in found.culprits for name in one.factors}
        groups = {frozenset(one.factors) for one in found.culprits}
        exact += groups == ({guilty} if together else {frozenset({name}) for name in guilty})
        false += bool(named - guilty)
        runs += found.runs
        confirmed += sum(part.runs for part in parts if not re.search(r"\.(alone|needed)-", part.file.name))
    return Shipped(exact / trials, false / trials, confirmed / trials, runs / trials)


def show_shipped(trials: int, cases: Sequence[tuple[str, int, bool]]) -> list[str]:
    """Print a row for each case; return the cases with one culprit that miss the target."""
    missed = []
    print(f"\n`ktrial blame`, {trials} a cell: runs to name and confirm, and with those that show who acts alone\n")
    print("| culprits | " + " | ".join(f"{size} settings" for size in SIZES) + " |")
    print("| --- " * (len(SIZES) + 1) + "|")
    for told, culprits, together in cases:
        cells = [ship(trials, size, culprits, together=together) for size in SIZES]
        shown = (f"{one.exact:.1%} exact, {one.false:.1%} false, {one.confirmed:.0f}, {one.runs:.0f}" for one in cells)
        print(f"| {told} | " + " | ".join(shown) + " |", flush=True)
        if culprits == 1:
            for size, one in zip(SIZES, cells, strict=True):
                if one.exact < EXACT - slack(EXACT, trials) or one.confirmed > MOST_RUNS + 3 * _RUNS_SD / trials**0.5:
                    missed.append(f"`ktrial blame` of one of {size}")
    return missed


def slack(share: float, trials: int) -> float:
    """Return by how much a simulated share may miss the target."""
    return 3 * math.sqrt(share * (1 - share) / trials)


def main(arguments: list[str]) -> int:
    trials = argument("TRIALS", 400, how_many, arguments)
    rng = np.random.default_rng(15)
    begin = time.perf_counter()
    missed = []
    print("| culprits | effect, sd | " + " | ".join(f"{size} settings" for size in SIZES) + " |")
    print("| --- " * (len(SIZES) + 2) + "|")
    cases: tuple[tuple[str, int, bool], ...] = (
        ("one", 1, False),
        ("two", 2, False),
        ("a pair, only together", 2, True),
    )
    for told, culprits, together in cases:
        for effect in (1.2, 2.4):
            cells = [simulate(trials, size, culprits, effect, rng, together=together) for size in SIZES]
            shown = (f"{cell.exact:.1%} exact, {cell.false:.1%} false, {cell.runs:.0f} runs" for cell in cells)
            print(f"| {told} | {effect} | " + " | ".join(shown) + " |", flush=True)
            if told == "one":
                for size, cell in zip(SIZES, cells, strict=True):
                    if cell.exact < EXACT - slack(EXACT, trials) or cell.runs > MOST_RUNS:
                        missed.append(f"one of {size}, {effect} sd")
    missed += show_shipped(max(1, trials // 4), cases)
    print(f"\ngoal, one culprit: at least {EXACT:.0%} exact in at most {MOST_RUNS:.0f} runs: ", end="")
    print(
        f"missed by {', '.join(missed)}" if missed else "met",
        f"({trials} trials a cell, {time.perf_counter() - begin:.0f} s)",
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
