# SPDX-License-Identifier: Apache-2.0
"""The cost and the errors of `ktrial ab`, beside hyperfine, and the false keeps of campaigns.

Run in a checkout that is set up:  .venv/bin/python -m perf.ab [TRIALS]   (2,000 a cell; some minutes)

- Own cost: both tools make the same runs of two commands of 0.1 s. All time besides the runs is the tool's own.
- False claims: two equal commands, on recorded noise with disturbances, judged by the shipped judge; beside it
  hyperfine's summary ("x times faster", which people read as ratio - sd > 1) on the same noise.
- Campaigns: 500 of 32 decisions in which no candidate differs; beside them the rule "better than the best by k·sd"
  with one run of each candidate, whose sd is 0.

Exits with status 1 if `ab` or a campaign is wrong in more than 5 %, beyond Monte Carlo error.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from scipy.stats import binomtest

from ktrial.judge.judge import judge
from ktrial.judge.model.log import Protocol
from perf.arguments import argument, how_many
from perf.decide import SIZES
from perf.noise_sources import Array, Generator, Noise, sources, world
from perf.peers import hyperfine
from perf.simulated_trials import protocol_of, trial_log

COMMANDS = ("sleep 0.1", "sleep 0.1 ")
ROUNDS = 5
MOST_BLOCKS, MOST_FALSE = 20, 0.05
CAMPAIGNS, DECISIONS = 500, 32
#: Number of waits for other trials on this machine, and the seconds of each.
MOST_WAITS, WAIT_S = 100, 5.0
#: Probability that a target is missed by chance.
CHANCE = 0.001


class OwnCost(NamedTuple):
    """The time that a tool takes besides the runs, in seconds: for each run, and once from start to end."""

    each_s: float
    once_s: float
    runs: int
    run_s: float

    @property
    def per_run_s(self) -> float:
        """The time of a run with everything around it."""
        return self.run_s + self.each_s


def _timed(words: Sequence[str], folder: Path) -> tuple[float, bytes]:
    """Return how long a command took and its output. Wait for other trials on this machine first."""
    environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    left = MOST_WAITS
    while True:
        began_s = time.perf_counter()
        found = subprocess.run(words, check=False, env=environment, capture_output=True)
        wall_s = time.perf_counter() - began_s
        if found.returncode == 0:
            return wall_s, found.stdout
        if not left or b"another trial runs" not in found.stderr:
            raise SystemExit(found.stderr.decode(errors="replace"))
        left -= 1
        time.sleep(WAIT_S)


def cost_of_ours(folder: Path) -> OwnCost:
    """Return the cost of `ktrial ab`: the time between the end of a run and the beginning of the next one."""
    wall_s, told = _timed([sys.executable, "-m", "ktrial", "ab", "--json", *COMMANDS], folder)
    records = [event["record"] for line in told.splitlines() if "record" in (event := json.loads(line))]
    times_s = [one["resources"]["wall_ns"] / 1e9 for one in records]
    begun_s = [one["started_monotonic_ns"] / 1e9 for one in records]
    gaps_s = [after - begin - took for begin, took, after in zip(begun_s, times_s, begun_s[1:], strict=False)]
    each_s = statistics.median(gaps_s)
    return OwnCost(each_s, wall_s - sum(times_s) - each_s * len(gaps_s), len(records), statistics.median(times_s))


def cost_of_hyperfine(folder: Path, runs: int) -> OwnCost:
    """Return the cost of hyperfine for this many runs, two of them warm-ups. All of its time counts for its runs."""
    exported = folder / "times.json"
    words = ["hyperfine", "-N", "--style", "none", "--warmup", "1", "--runs", str((runs - 2) // 2)]
    wall_s, _ = _timed([*words, "--export-json", str(exported), *COMMANDS], folder)
    times_s = [value for result in json.loads(exported.read_text())["results"] for value in result["times"]]
    typical_s, made = statistics.median(times_s), len(times_s) + 2
    return OwnCost((wall_s - sum(times_s) - 2 * typical_s) / made, 0.0, made, typical_s)


def report_costs(rounds: int = ROUNDS) -> None:
    """Print the own cost of both tools, whose calls alternate."""
    if shutil.which("hyperfine") is None:
        print("own cost: hyperfine is not installed, so there is nothing to compare with")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = [(one := cost_of_ours(folder), cost_of_hyperfine(folder, one.runs)) for _ in range(rounds)]
    for name, found in zip(("ktrial ab", "hyperfine -N"), zip(*pairs, strict=True), strict=True):
        each, once = (
            statistics.median(values) for values in zip(*((one.each_s, one.once_s) for one in found), strict=True)
        )
        print(f"{name:14} own cost {1e3 * each:6.1f} ms a run, {once:5.2f} s once ({found[0].runs} runs of 0.1 s)")
    ratio = statistics.median(ours.per_run_s / peer.per_run_s for ours, peer in pairs)
    print(f"a run of `ktrial ab` with all that is around it takes {ratio:.2f} times as long as one of hyperfine\n")


def verdict_of(protocol: Protocol, noise: Array) -> str | None:
    """Return the judge's verdict on two equal commands whose runs have this noise."""
    (found,) = (one for one in judge(trial_log(protocol, noise, 0.0)).judged if one.role == "primary")
    return found.verdict


def protocol_at(seed: int, alpha: float = 0.05) -> Protocol:
    """Return the protocol of `ktrial ab`, which has no noise profile and whose cap is its budget."""
    return msgspec.structs.replace(protocol_of(MOST_BLOCKS, seed), alpha=alpha)


def false_claims(noise: Noise, trials: int, generator: Generator) -> tuple[float, float]:
    """Return the shares of trials of equal commands in which `ab` and hyperfine claim a difference."""
    rows = noise(generator, trials, 2 * MOST_BLOCKS)
    ours = [verdict_of(protocol_at(seed), row) in {"better", "worse"} for seed, row in enumerate(rows)]
    peer = hyperfine(rows, 0.0, generator).claim
    return float(np.mean(ours)), float(np.mean(np.isin(peer, (-1, 1))))


def false_campaigns(noise: Noise, campaigns: int, generator: Generator) -> tuple[float, float]:
    """Return the shares of campaigns with a false keep: with ktrial, and with the best of single runs."""
    wrong = 0
    for _ in range(campaigns):
        rows = noise(generator, DECISIONS, 2 * MOST_BLOCKS)
        seeds = generator.integers(0, 2**31, DECISIONS).tolist()
        kept = (
            verdict_of(protocol_at(seed, 0.05 / DECISIONS), row) == "better"
            for seed, row in zip(seeds, rows, strict=True)
        )
        wrong += any(kept)
    runs = noise(generator, campaigns, DECISIONS + 1)
    return wrong / campaigns, float(np.mean(runs[:, 1:].max(axis=1) > runs[:, 0]))


def is_above(share: float, trials: int) -> bool:
    """Return whether a share is above the limit beyond chance."""
    return bool(binomtest(round(share * trials), trials, MOST_FALSE, alternative="greater").pvalue < CHANCE)


def main() -> int:
    trials = argument("TRIALS", 2_000, how_many)
    report_costs()
    generator = np.random.default_rng(11)
    missed = False
    print(f"false claims about two equal commands, {trials} trials each       ktrial ab   hyperfine")
    kinds: list[tuple[str, float | None]] = [(f"recorded noise, sd {sd:.0%}", sd) for sd in (0.01, 0.03, 0.08)]
    for name, sd in (*kinds, ("recorded noise as it is", None)):
        ours, peer = false_claims(world(sources(sd)["recorded"], "mixed", SIZES[sd]), trials, generator)
        missed |= is_above(ours, trials)
        print(f"{name:62} {ours:8.1%}   {peer:8.1%}", flush=True)
    print(f"\n{CAMPAIGNS} campaigns of {DECISIONS} decisions, nothing matters: a false keep   ktrial ab   k·sd, 1 run")
    noises = {
        "recorded noise, sd 3%": world(sources(0.03)["recorded"], "mixed", SIZES[0.03]),
        "independent noise, sd 3%": lambda generator, trials, runs: generator.normal(0, 0.03, (trials, runs)),
    }
    for name, noise in noises.items():
        ours, rule = false_campaigns(noise, CAMPAIGNS, generator)
        missed |= is_above(ours, CAMPAIGNS)
        print(f"{name:62} {ours:8.1%}   {rule:8.1%}", flush=True)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
