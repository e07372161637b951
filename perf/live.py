# SPDX-License-Identifier: Apache-2.0
"""How often live trials are wrong and what they find, replayed on recorded live work; and the same for guards.

Run in a checkout that is set up:  .venv/bin/python -m perf.live [REPLAYS]   (2,000 a cell; some 15 minutes)

- Replays: periods of a trial are cut out of `perf/live` (a day of load every 20 minutes, nothing changed), several
  blocks in a row from one place. The pilot is the first part of the recording: it gives washout, period and cap, which
  are stated first, for `--for 23h` or, if that is too short to promise 3 %, `--for 2d` (all blocks are then made). Then
  the shipped judge decides trials of equal arms, and of an arm that is 3 % slower. `adjusted` trials are judged at
  equal load (`--adjust`).
- Beside it the canary rule in use: ten waves, and the canary's mean may exceed the control's by two sd of its waves.
- Guards: equal arms in noise that remembers, and in the recordings; a step of 50 %; 7 of 10 values 100 times worse.

Exits with status 1 if more than 5 % of equal arms get a verdict, if 3 % is found in less than 90 % although the plan
promises it, if guards trip in more than 1 % of the generated noise, or if a step takes longer than two scrapes or 10 s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from scipy.stats import binomtest

from ktrial.judge.judge import judge
from ktrial.judge.model.log import BlockDrawn, Event, RunEnded, block_order
from ktrial.live.guard import Guard, GuardWatch
from ktrial.live.pilot import LivePlan, LiveWish, PilotSwitch, plan_live
from perf.arguments import argument, how_many
from perf.noise_sources import Array, Generator
from perf.simulated_trials import ARM, CONTROL, OUTCOME, protocol_of
from tests.support.live_noise import GUARDED, WatchedTrial, remembering, samples_of

FOLDER = Path(__file__).parent / "live"
PLANTED, WAVES = 0.03, 10
PILOT_S, SWITCHED_S = 1_800, 120
#: The times that a user allows. A trial of a day or more makes all its blocks.
ALLOWED_S = (23 * 3_600, 48 * 3_600)
#: Blocks in a row come from one place of a recording, up to this share of it.
STRETCH = 0.3
MOST_FALSE, LEAST_FOUND, MOST_TRIPS = 0.05, 0.90, 0.01
#: Probability that a target is missed by chance.
CHANCE = 0.001
SECOND, REQUESTS, P50, MEAN, P99, CPU = range(6)


class Recorded:
    """One outcome of a recording, with a row for each second: its value, and the logarithm of its load."""

    def __init__(self, name: str, values: Array, loads: Array) -> None:
        self.name, self.values, self.loads = name, values, loads
        self._sums = np.vstack((np.zeros(2), np.cumsum(np.column_stack((values, loads)), axis=0))).tolist()

    def reading(self, begin: int, length: int) -> tuple[float, float]:
        """Return the reading of a period: the means of outcome and covariate."""
        (value, load), (value_end, load_end) = self._sums[begin], self._sums[begin + length]
        return (value_end - value) / length, (load_end - load) / length


@cache
def recording(file: str) -> Array:
    """Return the rows of a recording, one per second; a second without requests repeats the previous row."""
    rows = np.loadtxt(FOLDER / file, delimiter=",", skiprows=1)
    whole = np.arange(int(rows[0, SECOND]), int(rows[-1, SECOND]) + 1)
    return np.asarray(rows[np.searchsorted(rows[:, SECOND], whole, side="right") - 1])


def outcomes() -> Iterator[Recorded]:
    """Yield the outcomes to judge: median latencies, and CPU time per request. Lower is better for all."""
    for server in ("redis", "pgbench"):
        rows = recording(f"{server}.csv")
        loads = np.log(rows[:, REQUESTS])
        yield Recorded(f"{server}, median latency", rows[:, P50], loads)
        yield Recorded(f"{server}, CPU per request", np.maximum(rows[:, CPU], 1) / rows[:, REQUESTS], loads)


def plan_of(recorded: Recorded, *, adjusts: bool = True) -> LivePlan:
    """Return the plan from a pilot that switched every two minutes between equal arms: the shortest that finds 3 %."""
    switches = [
        PilotSwitch(1_000 * at, (CONTROL, ARM)[place % 2]) for place, at in enumerate(range(0, PILOT_S, SWITCHED_S))
    ]
    loads = {"load": samples_of(recorded.loads[:PILOT_S])} if adjusts else {}
    values = samples_of(recorded.values[:PILOT_S])
    plans = []
    for longest_s in ALLOWED_S:
        wish = LiveWish(direction="lower", detect=PLANTED, least_washout_s=5.0, longest_s=longest_s - PILOT_S)
        plans.append(plan_live(values, wish, switches, loads))
    return next((plan for plan in plans if plan.can_detect), plans[-1])


Periods = list[tuple[float, float]]


def periods(recorded: Recorded, plan: LivePlan, blocks: int, generator: Generator) -> Periods:
    """Return the readings of the periods of a trial, in the order of time."""
    washout, length = round(plan.washout_s), round(plan.period_s)
    span = 2 * (washout + length)
    most = len(recorded.values) - span
    in_row = max(1, min(int(STRETCH * len(recorded.values)) // span, blocks))
    found: Periods = []
    while len(found) < 2 * blocks:
        begin = int(generator.integers(0, most - (in_row - 1) * span + 1))
        for place in range(2 * in_row):
            found.append(recorded.reading(begin + place * (washout + length) + washout, length))
    return found[: 2 * blocks]


def replay_log(plan: LivePlan, readings: Periods, slower: float, seed: int, *, adjusts: bool) -> list[Event]:
    """Return the log of a trial on these periods. `slower` multiplies the arm's values."""
    protocol = msgspec.structs.replace(
        protocol_of(plan.cap, seed),
        adjust=("load",) if adjusts else msgspec.UNSET,
        fixed=True if plan.duration_s > ALLOWED_S[0] else msgspec.UNSET,
    )
    log: list[Event] = [protocol]
    for block in range(1, plan.cap + 1):
        order = block_order(seed, block, (CONTROL, ARM))
        log.append(BlockDrawn(block=block, order=order))
        for place, arm in enumerate(order):
            number = 2 * (block - 1) + place
            value, load = readings[number]
            measured = {OUTCOME: value * (slower if arm == ARM else 1.0)}
            log.append(RunEnded(run=number + 1, block=block, arm=arm, measurements=measured, covariates={"load": load}))
    return log


class Shares(NamedTuple):
    """Shares of replays with each verdict, and the mean number of blocks."""

    better: float
    worse: float
    equivalent: float
    blocks: float


def replays(
    recorded: Recorded, plan: LivePlan, slower: float, count: int, generator: Generator, *, adjusts: bool
) -> Shares:
    """Return the verdicts of the shipped judge on this many trials."""
    verdicts, blocks = [], []
    for _ in range(count):
        seed = int(generator.integers(0, 2**31))
        log = replay_log(plan, periods(recorded, plan, plan.cap, generator), slower, seed, adjusts=adjusts)
        (found,) = (one for one in judge(log).judged if one.role == "primary")
        verdicts.append(found.verdict)
        blocks.append(found.blocks)
    better, worse, equivalent = (verdicts.count(word) / count for word in ("better", "worse", "equivalent"))
    return Shares(better, worse, equivalent, float(np.mean(blocks)))


def canary(recorded: Recorded, plan: LivePlan, slower: float, count: int, generator: Generator) -> float:
    """Return the share of roll-outs in which the rule in use stops the canary."""
    stopped = 0
    for _ in range(count):
        values = np.array([value for value, _ in periods(recorded, plan, WAVES, generator)]).reshape(WAVES, 2)
        values = generator.permuted(values, axis=1)
        control, tried = values[:, 0], values[:, 1] * slower
        stopped += bool(tried.mean() > control.mean() + 2 * control.std(ddof=1))
    return stopped / count


def trips_in_noise(count: int, generator: Generator) -> float:
    """Return the share of trials of equal arms in autocorrelated noise in which a guard trips."""
    trips = 0
    for trial in range(count):
        memory = (0.0, 0.3, 0.6, 0.9, 0.95, 0.99)[trial % 6]
        logs = remembering(generator, 3_000, memory, 0.03, tails=trial % 12 > 5)
        trips += WatchedTrial(generator, Guard(metric=GUARDED, direction="lower")).watch(logs) is not None
    return trips / count


def trips_in_bursts(count: int, pilot: int, generator: Generator) -> float:
    """Return the share of trials of equal arms that trip in noise with a burst of about 5 s every 5 minutes."""
    trips = 0
    for _ in range(count):
        logs = remembering(generator, pilot + 2_400, 0.6, 0.03)
        for begin in np.flatnonzero(generator.random(len(logs)) < 1 / 300):
            logs[begin : begin + generator.geometric(0.2)] += 0.6
        trial = WatchedTrial(generator, Guard(metric=GUARDED, direction="lower"))
        trips += trial.watch(logs, pilot=pilot) is not None
    return trips / count


def trips_in_recording(values: Array, count: int, generator: Generator) -> float:
    """Return the share of trials of equal arms, each in half an hour of a recording, in which a guard trips."""
    trips = 0
    for _ in range(count):
        begin = int(generator.integers(0, len(values) - 1_800 + 1))
        trial = WatchedTrial(generator, Guard(metric=GUARDED, direction="lower"))
        trips += trial.watch(np.log(values[begin : begin + 1_800]), blocks=10) is not None
    return trips / count


def steps_seen(count: int, every_ms: int, generator: Generator) -> Array:
    """Return the number of the arm's samples until a step of 50 % trips; infinite if it does not."""
    found = []
    for _ in range(count):
        trial = WatchedTrial(generator, Guard(metric=GUARDED, direction="lower"), every_ms=every_ms)
        trial.watch(remembering(generator, 900, 0.6, 0.03), math.log(1.5), blocks=2)
        found.append(math.inf if trial.tripped_at is None else trial.tripped_at)
    return np.array(found)


def most_values_worse(count: int, generator: Generator) -> tuple[float, float]:
    """Return how often a guard, and how often two sd of all values, detect 7 of 10 values that are 100 times worse."""
    caught = ruled = 0
    for _ in range(count):
        watch = GuardWatch([Guard(metric=GUARDED, direction="lower")], [CONTROL, ARM], CONTROL, blocks=10, samples=10)
        watch.learn(GUARDED, samples_of(np.exp(remembering(generator, 600, 0.6, 0.03))))
        watch.begin_period(ARM)
        control, tried = np.exp(generator.normal(0, 0.03, (2, 10)))
        tried[generator.permutation(10)[:7]] *= 100
        caught += watch.take(GUARDED, ARM, samples_of(tried, 600)) is not None
        ruled += bool(tried.mean() > control.mean() + 2 * np.concatenate((control, tried)).std(ddof=1))
    return caught / count, ruled / count


def is_beyond(share: float, count: int, limit: float, side: Literal["less", "greater"]) -> bool:
    """Return whether a share is beyond its limit by more than chance."""
    return bool(binomtest(round(share * count), count, limit, alternative=side).pvalue < CHANCE)


class Cell(NamedTuple):
    """What is replayed of an outcome, with or without `--adjust`."""

    recorded: Recorded
    adjusts: bool
    trials: int
    generator: Generator


def replay_cell(cell: Cell) -> tuple[str, bool]:
    """Return a line of the table, and whether a target was missed."""
    recorded, adjusts, count, generator = cell
    plan = plan_of(recorded, adjusts=adjusts)
    planted, equal = (
        replays(recorded, plan, slower, count, generator, adjusts=adjusts) for slower in (1 + PLANTED, 1.0)
    )
    stops = [canary(recorded, plan, slower, count, generator) for slower in (1 + PLANTED, 1.0)]
    missed = is_beyond(equal.better + equal.worse, count, MOST_FALSE, "greater")
    missed |= plan.can_detect and is_beyond(planted.worse, count, LEAST_FOUND, "less")
    line = (
        f"{recorded.name + (', adjusted' if adjusts else ''):34}{plan.lag1:6.2f}"
        f"{plan.washout_s:9.0f} + {plan.period_s:4.0f} s"
        f"{plan.sd:7.1%}{plan.cap:5}{plan.duration_s / 3600:7.1f}{planted.worse:8.1%}{planted.blocks:8.0f}"
        f"{equal.better + equal.worse:7.1%}{equal.equivalent:7.1%}{stops[0]:14.1%}{stops[1]:7.1%}"
    )
    return line + ("" if plan.can_detect else f"   (the plan promises {plan.smallest_effect:.1%} only)"), missed


def report_replays(count: int, generator: Generator) -> bool:
    """Print the plans and the table. Return whether a target was missed."""
    print(f"live trials replayed, {count} a cell; planted: {PLANTED:.0%} slower")
    head = f"{'outcome':34}{'lag 1':>6}{'washout + period':>18}{'sd':>7}{'cap':>5}{'hours':>7}"
    print(f"{head}{'found':>8}{'blocks':>8}{'A/A':>7}{'equal':>7}{'canary finds':>14}{'A/A':>7}", flush=True)
    kinds = [(recorded, adjusts) for recorded in outcomes() for adjusts in (False, True)]
    cells = [Cell(*kind, count, one) for kind, one in zip(kinds, generator.spawn(len(kinds)), strict=True)]
    missed = False
    with ProcessPoolExecutor() as pool:
        for line, misses in pool.map(replay_cell, cells):
            print(line, flush=True)
            missed |= misses
    return missed


def report_guards(count: int, generator: Generator) -> bool:
    """Print the results of guards. Return whether a target was missed."""
    share = trips_in_noise(count, generator)
    missed = is_beyond(share, count, MOST_TRIPS, "greater")
    print(f"\nguards trip in {share:.2%} of {count} trials of equal arms in noise that remembers", flush=True)
    for pilot in (600, 1_200):
        share = trips_in_bursts(count // 4, pilot, generator)
        print(f"... in {share:.2%} of {count // 4} with bursts and a pilot of {pilot} s", flush=True)
    for server in ("redis", "pgbench"):
        for name, column in (("median", P50), ("p99", P99)):
            share = trips_in_recording(recording(f"{server}.csv")[:, column], count // 4, generator)
            print(f"... in {share:.2%} of {count // 4} on the recording of {server}, {name} latency", flush=True)
    for every_ms in (1_000, 15_000):
        seen = steps_seen(count // 10, every_ms, generator)
        limit = max(2, 10_000 // every_ms)
        missed |= bool((seen > limit).mean() > 0.01)
        print(
            f"a step of 50 %, a sample every {every_ms // 1000} s: seen after {np.median(seen):.0f} samples "
            f"(median), {np.quantile(seen, 0.99):.0f} (99 %), {seen.max():.0f} (most)"
        )
    caught, ruled = most_values_worse(count // 10, generator)
    missed |= caught < 1
    print(f"7 of 10 values 100 times worse: guards catch {caught:.0%}, mean + 2 sd of all values {ruled:.0%}")
    return missed


def main() -> int:
    count = argument("REPLAYS", 2_000, how_many)
    generator = np.random.default_rng(34)
    missed = report_replays(count, generator)
    return int(report_guards(count, generator) or missed)


if __name__ == "__main__":
    raise SystemExit(main())
