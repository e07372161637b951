# SPDX-License-Identifier: Apache-2.0
"""How often the judge of trials is right: false claims, power, cost and coverage, beside other procedures.

Run in a checkout that is set up:  .venv/bin/python -m perf.decide [TRIALS]   (10,000 a cell; some minutes)

Noise is recorded (`perf/noise`) or generated, with disturbances on top. Exits with status 1 if a target is missed by
more than Monte Carlo error, or if the twin and the shipped judge disagree.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from ktrial.judge.judge import judge
from perf.arguments import argument, how_many
from perf.noise_sources import DISTURBANCES, GROWING, Array, Generator, Noise, Rows, drawn, recorded, sources, world
from perf.peers import PEERS, Procedure, Result, judged
from perf.sequential_peers import SEQUENTIAL_PEERS
from perf.simulated_trials import (
    BETTER,
    CODES,
    EQUIVALENT,
    PROFILE_BLOCKS,
    WORSE,
    Outcomes,
    block_differences,
    differences_of,
    protocol_of,
    trial_log,
    twin,
)

RUNS = 120
#: Typical size of a disturbance at each sd; None is the recorded host without scaling.
SIZES: dict[float | None, float] = {0.01: 0.02, 0.03: 0.04, 0.08: 0.05, None: 0.05}
AGREE_TRIALS = 10_000
#: Probability that any comparison of a share with its limit misses by chance.
MISS_CHANCE = 0.01
#: Number of trials that are simulated at a time.
PORTION = 2_000


class Target(NamedTuple):
    """A number with its limit. A `cell` is one of many in a table, and is listed only if it misses the limit.

    `trials` is None if the number is not a share.
    """

    what: str
    value: float
    limit: float
    upper: bool
    trials: int | None
    cell: bool


class Scores:
    """Numbers with limits, which are checked at the end, when the number of comparisons is known."""

    def __init__(self, trials: int) -> None:
        self.trials = trials
        self.targets: list[Target] = []

    def at_most(self, what: str, value: float, limit: float, *, cell: bool = False, times: int = 1) -> None:
        self.targets.append(Target(what, value, limit, True, self.trials * times, cell))

    def at_least(self, what: str, value: float, limit: float, *, cell: bool = False) -> None:
        self.targets.append(Target(what, value, limit, False, self.trials, cell))

    def number(self, what: str, value: float, limit: float, *, upper: bool) -> None:
        self.targets.append(Target(what, value, limit, upper, None, False))

    def report(self) -> bool:
        z = float(stats.norm.isf(MISS_CHANCE / max(1, len(self.targets))))
        missed = cells = 0
        print(f"\n## Targets: {len(self.targets)}, {self.trials:,} trials each; a share may miss by {z:.1f} sd\n")
        print("| target | limit | seen | |\n| --- | --- | --- | --- |")
        for one in self.targets:
            word = _word(one, z)
            missed += word == "MISSED"
            cells += one.cell
            if one.cell and word != "MISSED":
                continue
            factor, unit = (1, "") if one.trials is None else (100, " %")
            sign = "≤" if one.upper else "≥"
            print(f"| {one.what} | {sign} {factor * one.limit:g}{unit} | {factor * one.value:.2f}{unit} | {word} |")
        print(f"\n{cells} of them are cells of the tables above; {missed} missed.")
        return missed == 0


def _word(one: Target, z: float) -> str:
    beyond = one.value - one.limit if one.upper else one.limit - one.value
    slack = 0.0 if one.trials is None else z * math.sqrt(one.limit * (1 - one.limit) / one.trials)
    return "met" if beyond <= 0 else "within error" if beyond <= slack else "MISSED"


def simulate(
    noise: Noise, generator: Generator, trials: int, effect: float, cap: int, profile: Noise | None = None
) -> Outcomes:
    """Return trials of the judge at a relative effect, each with a profile from another session."""
    parts = []
    for begin in range(0, trials, PORTION):
        count = min(PORTION, trials - begin)
        differences = block_differences(generator, noise(generator, count, 2 * cap), math.log1p(effect))
        parts.append(twin(differences, cap, profile=profiles(profile or noise, generator, count)))
    return Outcomes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def profiles(noise: Noise, generator: Generator, trials: int) -> Rows:
    """Return the differences of A/A blocks, control first."""
    return block_differences(generator, noise(generator, trials, 2 * PROFILE_BLOCKS), 0.0, fixed=True)


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def against_peers(trials: int, generator: Generator) -> None:
    """Print the table of procedures for each kind of noise.

    The run-to-run sd is 3 %, with a disturbance in each trial.
    """
    for source, noise in sources(0.03).items():
        _peers_table(source, world(noise, "mixed", SIZES[0.03]), trials, generator)


def _peers_table(source: str, noise: Noise, trials: int, generator: Generator) -> None:
    procedures = PEERS | SEQUENTIAL_PEERS
    for cap in (12, 20, 30):
        procedures[f"**judge, cap {cap}**"] = judged(cap, lambda rng, count: profiles(noise, rng, count))
    print(f"\n## Against other procedures: {source} noise, sd 3 %, a disturbance in each trial\n")
    print(
        "| procedure | false claims A/A | wrong direction at +5 % | power +3 / +5 / +10 % | calibrated +5 % |", end=""
    )
    print(" covers 0 / +5 % | runs 0 / +5 / +50 % | inconclusive 0 / +5 % |\n" + "| --- " * 8 + "|")
    for name, procedure in procedures.items():
        print(_row(name, procedure, noise, trials, generator), flush=True)


def _row(name: str, procedure: Procedure, noise: Noise, trials: int, generator: Generator) -> str:
    found: dict[float, Result] = {}
    for effect in (0.0, 0.03, 0.05, 0.10, 0.50):
        found[effect] = procedure(noise(generator, trials, RUNS), math.log1p(effect), generator)
    calibrated = None
    null, five = found[0.0].evidence, found[0.05].evidence
    if null is not None and five is not None:
        calibrated = float((five > np.quantile(null, 0.95)).mean())
    power = " / ".join(percent(found[effect].share(BETTER)) for effect in (0.03, 0.05, 0.10))
    covers = " / ".join(percent(found[effect].covers(math.log1p(effect))) for effect in (0.0, 0.05))
    runs = " / ".join(f"{found[effect].runs.mean():.0f}" for effect in (0.0, 0.05, 0.50))
    undecided = " / ".join(percent(found[effect].share(9)) for effect in (0.0, 0.05))
    claims, wrong = percent(found[0.0].share(BETTER, WORSE)), percent(found[0.05].share(WORSE))
    return f"| {name} | {claims} | {wrong} | {power} | {percent(calibrated)} | {covers} | {runs} | {undecided} |"


def false_claims(trials: int, generator: Generator, scores: Scores) -> None:
    """Run A/A trials with every noise and disturbance, and with noise that grows."""
    print("\n## False claims of the judge in A/A trials, cap 20 (cap 30), in percent\n")
    kinds = (*DISTURBANCES, *GROWING)
    print("| noise | " + " | ".join(kinds) + " |\n" + "| --- " * (len(kinds) + 1) + "|")
    everything: list[float] = []
    for sd, size in SIZES.items():
        for source, noise in sources(sd).items():
            told = f"{source}, {'as it is' if sd is None else f'sd {sd:.0%}'}"
            cells = []
            for kind in kinds:
                shares = []
                for cap in (20, 30):
                    disturbed = world(noise, kind, size)
                    # Noise that grows is larger than in its profile.
                    profile = noise if kind in GROWING else disturbed
                    found = simulate(disturbed, generator, trials, 0.0, cap, profile)
                    shares.append(found.claims)
                    scores.at_most(f"false claims, {told}, {kind}, cap {cap}", found.claims, 0.05, cell=True)
                    everything.append(found.claims)
                cells.append(f"{percent(shares[0])} ({percent(shares[1])})")
            print(f"| {told} | " + " | ".join(cells) + " |", flush=True)
    mean = float(np.mean(everything))
    scores.at_most("false claims A/A, mean of all cells", mean, 0.05, times=len(everything))
    scores.at_most("false claims A/A, worst cell", max(everything), 0.05)


def each_series(trials: int, generator: Generator, scores: Scores) -> None:
    """Run A/A trials on every recorded series alone, unscaled, with every disturbance."""
    print("\n## False claims on each recorded series as it is, cap 20, in percent\n")
    print("| series | " + " | ".join(DISTURBANCES) + " |\n" + "| --- " * (len(DISTURBANCES) + 1) + "|")
    for name, values in {**recorded(), **recorded("b2b.csv")}.items():
        noise = series_noise(values)
        shares = [simulate(world(noise, kind, SIZES[None]), generator, trials, 0.0, 20).claims for kind in DISTURBANCES]
        for kind, share in zip(DISTURBANCES, shares, strict=True):
            scores.at_most(f"false claims, {name}, {kind}", share, 0.05, cell=True)
        print(f"| {name} | " + " | ".join(percent(share) for share in shares) + " |", flush=True)


def series_noise(values: Array) -> Noise:
    """Return the noise of one recorded series, drawn again in stretches."""
    return lambda generator, trials, runs: drawn(generator, [values], trials, runs)


def second_run_slower(trials: int, generator: Generator, scores: Scores) -> None:
    """Run A/A trials in which the second run of a block is 1 % slower, with a profile at a third of the noise."""
    noise = sources(0.01)["recorded"]

    def slower(rng: Generator, count: int, runs: int) -> Rows:
        rows = noise(rng, count, runs)
        rows[:, 1::2] -= 0.01
        return rows

    scores.at_most("second run 1 % slower, A/A", simulate(slower, generator, trials, 0.0, 20).claims, 0.05)
    for sd, limit in ((0.03, 0.05), (0.08, 0.06)):
        loud = world(sources(sd)["recorded"], "mixed", SIZES[sd])
        quiet = world(sources(sd / 3)["recorded"], "mixed", SIZES[sd] / 3)
        claims = simulate(loud, generator, trials, 0.0, 20, quiet).claims
        scores.at_most(f"profile at a third of the noise, sd {sd:.0%}, A/A", claims, limit)


def coverage(trials: int, generator: Generator, scores: Scores) -> None:
    """Compare the reported interval with the truth."""
    print("\n## Coverage of the interval, cap 20, in percent\n")
    effects = (0.0, 0.01, 0.03, 0.05, 0.10, 0.50)
    worst = 1.0
    print("| noise | " + " | ".join(f"+{effect:.0%}" for effect in effects) + " |\n" + "| --- " * 7 + "|")
    for sd, size in SIZES.items():
        for source, noise in sources(sd).items():
            told = f"{source}, {'as it is' if sd is None else f'sd {sd:.0%}'}"
            disturbed = world(noise, "mixed", size)
            cells = []
            for effect in effects:
                covered = simulate(disturbed, generator, trials, effect, 20).covers(math.log1p(effect))
                cells.append(percent(covered))
                scores.at_least(f"interval covers +{effect:.0%}, {told}", covered, 0.95, cell=True)
                worst = min(worst, covered)
            print(f"| {told} | " + " | ".join(cells) + " |", flush=True)
    scores.at_least("interval covers the truth, worst cell", worst, 0.95)


def margins(trials: int, generator: Generator, scores: Scores) -> None:
    """Check that an effect at the margin is not called equivalent, and that no direction is reversed."""
    for sd in (0.01, 0.03):
        noise = world(sources(sd)["recorded"], "mixed", SIZES[sd])
        at_margin = simulate(noise, generator, trials, 0.02, 20)
        scores.at_most(f"effect at the margin called equivalent, sd {sd:.0%}", at_margin.share(EQUIVALENT), 0.025)
        for effect in (0.03, -0.03):
            found = simulate(noise, generator, trials, effect, 20)
            wrong = found.share(WORSE if effect > 0 else BETTER)
            scores.at_most(f"wrong direction at {effect:+.0%}, sd {sd:.0%}", wrong, 0.005)


def power(trials: int, generator: Generator, scores: Scores) -> None:
    """Check the targets of detection and cost."""
    noises = {sd: world(sources(sd)["recorded"], "mixed", size) for sd, size in SIZES.items()}

    def found(sd: float | None, effect: float, cap: int) -> Outcomes:
        return simulate(noises[sd], generator, trials, effect, cap)

    targets = (
        (0.01, 0.05, 9, 0.95),
        (0.01, 0.03, 9, 0.90),
        (0.03, 0.05, 16, 0.90),
        (0.03, 0.05, 20, 0.95),
        (0.03, 0.03, 40, 0.95),
        (0.08, 0.10, 20, 0.90),
        (0.08, 0.05, 40, 0.85),
        (0.08, 0.05, 60, 0.95),
    )
    for sd, effect, cap, limit in targets:
        seen = found(sd, effect, cap)
        what = f"detect +{effect:.0%}, sd {sd:.0%}, cap {cap} ({seen.runs:.0f} runs)"
        scores.at_least(what, seen.share(BETTER), limit)
    for sd in (0.01, 0.03, 0.08):
        scores.number(f"runs at +50 %, sd {sd:.0%}", found(sd, 0.50, 20).runs, 11, upper=True)
    for effect, limit in ((0.05, 50), (0.50, 75), (0.0, 15)):
        saved = 100 * (1 - found(0.03, effect, 20).runs / 40)
        scores.number(f"runs saved against 20 blocks at +{effect:.0%}, sd 3 %, in percent", saved, limit, upper=False)
    scores.at_least("A/A ends equivalent, sd 1 %, cap 20", found(0.01, 0.0, 20).share(EQUIVALENT), 0.90)
    scores.at_least("A/A ends equivalent, sd 3 %, cap 40", found(0.03, 0.0, 40).share(EQUIVALENT), 0.75)
    for quiet in (0.01, 0.03, 0.08):
        scores.at_most(f"wrong direction at +5 %, sd {quiet:.0%}", found(quiet, 0.05, 20).share(WORSE), 0.001)
    scores.at_most("wrong direction at +5 %, recorded as it is", found(None, 0.05, 20).share(WORSE), 0.01)


def boots(trials: int, generator: Generator, scores: Scores) -> None:
    """Run trials whose arms are boots, which differ as much as runs of one boot; two runs a boot, nine boot pairs."""
    noise = world(sources(0.03)["recorded"], "none", 0.0)
    runs = noise(generator, trials, 36).reshape(trials, 18, 2)
    visits = runs.mean(axis=2) + generator.normal(0, 0.03, (trials, 18))
    scores.at_most(
        "boots as noisy as runs, A/A, 9 boot pairs", twin(block_differences(generator, visits, 0.0), 9).claims, 0.05
    )


def agreement(generator: Generator) -> bool:
    """Return whether the twin gives the same results as the shipped judge."""
    noise = world(sources(0.03)["recorded"], "mixed", SIZES[0.03])
    rows = noise(generator, AGREE_TRIALS, 40)
    profile = profiles(noise, generator, AGREE_TRIALS)
    begin, spent, different = time.perf_counter(), 0.0, 0
    for number in range(AGREE_TRIALS):
        effect = math.log1p((0.0, 0.05, 0.50, -0.03)[number % 4])
        log = trial_log(protocol_of(20, number, profile[number].tolist()), rows[number], effect)
        started = time.perf_counter()
        said = judge(log).judged[0]
        spent += time.perf_counter() - started
        differences = differences_of(log, rows[number], effect)[None, :]
        different += not same(said, twin(differences, 20, profile=profile[number : number + 1]))
    print(
        f"\n## The shipped judge\n\n{AGREE_TRIALS:,} trials of 20 blocks: {different} where twin and judge differ;",
        end="",
    )
    whole = time.perf_counter() - begin
    print(f" {AGREE_TRIALS / spent:,.0f} trials judged per second ({whole:.0f} s with the simulation).")
    return different == 0


def same(said: object, found: Outcomes) -> bool:
    """Return whether a judged trial and its twin agree to the last digit that matters."""
    verdict, blocks, effect = (getattr(said, name) for name in ("verdict", "blocks", "effect"))
    numbers: Array = np.array([effect.estimate, effect.low, effect.high], dtype=np.float64)
    twins = np.array([found.estimate[0], found.low[0], found.high[0]])
    return bool(
        CODES[verdict] == found.verdict[0] and blocks == found.blocks[0] and np.allclose(numbers, twins, 0, 1e-9)
    )


PARTS: tuple[Callable[[int, Generator, Scores], None], ...] = (
    false_claims,
    each_series,
    second_run_slower,
    coverage,
    margins,
    power,
    boots,
)


def main(arguments: list[str]) -> int:
    trials = argument("TRIALS", 10_000, how_many, arguments)
    generator = np.random.default_rng(20260)
    scores = Scores(trials)
    begin = time.perf_counter()
    against_peers(trials, generator)
    for part in PARTS:
        part(trials, generator, scores)
    met = scores.report()
    agreed = agreement(generator)
    print(f"\n{time.perf_counter() - begin:.0f} s in all")
    return 0 if met and agreed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
