# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest

from ktrial.judge.stats import evalue
from ktrial.kit.errors import BadInput
from ktrial.live.guard import FEWEST_CONTROL_SAMPLES, Guard, GuardWatch
from ktrial.live.model import Sample
from tests.support.live_noise import GUARDED, PILOT_SAMPLES, WatchedTrial, remembering, samples_of

LATENCY = Guard(metric=GUARDED, direction="lower")


def armed(guard: Guard = LATENCY, *, sd: float = 0.03, every_ms: int = 1_000, pilot: int = PILOT_SAMPLES) -> GuardWatch:
    watch = GuardWatch([guard], ["control", "case"], "control", blocks=20, samples=60)
    logs = remembering(np.random.default_rng(4), pilot, 0.6, sd)
    watch.learn(GUARDED, samples_of(np.exp(logs), every_ms=every_ms))
    watch.begin_period("case")
    return watch


@pytest.mark.parametrize("every_ms, memory", [(1_000, 0.0), (1_000, 0.6), (15_000, 0.6)])
def test_a_step_of_half_the_latency_is_seen_within_two_scrapes_or_ten_seconds(every_ms: int, memory: float) -> None:
    generator = np.random.default_rng(5)
    for _ in range(10):
        trial = WatchedTrial(generator, LATENCY, every_ms=every_ms)
        trip = trial.watch(remembering(generator, 1_000, memory, 0.03), math.log(1.5), blocks=3)
        assert trip is not None
        assert trip.by == "surge"
        assert trip.arm == "case"
        assert trial.tripped_at is not None
        assert trial.tripped_at <= max(2, 10_000 // every_ms)


def test_without_a_control_an_arm_is_compared_with_what_was_before() -> None:
    watch = GuardWatch([LATENCY], ["case"], "as found", blocks=7, samples=60)
    watch.learn(GUARDED, samples_of(np.exp(remembering(np.random.default_rng(4), PILOT_SAMPLES, 0.6, 0.03))))
    for begin in range(2):
        watch.begin_period("case")
        calm = np.exp(remembering(np.random.default_rng(begin), 60, 0.6, 0.03))
        assert watch.take(GUARDED, "case", samples_of(calm, 1_000_000 * (begin + 1))) is None
        assert watch.end_block() is None
    trip = watch.take(GUARDED, "case", samples_of(np.full(20, 2.0), 4_000_000))
    assert trip is not None
    assert (trip.by, trip.arm) == ("surge", "case")


def test_a_throughput_that_falls_is_a_surge_too() -> None:
    watch = armed(Guard(metric=GUARDED, direction="higher"))
    trips = [watch.take(GUARDED, "case", [Sample(1_000_000 + place, 0.5)]) for place in range(5)]
    trip = next(one for one in trips if one is not None)
    assert trip.by == "surge"
    assert trip.value == 0.5 < trip.bound < 1
    assert trip.evidence is not None
    assert trip.needed is not None
    assert trip.evidence >= trip.needed == 200


def test_a_single_sample_never_trips_and_the_control_is_no_surge() -> None:
    watch = armed()
    assert watch.take(GUARDED, "case", [Sample(1_000_000, 1e6)]) is None
    assert watch.take(GUARDED, "case", samples_of(np.ones(30), 2_000)) is None
    watch.begin_period("control")
    assert watch.take(GUARDED, "control", samples_of(np.full(30, 5.0), 3_000)) is None


def test_most_values_a_hundred_times_worse_are_caught_where_mean_and_sd_are_blind() -> None:
    generator = np.random.default_rng(6)
    for _ in range(20):
        control, case = np.exp(generator.normal(0, 0.03, (2, 10)))
        case[generator.permutation(10)[:7]] *= 100
        # The rule in use compares means within two sd, and the sd is that of the values that are compared.
        assert abs(case.mean() - control.mean()) < 2 * np.concatenate((control, case)).std(ddof=1)
        assert armed().take(GUARDED, "case", samples_of(case, 2_000)) is not None


def test_guards_seldom_trip_if_no_arm_does_anything() -> None:
    """A short form of `perf.live`: with 32 trials at 1 %, more than two trips are rarer than 1 in 250."""
    generator = np.random.default_rng(7)
    trips = 0
    for trial in range(32):
        memory = (0.0, 0.6, 0.95, 0.99)[trial % 4]
        logs = remembering(generator, PILOT_SAMPLES + 1_200, memory, 0.03, tails=trial % 8 > 3)
        trips += WatchedTrial(generator, LATENCY).watch(logs, blocks=10) is not None
    assert trips <= 2


def test_bursts_that_the_control_has_too_are_no_surge() -> None:
    logs = remembering(np.random.default_rng(8), 3_000, 0.5, 0.02)
    # Every minute the latency is twice as high for six seconds, whichever arm is in force.
    logs[np.arange(3_000) % 60 < 6] += math.log(2)
    assert WatchedTrial(np.random.default_rng(9), LATENCY).watch(logs) is None


def test_a_burst_that_rises_over_the_next_level_is_one_of_the_controls() -> None:
    logs = remembering(np.random.default_rng(8), PILOT_SAMPLES, 0.5, 0.02)
    spread = 1.4826 * float(np.median(np.abs(logs)))
    second = 2 * (math.log(1.1) + 6 * spread)
    bursts = np.arange(PILOT_SAMPLES) % 60 < 6
    watch = GuardWatch([LATENCY], ["control", "case"], "control", blocks=20, samples=60)
    watch.learn(GUARDED, samples_of(np.exp(logs + 0.8 * second * bursts)))
    watch.begin_period("case")
    burst = samples_of(np.full(6, np.exp(1.3 * second)), PILOT_SAMPLES)
    assert watch.take(GUARDED, "case", burst) is None
    # From a calm control, the same burst is a surge.
    calm = GuardWatch([LATENCY], ["control", "case"], "control", blocks=20, samples=60)
    calm.learn(GUARDED, samples_of(np.exp(logs)))
    calm.begin_period("case")
    assert calm.take(GUARDED, "case", burst) is not None


def test_a_loss_too_small_for_a_surge_is_found_over_blocks() -> None:
    logs = remembering(np.random.default_rng(10), 3_000, 0.6, 0.03)
    trip = WatchedTrial(np.random.default_rng(11), LATENCY).watch(logs, math.log(1.2))
    assert trip is not None
    assert trip.by == "slow loss"
    assert trip.at_ms is None
    assert trip.value == pytest.approx(0.2, abs=0.02)
    assert trip.bound == 0.10
    assert "worse by" in trip.sentence
    assert "20 blocks" not in trip.sentence


def test_a_loss_within_the_margin_trips_nothing() -> None:
    logs = remembering(np.random.default_rng(12), 3_000, 0.6, 0.03)
    assert WatchedTrial(np.random.default_rng(13), LATENCY).watch(logs, math.log(1.08)) is None


def test_a_slow_loss_rests_on_the_e_value_of_the_blocks_that_count() -> None:
    watch = GuardWatch([LATENCY], ["control", "case"], "control", blocks=60, samples=2)
    generator = np.random.default_rng(14)
    losses: list[float] = []
    for block in range(60):
        factor = float(np.exp(generator.normal(0.2, 0.03)))
        for arm, value in (("control", 1.0), ("case", factor)):
            watch.begin_period(arm)
            watch.take(GUARDED, arm, [Sample(10_000 * block, value), Sample(10_000 * block + 1, value)])
        if block % 3 == 0:
            watch.drop_block()
            continue
        losses.append(math.log(factor))
        found = np.array(losses)
        expected = evalue.e_value(found, evalue.scales(found, None), math.log(1.1)).above
        trip = watch.end_block()
        assert (trip is not None) == (expected >= 200)
        if trip is not None:
            assert trip.evidence == pytest.approx(expected)
            return
    pytest.fail("no block tripped")


def test_limits_hold_at_once_in_any_arm_and_while_it_settles() -> None:
    guard = Guard(metric=GUARDED, direction="lower", limit=2.0, consecutive=3)
    watch = GuardWatch([guard], ["control", "case"], "control", blocks=7, samples=10)
    assert not watch.is_armed(GUARDED)
    two = samples_of([3.0, 3.0])
    assert watch.take(GUARDED, "case", [*two, Sample(2_000, 1.0), *two]) is None
    # Another arm starts its own count, and what is missing counts for nothing.
    assert watch.take(GUARDED, "control", [*two, Sample(4_000, math.nan)], settling=True) is None
    trip = watch.take(GUARDED, "control", [Sample(5_000, 2.5)], settling=True)
    assert trip is not None
    assert (trip.by, trip.arm, trip.at_ms, trip.bound) == ("limit", "control", 5_000, 2.0)
    assert trip.sentence == "latency in control: 3 samples in a row above the limit 2 (the last: 2.5)"


def test_a_washout_is_not_watched_for_surges() -> None:
    watch = armed()
    assert watch.take(GUARDED, "case", samples_of(np.full(100, 3.0), 2_000), settling=True) is None
    assert watch.take(GUARDED, "case", samples_of(np.full(100, 3.0), 3_000)) is not None


def test_too_little_of_the_control_arms_no_surge() -> None:
    watch = GuardWatch([LATENCY], ["control", "case"], "control", blocks=7, samples=10)
    watch.learn(GUARDED, samples_of(np.linspace(1, 1.01, FEWEST_CONTROL_SAMPLES)))
    assert not watch.is_armed(GUARDED)
    assert watch.take(GUARDED, "case", samples_of([9.0] * 50, 100)) is None
    for begin in (200, 300, 400):
        watch.begin_period("control")
        watch.take(GUARDED, "control", samples_of(np.linspace(1, 1.01, 20), begin))
    watch.begin_period("case")
    assert watch.is_armed(GUARDED)
    assert watch.take(GUARDED, "case", samples_of([9.0] * 10, 500)) is not None


def test_errors_where_the_control_has_none_are_a_surge() -> None:
    watch = GuardWatch([LATENCY], ["control", "case"], "control", blocks=7, samples=60)
    watch.learn(GUARDED, samples_of(np.zeros(600)))
    watch.begin_period("case")
    assert watch.take(GUARDED, "case", samples_of([0.0, 0.2, 0.3, 0.2, 0.1, 0.4], 700)) is not None


def test_samples_that_come_in_bundles_are_watched_too() -> None:
    logs = remembering(np.random.default_rng(4), PILOT_SAMPLES, 0.6, 0.03)
    for every in (1_000, 10**9):
        # Ten samples with one time; in the end, all.
        bundled = [Sample(one.at_ms // every // 10 * every * 10, one.value) for one in samples_of(np.exp(logs))]
        watch = GuardWatch([LATENCY], ["control", "case"], "control", blocks=20, samples=60)
        watch.learn(GUARDED, bundled)
        watch.begin_period("case")
        assert watch.take(GUARDED, "case", [Sample(700_000, 2.0)] * 30) is not None


def test_more_guards_share_the_error() -> None:
    guards = [Guard(metric=name, direction="lower") for name in ("latency", "errors", "queue")]
    watch = GuardWatch(guards, ["control", "one", "two"], "control", blocks=20, samples=60)
    watch.learn(GUARDED, samples_of(np.exp(remembering(np.random.default_rng(4), 600, 0.6, 0.03))))
    watch.begin_period("two")
    trip = watch.take(GUARDED, "two", samples_of([2.0] * 30, 700))
    assert trip is not None
    assert trip.needed == 3 * 2 * 200


def test_bad_guards_are_refused() -> None:
    with pytest.raises(BadInput, match="at least 1 sample in a row"):
        GuardWatch([Guard(metric="m", direction="lower", consecutive=0)], ["a"], "a", blocks=7, samples=1)
    watch = GuardWatch([LATENCY], ["control", "case"], "control", blocks=7, samples=60)
    with pytest.raises(BadInput, match="values of 0 or more, got -1"):
        watch.learn(GUARDED, samples_of([1.0, -1.0]))
