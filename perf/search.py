# SPDX-License-Identifier: Apache-2.0
"""Searches of surfaces with a known optimum on recorded noise: `ktrial search` beside methods that pick the best trial.

Run in a checkout that is set up:  .venv/bin/python -m perf.search [SEARCHES]   (20 a cell; an hour of CPU)
For the numbers of a release: 500 (8 hours of CPU, half of them for SMAC3). SMAC3 joins if it can be imported (pip
install smac); irace joins if Rscript finds it (Debian's r-cran-irace). They, and the methods that show the cost, make
at most 50 searches a cell.

Each space has 12 dimensions: four logarithmic ranges, four plain ones, four lists. Every method gets 150 runs, which
include the confirmation of `ktrial search`. That runs through its own course, the trial loop and the judge. The others
measure each point once and report their best, against the mean of three runs of the control. Noise: recorded shapes at
an sd of 3 %, with a disturbance drawn for each search (drift, load steps, wander, two modes, outliers).

- regret: by how much the deployed point is worse than the optimum; where nothing is confirmed, the control is deployed
- loss: how often the deployed point is 5 points worse than it was sold
- false: how often something is sold that is not better than the control
- cost: how often the deployed point is within a point of the optimum, with half, twice and four times as many runs, and
  by `ktrial tune`, which tries three values of each range and all of each list, one by one

Exits with status 1 if a target is missed by more than Monte Carlo error: false winners and losses at most 5 %, regret
within a percentage point of the best peer.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ktrial.studies.blame.model import BlamePart
from ktrial.studies.search.model import SearchStep
from ktrial.studies.search.propose import distribution
from ktrial.studies.search.space import Dimension, Point, Scalar, Space
from ktrial.studies.tune.model import TuneArm, TuneGroup, TuneQuestion
from ktrial.studies.tune.select import MOST_ARMS, follow
from ktrial.trial.protocol.file import TrialFile
from perf.arguments import argument, how_many
from perf.noise_sources import Array, sources, world
from tests.support.search import MadeMachine, choice, number, question_of, run_search, space_of

RUNS, SD = 150, 0.03
#: Searches a cell of the other methods at most: one of SMAC3 takes a minute.
_FEWER = 50
_FAST = ("ktrial search", "Optuna alone", "random")
_IRACE = Path(__file__).parent / "search_irace.R"
#: Runs of the control by which a peer says how much better its best trial is.
_DEFAULTS = 3
FALSE, LOSS, REGRET = 0.05, 0.05, 0.01
_LOST, _NEAR = 0.05, 0.01
Effect = Callable[[Point], float]


class Surface(NamedTuple):
    """The effect of a point on the score, relative to the control; `optimum` is the largest effect."""

    name: str
    space: Space
    effect: Effect
    optimum: float


class Result(NamedTuple):
    """The true effect of the point that a search deploys, and the effect that it claims; both 0 if it deploys none."""

    true: float
    sold: float
    is_sold: bool
    runs: int


Method = Callable[[Surface, Array, int], Result]


def twelve() -> Space:
    """Return the space that all surfaces share."""
    ranges = [number(f"log{at}", 1, 1000, 10, log=True) for at in range(4)]
    ranges += [number(f"plain{at}", 0, 200, 60) for at in range(4)]
    return space_of(*ranges, *(choice(f"list{at}", "x", "y", "z") for at in range(4)))


def _bump(place: float, at: float, width: float) -> float:
    return math.exp(-0.5 * ((place - at) / width) ** 2)


@cache
def surfaces() -> tuple[Surface, ...]:
    """Return the surfaces, each with its optimum, which a fine search without noise finds."""
    space = twelve()

    def at(point: Point, name: str) -> float:
        return space.of(name).place(point[name])

    def three(point: Point) -> float:
        ranges = 0.06 * _bump(at(point, "log0"), 0.75, 0.2) + 0.04 * _bump(at(point, "plain0"), 0.9, 0.25)
        return ranges + 0.03 * (point["list0"] == "z")

    def pair(point: Point) -> float:
        both = _bump(at(point, "log0"), 0.8, 0.2) * _bump(at(point, "plain0"), 0.8, 0.25)
        return 0.12 * both - 0.05 * (point["list1"] == "y")

    def mostly_bad(point: Point) -> float:
        good = 0.08 * _bump(at(point, "log0"), 0.6, 0.15) + 0.05 * (point["list2"] == "y")
        bad = 0.3 * max(0.0, at(point, "plain1") - 0.6) + 0.2 * max(0.0, at(point, "log2") - 0.6)
        return good - bad - 0.1 * (point["list3"] == "z")

    found = [Surface("nothing matters", space, lambda _: 0.0, 0.0)]
    for name, raw in (("three of twelve", three), ("a pair only together", pair), ("most of it bad", mostly_bad)):
        base = raw(space.control)
        effect = _against(raw, base)
        found.append(Surface(name, space, effect, optimum_of(space, effect)))
    return tuple(found)


def _against(raw: Effect, base: float) -> Effect:
    return lambda point: raw(point) - base


def optimum_of(space: Space, effect: Effect, tries: int = 6000) -> float:
    """Return the largest effect, from random points and then from changes of the best point."""
    rng = np.random.default_rng(5)
    best = dict(space.control)
    for step in range(2 * tries):
        base = {} if step < tries else best
        moved = {
            one.name: one.draw(rng) if not base or rng.random() < 0.15 else base[one.name] for one in space.dimensions
        }
        if effect(moved) > effect(best):
            best = moved
    return effect(best)


def ours(surface: Surface, noise: Array, seed: int, runs: int = RUNS) -> Result:
    """Return what `ktrial search` confirms."""
    machine = MadeMachine({"time": surface.effect}, _endless(noise))
    found, _ = run_search(question_of(surface.space, runs, seed), machine)
    if not found.winner or found.effect is None:
        return Result(0.0, 0.0, False, found.runs)
    return Result(surface.effect({**surface.space.control, **found.winner}), found.effect.estimate, True, found.runs)


def _endless(noise: Array) -> Iterator[float]:
    while True:
        yield from noise.tolist()


def optuna_alone(surface: Surface, noise: Array, seed: int) -> Result:
    """Return the best trial of Optuna's default sampler."""
    import optuna

    return _asked(surface, noise, optuna.samplers.TPESampler(seed=seed))


def random_search(surface: Surface, noise: Array, seed: int) -> Result:
    """Return the best of random points."""
    import optuna

    return _asked(surface, noise, optuna.samplers.RandomSampler(seed=seed))


def _asked(surface: Surface, noise: Array, sampler: object) -> Result:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values = iter(noise.tolist())
    default = float(np.mean([next(values) for _ in range(_DEFAULTS)]))
    study = optuna.create_study(direction="maximize", sampler=sampler)  # type: ignore[arg-type]
    for _ in range(RUNS - _DEFAULTS):
        trial = study.ask({one.name: distribution(one) for one in surface.space.dimensions})
        study.tell(trial, surface.effect(trial.params) + next(values))
    return Result(surface.effect(study.best_trial.params), study.best_value - default, True, RUNS)


def smac(surface: Surface, noise: Array, seed: int) -> Result:
    """Return the incumbent of SMAC3's facade for hyperparameters, which repeats runs of promising points."""
    from ConfigSpace import Categorical, ConfigurationSpace, Float, Integer  # type: ignore[import-not-found]
    from smac import HyperparameterOptimizationFacade, Scenario  # type: ignore[import-not-found]

    values = iter(noise.tolist())
    default = float(np.mean([next(values) for _ in range(_DEFAULTS)]))
    seen: dict[tuple[tuple[str, Scalar], ...], list[float]] = {}

    def cost(config: object, seed: int = 0) -> float:
        del seed
        point: Point = dict(config)  # type: ignore[call-overload]
        value = float(surface.effect(point) + next(values))
        seen.setdefault(tuple(sorted(point.items())), []).append(value)
        return -float(value)

    def parameter(one: Dimension) -> object:
        if not one.is_range:
            return Categorical(one.name, list(one.values))
        kind = Integer if one.is_whole else Float
        return kind(one.name, (one.low, one.high), log=one.log)

    space = ConfigurationSpace(seed=seed)
    space.add([parameter(one) for one in surface.space.dimensions])
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            space, n_trials=RUNS - _DEFAULTS, deterministic=False, seed=seed, output_directory=Path(folder)
        )
        best = HyperparameterOptimizationFacade(scenario, cost, overwrite=True, logging_level=50).optimize()
    point: Point = dict(best)
    sold = float(np.mean(seen[tuple(sorted(point.items()))])) - default
    return Result(surface.effect(point), sold, True, RUNS)


def irace(surface: Surface, noise: Array, seed: int) -> Result:
    """Return the best configuration of irace, which repeats runs and drops configurations by tests."""
    values = iter(noise.tolist())
    default = float(np.mean([next(values) for _ in range(_DEFAULTS)]))
    seen: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as named:
        asks, answers, parameters = (Path(named) / name for name in ("asks", "answers", "parameters"))
        os.mkfifo(asks)
        os.mkfifo(answers)
        parameters.write_text("".join(map(_irace_parameter, surface.space.dimensions)))
        words = ["Rscript", str(_IRACE), *map(str, (asks, answers, parameters, RUNS - _DEFAULTS, 1 + seed))]
        with (
            subprocess.Popen(words, stdout=subprocess.DEVNULL) as started,
            asks.open() as asked,
            answers.open("w", buffering=1) as answered,
        ):
            for line in asked:
                text = line.strip()
                if text.startswith("best "):
                    break
                value = surface.effect(_irace_point(surface.space, text)) + next(values)
                seen.setdefault(text, []).append(value)
                answered.write(f"{-value}\n")
            else:
                raise RuntimeError(f"irace ended without a result, with status {started.wait()}")
    best = text.removeprefix("best ")
    return Result(surface.effect(_irace_point(surface.space, best)), float(np.mean(seen[best])) - default, True, RUNS)


def _irace_parameter(one: Dimension) -> str:
    if not one.is_range:
        return f'{one.name} "" c ({",".join(map(str, one.values))})\n'
    kind = "i" if one.is_whole else "r"
    return f'{one.name} "" {kind}{",log" if one.log else ""} ({one.low:g},{one.high:g})\n'


def _irace_point(space: Space, text: str) -> Point:
    return _point(space, dict(word.split("=") for word in text.split()))


def tune_runs(surface: Surface, noise: Array, seed: int) -> Result:
    """Return what `ktrial tune` keeps if it tries three values of each range and all of each list, one by one."""
    question = question_of(surface.space, RUNS, seed)
    arms: list[TuneArm] = []
    for one in surface.space.dimensions:
        for value in _candidates(one):
            arms.append(TuneArm(name=f"{len(arms) + 1}", knob=one.name, settings={one.name: str(value)}))
    groups = [tuple(arms[begin : begin + MOST_ARMS]) for begin in range(0, len(arms), MOST_ARMS)]
    asked = TuneQuestion(
        name="tune", groups=tuple(TuneGroup(trial=question.trial, arms=some) for some in groups), seed=seed
    )
    machine = MadeMachine({"time": surface.effect}, _endless(noise))
    parts: list[BlamePart] = []
    while isinstance(file := follow(asked, parts), TrialFile):
        points = {name: _point(surface.space, arm.set) for name, arm in file.arms.items()}
        part = machine.run_trial(SearchStep("confirm", file, points))
        made = BlamePart(
            trial=file.name, file=file, judgement=part.judgement, runs=part.visits, directions=part.directions
        )
        parts.append(made)
    return Result(surface.effect(_point(surface.space, file.kept)), 0.0, bool(file.kept), file.runs)


def _candidates(one: Dimension) -> list[Scalar]:
    if not one.is_range:
        return [value for value in one.values if value != one.default]
    assert one.low is not None, "a range has both ends"
    assert one.high is not None, "a range has both ends"
    places = (0.1, 0.5, 0.9)
    if one.log:
        return [round(one.low * (one.high / one.low) ** place) for place in places]
    return [round(one.low + place * (one.high - one.low)) for place in places]


def _point(space: Space, changes: Mapping[str, Scalar]) -> Point:
    """Return the control with these changes, whose values are texts."""
    typed = {name: int(value) if space.of(name).is_range else value for name, value in changes.items()}
    return {**space.control, **typed}


class Cell(NamedTuple):
    """What one method did on one surface; `near` is the share that ends within a point of the optimum."""

    regret: float
    regret_error: float
    false: float
    loss: float
    near: float
    runs: float


def cell_of(surface: Surface, results: Sequence[Result]) -> Cell:
    """Return the figures of one cell; regret comes with its Monte Carlo error."""
    regrets = np.array([surface.optimum - one.true for one in results])
    sold = [one for one in results if one.is_sold]
    size = len(results)
    return Cell(
        regret=float(regrets.mean()),
        regret_error=float(regrets.std(ddof=1) / math.sqrt(size)) if size > 1 else math.nan,
        false=sum(one.true <= 1e-9 for one in sold) / size,
        loss=sum(one.sold - one.true > _LOST for one in sold) / size,
        near=float((regrets <= _NEAR).mean()),
        runs=float(np.mean([one.runs for one in results])),
    )


def slack(share: float, searches: int) -> float:
    """Return by how much a simulated share may miss the target."""
    return 3 * math.sqrt(share * (1 - share) / searches)


PEERS: dict[str, Method] = {"Optuna alone": optuna_alone, "random": random_search, "SMAC3": smac, "irace": irace}
#: All methods, ours first. The last ones show what the optimum costs; `ktrial tune` takes as many runs as it needs.
METHODS: dict[str, Method] = {
    "ktrial search": ours,
    **PEERS,
    **{f"ktrial search, {runs} runs": partial(ours, runs=runs) for runs in (RUNS // 2, 2 * RUNS, 4 * RUNS)},
    "ktrial tune": tune_runs,
}


def missing() -> set[str]:
    """Return the methods that cannot run here."""
    found = set()
    if importlib.util.find_spec("smac") is None:
        found.add("SMAC3")
    rscript = shutil.which("Rscript")
    if (
        rscript is None
        or subprocess.run([rscript, "-e", "library(irace)"], check=False, capture_output=True).returncode
    ):
        found.add("irace")
    return found


def one_search(name: str, place: int, searches: int, at: int) -> Result:
    """Return what a method finds in one of so many searches of a surface."""
    warnings.simplefilter("ignore")
    return METHODS[name](surfaces()[place], noise_rows(searches, place)[at], at)


@cache
def noise_rows(searches: int, seed: int) -> Array:
    """Return a row of noise for each search."""
    made = world(sources(SD)["recorded"], "mixed", SD)
    return made(np.random.default_rng(seed), searches, 8 * RUNS)


def missed_by(surface: Surface, cells: dict[str, Cell], searches: int) -> Iterator[str]:
    """Yield the targets that ktrial misses on a surface."""
    mine = cells["ktrial search"]
    if mine.false > FALSE + slack(FALSE, searches):
        yield f"{surface.name}: {mine.false:.1%} false winners"
    if mine.loss > LOSS + slack(LOSS, searches):
        yield f"{surface.name}: {mine.loss:.1%} losses"
    best = min(one.regret for name, one in cells.items() if name in {"ktrial search", *PEERS})
    if mine.regret > best + REGRET + 3 * mine.regret_error:
        yield f"{surface.name}: regret {mine.regret:.3f} against {best:.3f}"


def main(arguments: list[str]) -> int:
    """Print a table for each surface; return 1 if a target is missed."""
    searches = argument("SEARCHES", 20, how_many, arguments)
    begin = time.perf_counter()
    missed: list[str] = []
    absent = missing()
    print(
        f"{RUNS} runs a search, noise of {SD:.0%}, {searches} searches a cell (slow methods {_FEWER}); ",
        end="",
    )
    print(f"not here: {', '.join(sorted(absent)) or 'nothing'}")
    with ProcessPoolExecutor() as pool:
        for place, surface in enumerate(surfaces()):
            print(f"\n{surface.name}: the optimum is {100 * surface.optimum:.1f} points above the control\n")
            print("| method | searches | regret, points | within a point | sold and not better | ", end="")
            print("5 points worse than sold | runs |\n" + "| --- " * 7 + "|")
            cells = {}
            for name in METHODS:
                if name in absent:
                    continue
                count = searches if name in _FAST else min(searches, _FEWER)
                results = list(pool.map(partial(one_search, name, place, searches), range(count), chunksize=5))
                cells[name] = one = cell_of(surface, results)
                regret = f"{100 * one.regret:.2f} ± {100 * one.regret_error:.2f}"
                losses = "" if name == "ktrial tune" else f"{one.loss:.1%}"
                shares = f"{one.near:.0%} | {one.false:.1%} | {losses}"
                print(f"| {name} | {count} | {regret} | {shares} | {one.runs:.0f} |", flush=True)
            missed += missed_by(surface, cells, searches)
    print(f"\nmissed: {'; '.join(missed) or 'nothing'} ({time.perf_counter() - begin:.0f} s)")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
