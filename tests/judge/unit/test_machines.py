# SPDX-License-Identifier: Apache-2.0
"""Several machines in one question, against statsmodels and by simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects  # type: ignore[import-untyped]

from ktrial.judge.model.comparison import Contrast
from ktrial.judge.model.question import Answer, Observation, Question
from ktrial.judge.observational import judge_foreign

EFFECTS = {"desk": 0.80, "laptop": 0.85, "server": 0.78, "board": 0.90}


def runs_of(
    effects: Mapping[str, float], *, blocks: int = 10, noise: float = 0.01, seed: int = 1, **changes: Any
) -> dict[str, tuple[Observation, ...]]:
    """Both arms in every block of every machine, in turns; machines are as different as machines are."""
    generator = np.random.default_rng(seed)
    held: dict[str, list[Observation]] = {"stock": [], "tuned": []}
    place = 0
    for speed, (machine, effect) in enumerate(effects.items(), 1):
        for block in range(blocks):
            order = [("stock", 1.0), ("tuned", effect)]
            for arm, factor in order if generator.random() < 0.5 else order[::-1]:
                place += 1
                value = 100.0 * speed**2 * factor * math.exp(generator.normal(0, noise))
                told = {"place": place, "block": f"{machine}, {block}", "machine": machine, **changes}
                held[arm].append(Observation(value=value, **told))
    return {arm: tuple(runs) for arm, runs in held.items()}


def answer_to(arms: Mapping[str, Sequence[Observation]], **changes: Any) -> Answer:
    held = {arm: tuple(runs) for arm, runs in arms.items()}
    asked = Question(
        name="time", arms=held, control="stock", pooled=True, **{"direction": "lower", "margin": 0.02, **changes}
    )
    return judge_foreign([asked])[0]


def only(arms: Mapping[str, Sequence[Observation]], **changes: Any) -> Contrast:
    (contrast,) = answer_to(arms, **changes).contrasts
    return contrast


def test_the_whole_is_that_of_statsmodels_over_the_machines() -> None:
    found = only(runs_of(EFFECTS))
    assert found.pooled is not None
    assert [one.machine for one in found.pooled.machines] == list(EFFECTS)
    parts = [one.effect for one in found.pooled.machines if one.effect is not None]
    for part, effect in zip(parts, EFFECTS.values(), strict=True):
        assert part.estimate == pytest.approx(-math.log(effect), abs=0.02)
    estimates = np.array([part.estimate for part in parts])
    ends = np.array([(part.low, part.high) for part in parts])
    errors = (ends[:, 1] - ends[:, 0]) / (2 * stats.t.ppf(0.975, 9))
    expected = combine_effects(estimates, errors**2, method_re="dl", use_t=True)
    error = expected.sd_eff_w_re * math.sqrt(max(1.0, expected.scale_hksj_re))
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(expected.mean_effect_re, abs=1e-9)
    assert found.effect.high == pytest.approx(expected.mean_effect_re + stats.t.ppf(0.975, 3) * error, abs=1e-9)
    wide = stats.t.ppf(0.975, 2) * math.sqrt(expected.tau2 + error**2)
    assert found.pooled.predicted_low == pytest.approx(expected.mean_effect_re - wide, abs=1e-9)
    assert (found.pooled.tau, found.pooled.i_squared) == pytest.approx(
        (math.sqrt(expected.tau2), expected.i2), abs=1e-9
    )
    assert found.test is not None
    assert found.test.p == pytest.approx(2 * stats.t.sf(expected.mean_effect_re / error, 3), abs=1e-9)
    assert found.verdict == "better"
    assert found.why.endswith("of 4 machines together")


def test_machines_that_contradict_each_other_decide_nothing_together() -> None:
    found = only(runs_of({"desk": 0.8, "laptop": 1.2, "server": 0.85, "board": 1.15}))
    assert found.verdict == "inconclusive"
    assert found.pooled is not None
    assert found.pooled.predicted_low is not None
    assert found.pooled.predicted_low < 0


@pytest.mark.parametrize("machines", [1, 2])
def test_fewer_than_three_machines_are_shown_side_by_side(machines: int) -> None:
    found = only(runs_of(dict(list(EFFECTS.items())[:machines])))
    assert (found.verdict, found.effect) == ("inconclusive", None)
    assert "pooling needs at least 3" in found.why
    assert found.pooled is not None
    assert found.pooled.tau is None
    assert [one.effect is not None for one in found.pooled.machines] == [True] * machines


def test_a_machine_that_tells_nothing_by_itself_is_named_and_left_out() -> None:
    arms = runs_of(EFFECTS)
    few = runs_of({"phone": 0.5}, blocks=6)
    alone = [Observation(value=9.0, machine="shelf", block="shelf, 0", place=900)]
    loose = runs_of({"cloud": 0.5}, block=None)
    both = {arm: (*arms[arm], *few[arm], *loose[arm], *(alone if arm == "stock" else [])) for arm in arms}
    found = only(both)
    assert found.pooled is not None
    told = {one.machine: one.why for one in found.pooled.machines if one.effect is None}
    assert told == {
        "phone": "6 blocks are too few to pool",
        "cloud": "its runs are not in blocks, which the effect on one machine needs",
        "shelf": "it has not measured both arms",
    }
    assert [one.machine for one in found.pooled.together] == list(EFFECTS)
    assert found.effect == only(arms).effect


def test_what_is_doubtful_of_one_machine_is_doubtful_of_the_whole() -> None:
    arms = runs_of(EFFECTS)
    lost = {
        arm: tuple(
            run if run.machine != "board" else Observation(value=run.value, machine="board", block=run.block)
            for run in runs
        )
        for arm, runs in arms.items()
    }
    found = only(lost)
    assert (found.verdict, "order" in found.why) == ("different", True)
    assert found.effect is not None


def test_values_without_a_ratio_are_not_pooled() -> None:
    arms = runs_of(EFFECTS)
    with_zero = {**arms, "stock": (Observation(value=0.0, machine="desk", block="desk, 0", place=999), *arms["stock"])}
    found = only(with_zero)
    assert (found.verdict, found.effect) == ("inconclusive", None)
    assert found.pooled is not None
    assert {one.why for one in found.pooled.machines} == {"values of zero or below have no ratio to pool"}


def test_that_machines_differ_is_neither_a_swing_nor_two_modes() -> None:
    kinds = {one.kind for one in answer_to(runs_of(EFFECTS)).findings}
    assert not kinds & {"swing", "two-modes"}
    assert "swing" in {one.kind for one in answer_to(runs_of(EFFECTS, noise=0.2)).findings}


def test_equal_arms_on_machines_that_differ_are_seldom_told_apart() -> None:
    """Machines differ by an sd of 2 %, the mean effect is none: HKSJ claims in 5 % at most (section 10)."""
    generator = np.random.default_rng(3)
    claims = covered = 0
    for seed in range(150):
        effects = {name: math.exp(generator.normal(0, 0.02)) for name in "abcd"}
        found = only(runs_of(effects, seed=seed, blocks=8))
        claims += found.verdict in {"better", "worse"}
        one_more = generator.normal(0, 0.02)
        assert found.pooled is not None
        assert found.pooled.predicted_low is not None
        assert found.pooled.predicted_high is not None
        covered += found.pooled.predicted_low < one_more < found.pooled.predicted_high
    # 5 % and two Monte Carlo sd of 150 trials.
    assert claims <= 150 * 0.086
    assert covered >= 150 * 0.914
