# SPDX-License-Identifier: Apache-2.0
"""Noise for simulated trials: recorded series, drawn again in stretches, generated noise, and disturbances.

A row is one trial, a column one run in the order of time; values are logarithms of scores around 0, larger is better.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.float64]
Generator = np.random.Generator

FOLDER = Path(__file__).parent / "noise"
#: Length of a stretch of a recorded series that stays together, which preserves the autocorrelation.
STRETCH = 8
LOWER_IS_BETTER = ("_s", "_ms", "_us")
DISTURBANCES = ("none", "warm-up", "drift", "load step", "wander", "two modes", "outliers")
GROWING = (
    "noise triples at once",
    "noise grows tenfold at once",
    "noise triples steadily",
    "noise grows tenfold steadily",
)


@cache
def recorded(*files: str) -> dict[str, Array]:
    """Return the log scores of every series without zeros, around its median. A run's maximum is never an outcome."""
    found: dict[str, list[float]] = {}
    for file in files or ("rr1.csv", "rr2.csv"):
        with (FOLDER / file).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                found.setdefault(f"{file}:{row['metric']}", []).append(float(row["value"]))
    series = {}
    for name, numbers in found.items():
        values = np.array(numbers)
        if name.endswith(("_steal", "_max_us")) or not (values > 0).all() or values.std() == 0:
            continue
        logs = np.log(values) * (-1.0 if name.endswith(LOWER_IS_BETTER) else 1.0)
        series[name] = logs - np.median(logs)
    return series


def counts(file: str, metric: str) -> Array:
    """Return a recorded series without changes."""
    with (FOLDER / file).open(encoding="utf-8", newline="") as lines:
        return np.array([float(row["value"]) for row in csv.DictReader(lines) if row["metric"] == metric])


def scaled(series: dict[str, Array], sd: float) -> list[Array]:
    """Return the shapes scaled to one sd; values beyond eight sd are cut."""
    return [np.clip(values / values.std(), -8, 8) * sd for values in series.values()]


def drawn(generator: Generator, shapes: list[Array], trials: int, runs: int) -> Rows:
    """Return noise in which each trial takes one shape, as a chain of stretches."""
    rows = np.empty((trials, runs))
    which = generator.integers(0, len(shapes), trials)
    for place, shape in enumerate(shapes):
        mine = np.nonzero(which == place)[0]
        starts = generator.integers(0, len(shape), (len(mine), -(-runs // STRETCH)))
        places = (starts[:, :, None] + np.arange(STRETCH)).reshape(len(mine), starts.shape[1] * STRETCH)[:, :runs]
        rows[mine] = shape[places % len(shape)]
    return rows


def volatile(generator: Generator, sd: float, trials: int, runs: int) -> Rows:
    """Return generated noise: heavy tails whose spread grows and shrinks slowly, skewed towards slow runs."""
    spread = np.ones(trials)
    rows = np.empty((trials, runs))
    for run in range(runs):
        shock = generator.standard_t(4, trials) / np.sqrt(2)
        rows[:, run] = np.where(shock < 0, 1.3 * shock, 0.8 * shock) * np.sqrt(spread)
        spread = 0.1 + 0.3 * np.minimum(shock**2, 20) * spread + 0.6 * spread
        spread = np.minimum(spread, 50)
    return np.asarray(sd * rows / rows.std())


def sawtooth(generator: Generator, sd: float, trials: int, runs: int) -> Rows:
    """Return generated noise: a periodic job (saw-tooth, random period and phase) under a clock with coarse steps."""
    period = generator.uniform(2, 17, (trials, 1))
    phase = generator.uniform(0, 1, (trials, 1))
    teeth = (np.arange(runs) / period + phase) % 1 - 0.5
    rows = 2 * teeth + generator.normal(0, 0.8, (trials, runs))
    rows = sd * rows / rows.std()
    step = sd / 2
    return np.asarray(np.round(rows / step) * step)


def disturbance(generator: Generator, kind: str, size: float, trials: int, runs: int) -> Rows:
    """Return the disturbance that is added to the noise; `size` is its typical size on the log scale."""
    time = np.arange(runs)
    sign = generator.choice((-1.0, 1.0), (trials, 1))
    much = size * generator.uniform(0.5, 1.5, (trials, 1))
    if kind == "warm-up":
        return np.asarray(sign * much * (1 - np.exp(-time / generator.uniform(4, 15, (trials, 1)))))
    if kind == "drift":
        return sign * much * time / 24
    if kind == "load step":
        begin = generator.integers(0, runs, (trials, 1))
        length = generator.integers(4, 30, (trials, 1))
        return np.asarray(-1.5 * much * ((time >= begin) & (time < begin + length)))
    if kind == "wander":
        return much * _wander(generator, trials, runs)
    if kind == "two modes":
        switches = generator.random((trials, runs)) < 0.15
        switches[:, 0] = generator.random(trials) < 0.5
        return -3 * much * (np.cumsum(switches, axis=1) % 2)
    if kind == "outliers":
        hit = generator.random((trials, runs)) < 0.06
        return -1.0 * hit * generator.exponential(4 * size, (trials, runs))
    return np.zeros((trials, runs))


def _wander(generator: Generator, trials: int, runs: int, memory: float = 0.95) -> Rows:
    steps = generator.normal(0, 1, (trials, runs))
    rows = np.empty((trials, runs))
    rows[:, 0] = steps[:, 0]
    for run in range(1, runs):
        rows[:, run] = memory * rows[:, run - 1] + np.sqrt(1 - memory**2) * steps[:, run]
    return rows


def growth(generator: Generator, kind: str, trials: int, runs: int) -> Rows:
    """Return the factors of a noise that becomes larger during the trial."""
    factor = 10.0 if "tenfold" in kind else 3.0
    if "steadily" in kind:
        return np.broadcast_to(factor ** np.linspace(0, 1, runs), (trials, runs))
    begin = generator.integers(4, runs - 4, (trials, 1))
    return np.where(np.arange(runs) >= begin, factor, 1.0)


Noise = Callable[[Generator, int, int], Rows]


def world(noise: Noise, kind: str, size: float) -> Noise:
    """Return noise with a disturbance; `mixed` draws a disturbance for each trial."""

    def rows(generator: Generator, trials: int, runs: int) -> Rows:
        values = noise(generator, trials, runs)
        if kind in GROWING:
            return values * growth(generator, kind, trials, runs)
        if kind != "mixed":
            return values + disturbance(generator, kind, size, trials, runs)
        which = generator.integers(0, len(DISTURBANCES), trials)
        for place, name in enumerate(DISTURBANCES):
            mine = np.nonzero(which == place)[0]
            values[mine] += disturbance(generator, name, size, len(mine), runs)
        return values

    return rows


def sources(sd: float | None) -> dict[str, Noise]:
    """Return recorded shapes at one sd, or unscaled (None), and with an sd also the generated noise."""
    series = recorded()
    shapes = list(series.values()) if sd is None else scaled(series, sd)
    found: dict[str, Noise] = {"recorded": lambda generator, trials, runs: drawn(generator, shapes, trials, runs)}
    if sd is not None:
        found["volatile"] = lambda generator, trials, runs: volatile(generator, sd, trials, runs)
        found["saw-tooth"] = lambda generator, trials, runs: sawtooth(generator, sd, trials, runs)
    return found
