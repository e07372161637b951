# SPDX-License-Identifier: Apache-2.0
"""Searches for two outcomes at once on recorded noise: `ktrial search --also` beside what reports its best trials.

Run in a checkout that is set up:  .venv/bin/python -m perf.fronts [SEARCHES]   (20 a cell; a quarter of an hour of CPU)

Space, noise and runs are those of `perf.search`. Each method reports a front; the others' has the measured points that
no other one beats, against the mean of three runs of the control.

- volume: how much of what the true front reaches, the true outcomes of the reported points reach (hypervolume above the
  control in the first outcome, and above a loss of 15 points in the second)
- none: how often a search reports nothing
- false: how often a search reports a point that is better than the control in neither outcome
- loss: how often a search reports a point that is 5 points worse than it says in one outcome

Ends with status 1 if more than 5 % of our searches report a false point, beyond Monte Carlo error.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ktrial.studies.search.front import front_places
from ktrial.studies.search.propose import distribution
from ktrial.studies.search.space import Point, Space
from perf.arguments import argument, how_many
from perf.noise_sources import Array
from perf.search import FALSE, RUNS, noise_rows, slack, twelve
from tests.support.search import MadeMachine, question_of, run_search

_DEFAULTS, _LOST, _FLOOR = 3, 0.05, -0.15
OUTCOMES = ("time", "other")


class TwoOutcomes(NamedTuple):
    """What a point does to both scores, against the control; `volume` is what the true front reaches."""

    name: str
    space: Space
    effect: Callable[[Point], tuple[float, float]]
    volume: float


class Reported(NamedTuple):
    """A point of a reported front: its true effects, and those that the search claims."""

    true: tuple[float, float]
    sold: tuple[float, float]


Method = Callable[[TwoOutcomes, Array, int], list[Reported]]


def surfaces() -> list[TwoOutcomes]:
    """Return a surface on which nothing matters, and one on which two settings trade the outcomes."""
    space = twelve()

    def trade(point: Point) -> tuple[float, float]:
        fast, wide = (space.of(name).place(point[name]) for name in ("log0", "plain0"))
        first = 0.14 * fast - 0.04 * wide + 0.03 * (point["list0"] == "z")
        second = -0.16 * fast**2 + 0.06 * wide + 0.03 * (point["list1"] == "y")
        return first, second

    base = trade(space.control)

    def against(point: Point) -> tuple[float, float]:
        first, second = trade(point)
        return first - base[0], second - base[1]

    grid = [
        {**space.control, "log0": fast, "plain0": wide, "list0": "z", "list1": "y"}
        for fast in np.unique(np.geomspace(1, 1000, 60).round()).astype(int).tolist()
        for wide in range(0, 201, 10)
    ]
    best = volume([against(point) for point in grid])
    return [
        TwoOutcomes("nothing matters", space, lambda _: (0.0, 0.0), 0.0),
        TwoOutcomes("a trade", space, against, best),
    ]


def volume(points: Sequence[tuple[float, float]]) -> float:
    """Return the area that these points dominate, above the control and the floor."""
    area, floor = 0.0, _FLOOR
    for first, second in sorted(points, reverse=True):
        if first > 0 and second > floor:
            area += first * (second - floor)
            floor = second
    return area


def ours(surface: TwoOutcomes, noise: Array, seed: int) -> list[Reported]:
    """Return the points that `ktrial search --also` confirms."""

    def endless() -> object:
        while True:
            yield from noise.tolist()

    effects = {name: _column(surface, at) for at, name in enumerate(OUTCOMES)}
    question = question_of(surface.space, RUNS, seed, also=OUTCOMES[1:])
    trial = msgspec.structs.replace(question.trial, secondary=OUTCOMES[1:])
    machine = MadeMachine(effects, endless())  # type: ignore[arg-type]
    found, _ = run_search(msgspec.structs.replace(question, trial=trial), machine)
    reported = []
    for one in found.front:
        sold = [effect.estimate for effect in one.effects.values() if effect is not None]
        if one.state == "confirmed" and len(sold) == len(OUTCOMES):
            reported.append(Reported(surface.effect({**surface.space.control, **one.changes}), (sold[0], sold[1])))
    return reported


def _column(surface: TwoOutcomes, at: int) -> Callable[[Point], float]:
    return lambda point: surface.effect(point)[at]


def tpe(surface: TwoOutcomes, noise: Array, seed: int) -> list[Reported]:
    """Return the best trials of Optuna's default sampler, which takes several outcomes too."""
    import optuna

    return _asked(surface, noise, optuna.samplers.TPESampler(seed=seed))


def nsga(surface: TwoOutcomes, noise: Array, seed: int) -> list[Reported]:
    """Return the best trials of Optuna's genetic sampler for several outcomes."""
    import optuna

    return _asked(surface, noise, optuna.samplers.NSGAIISampler(seed=seed, population_size=20))


def _asked(surface: TwoOutcomes, noise: Array, sampler: object) -> list[Reported]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values = iter(noise.tolist())
    default = [float(np.mean([next(values) for _ in range(_DEFAULTS)])) for _ in OUTCOMES]
    study = optuna.create_study(directions=["maximize"] * 2, sampler=sampler)  # type: ignore[arg-type]
    rows, points = [], []
    for _ in range(RUNS - _DEFAULTS):
        trial = study.ask({one.name: distribution(one) for one in surface.space.dimensions})
        measured = [effect + next(values) for effect in surface.effect(trial.params)]
        study.tell(trial, measured)
        points.append(trial.params)
        rows.append([value - zero for value, zero in zip(measured, default, strict=True)])
    best = [at for at in front_places(np.array(rows)) if max(rows[at]) > 0]
    return [Reported(surface.effect(points[at]), (rows[at][0], rows[at][1])) for at in best]


class Cell(NamedTuple):
    """What one method did on one surface."""

    volume: float
    none: float
    false: float
    loss: float
    points: float


def cell_of(surface: TwoOutcomes, fronts: Sequence[Sequence[Reported]]) -> Cell:
    """Return the figures of one cell."""
    reached = [volume([one.true for one in front]) / surface.volume if surface.volume else 0.0 for front in fronts]
    return Cell(
        volume=float(np.mean(reached)),
        none=_share(not front for front in fronts),
        false=_share(any(max(one.true) <= 1e-9 for one in front) for front in fronts),
        loss=_share(any(_is_lost(one) for one in front) for front in fronts),
        points=float(np.mean([len(front) for front in fronts])),
    )


def _is_lost(one: Reported) -> bool:
    return any(sold - true > _LOST for sold, true in zip(one.sold, one.true, strict=True))


def _share(given: object) -> float:
    return float(np.mean(list(given)))  # type: ignore[call-overload]


def main(arguments: list[str]) -> int:
    """Print a table a surface; return 1 if a target is missed."""
    searches = argument("SEARCHES", 20, how_many, arguments)
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    missed = []
    known: dict[str, Method] = {"ktrial search --also": ours, "Optuna, TPE": tpe, "Optuna, NSGA-II": nsga}
    print(f"{RUNS} runs a search, {searches} searches a cell")
    for place, surface in enumerate(surfaces()):
        print(f"\n{surface.name}\n\n| method | volume | nothing | false | 5 points worse than sold | points |")
        print("| --- " * 6 + "|")
        rows = noise_rows(searches, 10 + place)
        for name, method in known.items():
            one = cell_of(surface, [method(surface, rows[at], at) for at in range(searches)])
            cells = f"{one.volume:.0%} | {one.none:.0%} | {one.false:.0%} | {one.loss:.0%} | {one.points:.1f}"
            print(f"| {name} | {cells} |", flush=True)
            if method is ours and one.false > FALSE + slack(FALSE, searches):
                missed.append(f"{surface.name}: {one.false:.1%} false points")
    print(f"\nmissed: {'; '.join(missed) or 'nothing'} ({time.perf_counter() - begin:.0f} s)")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
