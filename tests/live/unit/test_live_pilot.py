# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from ktrial.judge.planning import block_sd, blocks_to_detect, smallest_effect
from ktrial.judge.sequential import cap_of
from ktrial.kit.errors import BadInput
from ktrial.live.model import Sample
from ktrial.live.pace import slot_seconds
from ktrial.live.pilot import LiveWish, PilotSwitch, plan_live
from tests.support.live_noise import remembering, samples_of

WISH = LiveWish(direction="lower", detect=0.05)


def switched(
    seed: int, *, length: int = 120, parts: int = 16, fades_s: float, effect: float = 0.2
) -> tuple[list[Sample], list[PilotSwitch]]:
    """A pilot whose arm costs `effect`; after a switch the outcome goes to its new level exponentially."""
    logs = remembering(np.random.default_rng(seed), length * parts, 0.5, 0.03)
    before, switches, time = 0.0, [], np.arange(length)
    for part in range(parts):
        level = effect * (part % 2)
        logs[part * length : (part + 1) * length] += level + (before - level) * np.exp(-(time + 1) / fades_s)
        before = level
        switches.append(PilotSwitch(1_000 * length * part, ("control", "case")[part % 2]))
    return samples_of(np.exp(logs)), switches


@pytest.mark.parametrize("fades_s", [6.0, 12.0])
def test_what_still_moves_after_a_switch_is_dropped(fades_s: float) -> None:
    plan = plan_live(*_arranged(switched(1, fades_s=fades_s)))
    assert plan.washout_measured
    # At three time constants a twentieth of the effect is left; slices are 10 s long.
    assert 2 * fades_s <= plan.washout_s <= 6 * fades_s + 10
    assert plan.period_s >= plan.washout_s
    assert f"ktrial drops {plan.washout_s:g} s after each" in plan.why[1]


def _arranged(pilot: tuple[list[Sample], list[PilotSwitch]]) -> tuple[list[Sample], LiveWish, list[PilotSwitch]]:
    samples, switches = pilot
    return samples, WISH, switches


def test_the_effect_of_the_arm_is_no_noise() -> None:
    samples, wish, switches = _arranged(switched(2, fades_s=0.01, effect=1.0))
    large = plan_live(samples, wish, switches)
    none = plan_live(*_arranged(switched(2, fades_s=0.01, effect=0.0)))
    assert large.sd == pytest.approx(none.sd, rel=0.15)
    assert large.washout_s == 10
    assert "in 15 switches the outcome does not move after the first 10 s" in large.why[1]


def test_what_moves_until_the_next_switch_is_told() -> None:
    plan = plan_live(*_arranged(switched(3, parts=20, fades_s=100.0, effect=0.6)))
    assert not plan.washout_measured
    assert "still moves after 80 s, shortly before the next switch" in plan.why[1]


def test_a_pilot_of_the_control_alone_drops_as_long_as_samples_are_alike() -> None:
    samples = samples_of(np.exp(remembering(np.random.default_rng(4), 1_800, 0.9, 0.03)))
    plan = plan_live(samples, WISH)
    assert not plan.washout_measured
    assert 15 <= plan.washout_s <= 60
    assert plan.lag1 == pytest.approx(0.9, abs=0.03)
    assert "too few switches to an arm (minimum " in plan.why[1]


def test_blocks_cap_and_time_are_those_of_the_judges_plan() -> None:
    samples = samples_of(np.exp(remembering(np.random.default_rng(5), 2_400, 0.3, 0.05)))
    plan = plan_live(samples, replace(WISH, detect=0.03, arms=3, comparisons=2))
    best = next(one for one in plan.tried if one.period_s == plan.period_s)
    assert plan.needed == blocks_to_detect(plan.sd, 0.03) == best.needed
    assert plan.can_detect
    assert plan.cap >= plan.needed
    assert plan.smallest_effect == smallest_effect(plan.sd, plan.cap) <= 0.03
    assert plan.duration_s == plan.cap * 3 * slot_seconds(plan.washout_s + plan.period_s)
    assert plan.duration_s <= 1.1 * min(one.duration_s for one in plan.tried if one.cap is not None)


def test_the_noise_of_a_length_is_that_of_periods_of_this_length() -> None:
    logs = remembering(np.random.default_rng(6), 6_000, 0.6, 0.05)
    plan = plan_live(samples_of(np.exp(logs)), replace(WISH, least_washout_s=5.0))
    by_length = {one.period_s: one for one in plan.tried}
    means = np.log(np.exp(logs).reshape(-1, 60).mean(axis=1))
    assert by_length[60.0].sd == pytest.approx(block_sd(np.diff(means).tolist()), rel=0.15)
    # Of 600 s, the pilot has fewer than six pairs.
    assert max(by_length) == 300.0


def test_only_what_the_load_leaves_is_noise() -> None:
    generator = np.random.default_rng(10)
    load = remembering(generator, 2_400, 0.98, 0.5)
    logs = 0.4 * load + remembering(generator, 2_400, 0.3, 0.03)
    samples = samples_of(np.exp(logs))
    wish = replace(WISH, budget=60)
    raw, adjusted = plan_live(samples, wish), plan_live(samples, wish, covariates={"load": samples_of(load)})
    bare = plan_live(samples_of(np.exp(logs - 0.4 * load)), replace(WISH, least_washout_s=adjusted.washout_s))
    assert not raw.can_detect
    assert adjusted.can_detect
    # The mean of a period is not quite that of its logarithms.
    of_raw, sd, of_bare = ({one.period_s: one.sd for one in plan.tried}[60.0] for plan in (raw, adjusted, bare))
    assert sd < 2 * of_bare < of_raw / 2
    assert "judged at equal load" in adjusted.why[2]


def test_many_covariates_make_a_short_pilot_no_quieter() -> None:
    generator = np.random.default_rng(11)
    samples = samples_of(np.exp(remembering(generator, 600, 0.3, 0.05)))
    rivals = {f"rival {one}": samples_of(remembering(generator, 600, 0.9, 1.0)) for one in range(8)}
    sd, raw = (
        {one.period_s: one.sd for one in plan_live(samples, WISH, covariates=held).tried} for held in (rivals, {})
    )
    assert all(sd[length] > 0.8 * raw[length] for length in raw)


def test_spikes_of_a_latency_count_as_its_mean_does() -> None:
    generator = np.random.default_rng(9)
    values = np.exp(remembering(generator, 2_400, 0.3, 0.03))
    values[generator.random(2_400) < 0.02] *= 20
    mean = plan_live(samples_of(values), WISH)
    median = plan_live(samples_of(values), replace(WISH, summary="median"))
    sd = {one.period_s: one.sd for one in mean.tried}
    expected = block_sd(np.diff(np.log(values.reshape(-1, 60).mean(axis=1))).tolist())
    assert sd[60.0] == pytest.approx(expected, rel=0.3)
    assert {one.period_s: one.sd for one in median.tried}[60.0] < expected / 5
    # Spikes of a throughput are another matter: what is worse there is close to zero.
    higher = plan_live(samples_of(1 / values), replace(WISH, direction="higher"))
    assert {one.period_s: one.sd for one in higher.tried}[60.0] < expected / 5


def test_noise_that_hides_the_effect_is_told_with_what_can_be_found() -> None:
    samples = samples_of(np.exp(remembering(np.random.default_rng(7), 1_200, 0.99, 0.5)))
    plan = plan_live(samples, replace(WISH, detect=0.01, budget=60))
    assert not plan.can_detect
    assert plan.cap == 60
    assert plan.smallest_effect > 0.01
    assert "more than allowed; 60 blocks find" in plan.why[-1]


def test_blocks_that_the_budget_forbids_are_named() -> None:
    samples = samples_of(np.exp(remembering(np.random.default_rng(7), 1_200, 0.3, 0.10)))
    plan = plan_live(samples, replace(WISH, detect=0.02, budget=20))
    assert plan.cap == 20
    assert f"--budget {cap_of(plan.needed)} allows as many" in plan.why[-1]


def test_the_time_that_is_allowed_is_kept() -> None:
    samples = samples_of(np.exp(remembering(np.random.default_rng(8), 2_400, 0.3, 0.10)))
    free = plan_live(samples, replace(WISH, detect=0.03))
    held = plan_live(samples, replace(WISH, detect=0.03, longest_s=free.duration_s / 3))
    assert free.can_detect
    assert not held.can_detect
    assert held.duration_s <= free.duration_s / 3
    with pytest.raises(BadInput, match="cannot plan a live trial of at most 480 blocks within 1 min"):
        plan_live(samples, replace(WISH, longest_s=60.0))


@pytest.mark.parametrize(
    "samples, message",
    [
        (samples_of(np.ones(59)), "read the primary metric 59 times, too few"),
        (samples_of([1.0] * 99 + [0.0]), "values of zero or below"),
        (samples_of(np.linspace(1, 2, 60)), "cannot plan periods: the pilot lasted 1 min but must last"),
        ([*samples_of(np.ones(99), 1), Sample(0, 1.0)], "not in chronological order"),
        ([Sample(5, 1.0)] * 99, "most samples of the pilot have the same time"),
    ],
)
def test_a_pilot_that_says_too_little_is_refused(samples: list[Sample], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        plan_live(samples, WISH)
