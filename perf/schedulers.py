# SPDX-License-Identifier: Apache-2.0
"""The cost of a wrong choice of `ktrial schedulers`: its regret against the best scheduler in hindsight.

Run in a checkout that is set up:  .venv/bin/python -m perf.schedulers [REPLAYS]   (200; a minute)

A replay is a trial of a control and three arms. The shipped judge stops it, and the shipped rule chooses. Its blocks
are drawn with repeats from a recorded trial of schedulers (`perf/noise/schedulers.csv`), or are recorded noise of
programs at a given spread, in which each arm has a known effect. Exits with status 1 if a mean regret is above 2 %.
"""

from __future__ import annotations

import csv
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ktrial.judge.judge import judge
from ktrial.judge.model.log import BlockDrawn, Event, OutcomeRule, Protocol, RunEnded, TrialArm, block_order
from ktrial.studies.schedulers import best_arm
from perf.arguments import argument, how_many
from perf.noise_sources import Generator, sources

RECORDED = Path(__file__).parent / "noise" / "schedulers.csv"
OUTCOME = "replay.time"
REPLAYS, MOST_BLOCKS, MARGIN, LIMIT = 200, 20, 0.02, 0.02
CONTROL = "control"
#: The effects of arms on the logarithm of the speed, and the spread of the noise.
EFFECTS: Mapping[str, Mapping[str, float]] = {
    "nothing to gain": {"a": 0.0, "b": -0.01, "c": -0.10},
    "little to gain": {"a": 0.03, "b": 0.01, "c": -0.05},
    "much to gain": {"a": 0.15, "b": 0.12, "c": -0.05},
}
SPREADS = (0.01, 0.03)

#: The time of each arm in one block, the control first.
Block = Mapping[str, float]
#: Makes the blocks of a replay, with these arms in this order.
Source = Callable[[Generator], Iterator[Block]]


class Regret(NamedTuple):
    """How much longer the workload takes than with the best scheduler, as a share for each replay."""

    shares: tuple[float, ...]
    chosen: Counter[str]
    best: str

    @property
    def mean(self) -> float:
        return statistics.fmean(self.shares)


def recorded_blocks(path: Path = RECORDED) -> dict[str, list[Block]]:
    """Return the complete blocks of each recorded workload."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["workload"], {}).setdefault(row["block"], {})[row["arm"]] = float(row["seconds"])
    return {workload: list(blocks.values()) for workload, blocks in found.items()}


def drawn_again(blocks: Sequence[Block]) -> Source:
    def draw(generator: Generator) -> Iterator[Block]:
        while True:
            yield blocks[int(generator.integers(len(blocks)))]

    return draw


def planted(effects: Mapping[str, float], spread: float) -> Source:
    noise = sources(spread)["recorded"]
    every = {CONTROL: 0.0, **effects}

    def draw(generator: Generator) -> Iterator[Block]:
        rows = iter(noise(generator, 1, 2 * MOST_BLOCKS * len(every))[0])
        while True:
            yield {name: math.exp(-(float(next(rows)) + effect)) for name, effect in every.items()}

    return draw


def replay(source: Source, names: Sequence[str], seed: int) -> str:
    """Return the arm that a trial of these blocks chooses; the first name is the control."""
    protocol = Protocol(
        name="replay",
        arms=tuple(TrialArm(name=name) for name in names),
        control=names[0],
        outcomes={OUTCOME: OutcomeRule(direction="lower", role="primary", margin=MARGIN)},
        cap=MOST_BLOCKS,
        seed=seed,
    )
    blocks = source(np.random.default_rng(seed))
    log: list[Event] = [protocol]
    run = 0
    while (step := (judgement := judge(log)).next).action != "stop":
        block, values = step.block or 1, next(blocks)
        order = block_order(seed, block, step.arms)
        log.append(BlockDrawn(block=block, order=order))
        for arm in order:
            run += 1
            log.append(RunEnded(run=run, block=block, arm=arm, measurements={OUTCOME: values[arm]}))
    return best_arm((one for one in judgement.judged if one.role == "primary"), ()) or names[0]


def regret_of(source: Source, typical: Mapping[str, float], replays: int, seed: int = 1) -> Regret:
    """Return the cost of the choices; `typical` has the true time of each arm, the control first."""
    best = min(typical, key=lambda name: typical[name])
    chosen = [replay(source, tuple(typical), seed + number) for number in range(replays)]
    return Regret(tuple(typical[name] / typical[best] - 1.0 for name in chosen), Counter(chosen), best)


def regret_of_recorded(blocks: Sequence[Block], replays: int) -> Regret:
    """Return the regret for recorded blocks; in hindsight, the best arm has the best median of all blocks."""
    typical = {name: statistics.median(block[name] for block in blocks) for name in blocks[0]}
    return regret_of(drawn_again(blocks), typical, replays)


def regret_of_planted(effects: Mapping[str, float], spread: float, replays: int) -> Regret:
    typical = {name: math.exp(-effect) for name, effect in {CONTROL: 0.0, **effects}.items()}
    return regret_of(planted(effects, spread), typical, replays)


def every_regret(replays: int) -> Iterator[tuple[str, Regret]]:
    for workload, blocks in recorded_blocks().items():
        yield f"{workload}, {len(blocks)} recorded blocks", regret_of_recorded(blocks, replays)
    for what, effects in EFFECTS.items():
        for spread in SPREADS:
            yield f"{what}, spread {100 * spread:g} %", regret_of_planted(effects, spread, replays)


def main() -> int:
    replays = argument("REPLAYS", REPLAYS, how_many)
    missed = False
    for what, found in every_regret(replays):
        missed |= found.mean > LIMIT
        counts = ", ".join(f"{name} {count}" for name, count in found.chosen.most_common())
        mean, most = 100 * found.mean, 100 * max(found.shares)
        told = f"regret {mean:.2f} % on average (limit {100 * LIMIT:g} %), {most:.2f} % at most"
        sys.stdout.write(f"{what}: {told}; best {found.best}; chosen {counts}\n")
        sys.stdout.flush()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
