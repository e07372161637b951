# SPDX-License-Identifier: Apache-2.0
"""What the judge promises, by simulation on recorded and made noise: the short form of `perf/decide`.

Seeds are fixed. A share may miss its limit by Monte Carlo error, widened for the number of cells that are looked at.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ktrial.judge.collect_log import collect, pairs_of, visit_scores
from ktrial.judge.judge import judge
from ktrial.judge.model.log import Event, OutcomeRule, Protocol
from ktrial.judge.sequential import first_exclusion
from ktrial.judge.stats.signflip import sign_flip_p
from perf.ab import false_campaigns, false_claims
from perf.decide import SIZES, profiles, same, series_noise, simulate
from perf.noise_sources import DISTURBANCES, GROWING, Generator, Noise, Rows, counts, recorded, sources, world
from perf.simulated_trials import (
    BETTER,
    EQUIVALENT,
    WORSE,
    block_differences,
    differences_of,
    protocol_of,
    trial_log,
    twin,
)
from tests.support.trials import TIME, log_of, protocol

SDS: tuple[float | None, ...] = tuple(SIZES)
EFFECTS = (0.0, 0.01, 0.03, 0.05, 0.10, 0.50)


def slack(limit: float, trials: int, cells: int = 1) -> float:
    """How far a share may lie beyond its limit: one of all cells in a hundred suites."""
    return float(stats.norm.isf(0.01 / cells)) * math.sqrt(limit * (1 - limit) / trials)


def mixed(sd: float | None) -> Noise:
    return world(sources(sd)["recorded"], "mixed", SIZES[sd])


def generator(*seed: int) -> Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("sd", SDS)
def test_equal_arms_are_seldom_told_apart(sd: float | None) -> None:
    """False claims on every noise and disturbance: each cell, and all together."""
    trials, shares = 500, []
    for place, noise in enumerate(sources(sd).values()):
        for number, kind in enumerate((*DISTURBANCES, *GROWING)):
            disturbed = world(noise, kind, SIZES[sd])
            calm = noise if kind in GROWING else disturbed
            shares.append(simulate(disturbed, generator(1, place, number), trials, 0.0, 20, calm).claims)
    cells = len(shares) * len(SDS)
    assert max(shares) <= 0.05 + slack(0.05, trials, cells)
    assert np.mean(shares) <= 0.05
    # A judge that never claims anything would pass the rest.
    assert max(shares) > 0.005


SERIES = {**recorded(), **recorded("b2b.csv")}


@pytest.mark.parametrize("name", SERIES)
def test_equal_arms_are_seldom_told_apart_on_each_recorded_series(name: str) -> None:
    trials = 300
    for number, kind in enumerate(DISTURBANCES):
        noise = world(series_noise(SERIES[name]), kind, SIZES[None])
        claims = simulate(noise, generator(21, number), trials, 0.0, 20).claims
        assert claims <= 0.05 + slack(0.05, trials, len(SERIES) * len(DISTURBANCES)), kind


@pytest.mark.parametrize("sd", SDS)
def test_the_interval_covers_the_truth(sd: float | None) -> None:
    trials = 500
    for source, noise in sources(sd).items():
        disturbed = world(noise, "mixed", SIZES[sd])
        for effect in EFFECTS:
            found = simulate(disturbed, generator(2, round(1000 * effect)), trials, effect, 20)
            cells = 10 * len(EFFECTS)
            assert found.covers(math.log1p(effect)) >= 0.95 - slack(0.95, trials, cells), (source, effect)


@pytest.mark.parametrize("sd", [0.01, 0.03])
def test_an_effect_at_the_margin_is_not_called_equivalent(sd: float) -> None:
    trials = 2_000
    for effect in (0.02, -0.02 / 1.02):
        found = simulate(mixed(sd), generator(3), trials, effect, 20)
        assert found.share(EQUIVALENT) <= 0.025 + slack(0.025, trials, 4)


@pytest.mark.parametrize("sd", [0.01, 0.03])
def test_directions_are_not_mixed_up(sd: float) -> None:
    trials = 2_000
    assert simulate(mixed(sd), generator(4), trials, 0.03, 20).share(WORSE) <= 0.005
    assert simulate(mixed(sd), generator(5), trials, -0.03, 20).share(BETTER) <= 0.005


@pytest.mark.parametrize(
    "sd,effect,cap,target",
    [
        (0.01, 0.05, 9, 0.95),
        (0.01, 0.03, 9, 0.90),
        (0.03, 0.05, 16, 0.90),
        (0.03, 0.05, 20, 0.95),
        (0.03, 0.03, 40, 0.95),
        (0.08, 0.10, 20, 0.90),
        (0.08, 0.05, 40, 0.85),
        (0.08, 0.05, 60, 0.95),
    ],
)
def test_effects_are_detected(sd: float, effect: float, cap: int, target: float) -> None:
    trials = 1_000
    found = simulate(mixed(sd), generator(6, cap), trials, effect, cap)
    assert found.share(BETTER) >= target - slack(target, trials, 8)
    assert found.share(WORSE) <= 0.001 + slack(0.001, trials, 8)


def test_runs_are_saved() -> None:
    trials = 1_000
    for sd in (0.01, 0.03, 0.08):
        assert simulate(mixed(sd), generator(7), trials, 0.50, 20).runs <= 11
    for effect, saved in ((0.05, 0.50), (0.50, 0.75), (0.0, 0.15)):
        assert 1 - simulate(mixed(0.03), generator(8), trials, effect, 20).runs / 40 >= saved


@pytest.mark.parametrize("sd,cap,target", [(0.01, 20, 0.90), (0.03, 40, 0.75)])
def test_equal_arms_are_called_equivalent(sd: float, cap: int, target: float) -> None:
    trials = 1_000
    assert simulate(mixed(sd), generator(9), trials, 0.0, cap).share(EQUIVALENT) >= target - slack(target, trials, 2)


def test_a_second_run_that_is_slower_is_no_effect() -> None:
    """1 % slower whenever second, at 1 % noise: with a fixed order nearly every trial would claim it."""
    trials = 2_000
    quiet = sources(0.01)["recorded"]

    def slower(rng: Generator, count: int, runs: int) -> Rows:
        rows = quiet(rng, count, runs)
        rows[:, 1::2] -= 0.01
        return rows

    assert simulate(slower, generator(10), trials, 0.0, 20).claims <= 0.05 + slack(0.05, trials)
    rows = slower(generator(11), trials, 40)
    fixed = block_differences(generator(12), rows, 0.0, fixed=True)
    assert twin(fixed, 20, margin=0.0).claims > 0.9


def test_boots_as_noisy_as_runs_are_units_of_their_own() -> None:
    """Nine boot pairs of two runs each; the same runs from one boot an arm claim a difference most of the time."""
    trials = 2_000
    rng = generator(13)
    runs = sources(0.03)["recorded"](rng, trials, 36).reshape(trials, 18, 2)
    visits = runs.mean(axis=2) + rng.normal(0, 0.03, (trials, 18))
    assert twin(block_differences(rng, visits, 0.0), 9).claims <= 0.05 + slack(0.05, trials)
    one_boot = runs.reshape(trials, 2, 18) + rng.normal(0, 0.03, (trials, 2, 1))
    assert (stats.ttest_ind(one_boot[:, 0], one_boot[:, 1], axis=1).pvalue < 0.05).mean() > 0.4


def test_a_profile_quieter_than_today_does_little_harm() -> None:
    trials = 2_000
    for sd in (0.03, 0.08):
        quiet = world(sources(sd / 3)["recorded"], "mixed", SIZES[sd] / 3)
        found = simulate(mixed(sd), generator(14), trials, 0.0, 20, quiet)
        assert found.claims <= 0.05 + slack(0.05, trials, 2)


def test_the_reference_run_is_reproduced() -> None:
    """Noise with t4 tails at 3 %, as the specification's own model was tried: 97 % power, 18.5 runs, 3.6 % claims."""
    trials = 2_500

    def tails(rng: Generator, count: int, runs: int) -> Rows:
        return np.asarray(0.03 * rng.standard_t(4, (count, runs)) / math.sqrt(2))

    null = simulate(tails, generator(15), trials, 0.0, 20)
    five = simulate(tails, generator(16), trials, 0.05, 20)
    assert null.claims == pytest.approx(0.036, abs=0.02)
    assert five.share(BETTER) == pytest.approx(0.97, abs=0.03)
    assert five.runs == pytest.approx(18.5, abs=1.5)
    assert null.covers(0.0) == pytest.approx(0.96, abs=0.02)
    assert five.covers(math.log1p(0.05)) == pytest.approx(0.98, abs=0.02)


def test_twin_and_judge_agree() -> None:
    """What is simulated is what is shipped: verdict, blocks, estimate and interval of 1,000 trials."""
    trials = 1_000
    noise = mixed(0.03)
    rng = generator(17)
    rows, profile = noise(rng, trials, 40), profiles(noise, rng, trials)
    for number in range(trials):
        effect = math.log1p((0.0, 0.05, 0.50, -0.03)[number % 4])
        log = trial_log(protocol_of(20, number, profile[number].tolist()), rows[number], effect)
        differences = differences_of(log, rows[number], effect)
        assert same(judge(log).judged[0], twin(differences[None, :], 20, profile=profile[number : number + 1])), number


def test_recorded_counts_are_seldom_told_apart_and_elimination_is_found() -> None:
    """Limit hits of a memory cgroup: more than half of the runs have none, the variance is 46 times the mean."""
    series = np.concatenate([counts(file, "reclaim_events") for file in ("rr1.csv", "rr2.csv")])
    assert (series == 0).mean() > 0.5
    trials, blocks = 400, 20
    rng = generator(18)
    drawn = rng.choice(series, (trials, blocks, 2))
    claims = np.mean([sign_flip_p(pair[:, 0] - pair[:, 1]) <= 0.05 for pair in drawn])
    assert claims <= 0.05 + slack(0.05, trials)
    found = np.mean([sign_flip_p(pair[:, 0]) <= 0.05 for pair in drawn])
    assert found >= 0.94 - slack(0.94, trials)
    # What a test for Poisson counts would do with the same numbers.
    totals = drawn.sum(axis=1)
    poisson = [stats.binomtest(int(one), int(one + other)).pvalue < 0.05 for one, other in totals if one + other]
    assert np.mean(poisson) > 0.5


def several_log(fixed: Protocol, rng: Generator, means: dict[str, float]) -> list[Event]:
    """Control and arms in every outcome; a third of the noise is that of all outcomes of the run."""
    blocks, arms = fixed.cap or 0, len(fixed.arms)
    noise = mixed(0.03)(rng, 1 + len(fixed.outcomes), blocks * arms).reshape(-1, blocks, arms)
    slots = rng.permuted(np.tile(np.arange(arms), (blocks, 1)), axis=1)
    noise = np.take_along_axis(noise, slots[None, :, :], axis=2)
    share = 1 / 3 if len(fixed.outcomes) > 1 else 0.0
    scores: dict[str, dict[str, list[float]]] = {}
    for outcome, own in zip(fixed.outcomes, noise[1:], strict=True):
        rows = math.sqrt(share) * noise[0] + math.sqrt(1 - share) * own
        columns = {arm.name: rows[:, place] + means.get(arm.name, 0.0) for place, arm in enumerate(fixed.arms)}
        scores[outcome] = {name: column.tolist() for name, column in columns.items()}
    return log_of(fixed, scores)


def test_four_secondaries_share_one_error() -> None:
    """Of four secondaries without an effect any is claimed in at most 5 % of trials; uncorrected, far more often."""
    trials = 400
    rules = {f"s.{number}": OutcomeRule(direction="higher", role="secondary") for number in range(4)}
    outcomes = {TIME: OutcomeRule(direction="lower", role="primary", margin=0.0), **rules}
    rng = generator(19)
    claimed = uncorrected = 0
    for seed in range(trials):
        fixed = protocol(outcomes=outcomes, seed=seed, until_all_decided=True)
        log = several_log(fixed, rng, {})
        secondaries = [one for one in judge(log).judged if one.role == "secondary"]
        claimed += any(one.verdict in {"better", "worse"} for one in secondaries)
        scores = {name: visit_scores(collect(log), name) for name in rules}
        alone = [pairs_of(scores[name], "case", "control").differences for name in rules]
        uncorrected += any(first_exclusion(values, 20, 1) is not None for values in alone)
    assert claimed / trials <= 0.05 + slack(0.05, trials)
    assert uncorrected / trials > 0.10


def test_three_arms_share_one_error_and_are_found() -> None:
    trials = 200
    rng = generator(20)
    names = ("a", "b", "c")
    claimed = 0
    found = {"b": 0, "c": 0}
    for seed in range(trials):
        fixed = protocol(names, seed=seed)
        claimed += any(one.verdict in {"better", "worse"} for one in judge(several_log(fixed, rng, {})).judged)
        real = judge(several_log(fixed, rng, {"b": math.log(1.03), "c": math.log(1.05)}))
        for name in found:
            found[name] += real.of(TIME, name, "control").verdict == "better"
    assert claimed / trials <= 0.05 + slack(0.05, trials)
    # The specification found +3 % in 68 % and +5 % in 92 % of such trials.
    assert found["b"] / trials == pytest.approx(0.68, abs=0.12)
    assert found["c"] / trials >= 0.92 - slack(0.92, trials)


@pytest.mark.parametrize("sd", SDS)
def test_a_campaign_in_which_nothing_matters_seldom_keeps_anything(sd: float | None) -> None:
    """One error over 32 decisions. A rule that keeps what beats the best of single runs is nearly always wrong."""
    campaigns, decisions = 500, 32
    rows = mixed(sd)(generator(64, SDS.index(sd)), campaigns * decisions, 40)
    differences = block_differences(generator(65), rows, 0.0)
    kept = twin(differences, 20, row=decisions).verdict.reshape(campaigns, decisions) == BETTER
    assert kept.any(axis=1).mean() <= 0.05 + slack(0.05, campaigns, len(SDS))
    single = rows[:, 0].reshape(campaigns, decisions)
    assert (single.max(axis=1) > single[:, 0]).mean() > 0.8


def test_a_campaign_finds_what_does_matter() -> None:
    """If one version is 10 % faster, at 3 % noise, nearly every decision at 0.05/32 keeps it."""
    rows = mixed(0.03)(generator(66), 500, 40)
    kept = twin(block_differences(generator(67), rows, math.log(1.1)), 20, row=32).verdict == BETTER
    assert kept.mean() > 0.9


def test_the_measurement_of_ab_uses_the_shipped_judge() -> None:
    ours, peer = false_claims(mixed(0.03), 60, generator(68))
    assert ours <= 0.05 + slack(0.05, 60)
    assert 0 < peer < 1
    wrong, rule = false_campaigns(mixed(0.03), 2, generator(69))
    assert wrong == 0
    assert rule == 1
