# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest

from ktrial.judge.validity_checks import fit_carry_over
from ktrial.live import carry_over
from ktrial.live.carry_over import PeriodScore, estimate_carry_over
from tests.support.live_noise import remembering


def periods(
    seed: int, blocks: int, effect: float, stays: float, *, sd: float = 0.02, memory: float = 0.5, course: float = 0.0
) -> list[PeriodScore]:
    """Periods in random blocks; the one after a period of the case still has `stays` of its effect.

    The case's second half is better than its first by `course`.
    """
    generator = np.random.default_rng(seed)
    noise = remembering(generator, 4 * blocks, memory, sd).reshape(-1, 2)
    found: list[PeriodScore] = []
    last = "control"
    for block in range(blocks):
        for arm in generator.permutation(["control", "case"]).tolist():
            level = effect * (arm == "case") + stays * (last == "case")
            moved = course / 2 * (arm == "case")
            early, late = noise[len(found)] + level + np.array((-moved, moved))
            found.append(PeriodScore(block, arm, (early + late) / 2, early, late))
            last = arm
    return found


def test_an_effect_that_stays_after_undo_is_named_with_estimate_interval_and_p() -> None:
    found = estimate_carry_over(periods(1, 20, 0.10, 0.05), "case", "control", 12.0)
    assert found is not None
    low, high = found.stays.low, found.stays.high
    assert low is not None
    assert high is not None
    assert 0 < low < 0.05 < high < 0.10
    assert found.p <= 0.01
    (finding,) = found.findings
    assert finding.kind == "effect-after-undo"
    assert "an effect of case stays after undo: +" in finding.sentence
    assert "12 s after the switch" in finding.sentence
    assert finding.values == {"stays": found.stays.estimate, "p": found.p}


def test_the_estimate_is_the_one_of_the_judge() -> None:
    made = periods(2, 20, 0.10, 0.03)
    found = estimate_carry_over(made, "case", "control", 5.0)
    fit = fit_carry_over(np.array([one.score for one in made]), [one.arm for one in made], "case", "control")
    assert found is not None
    assert fit is not None
    assert found.stays.estimate == fit.estimate


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_what_does_not_stay_is_seldom_found(monkeypatch: pytest.MonkeyPatch, memory: float) -> None:
    """At 5 %, more than 4 of 30 are rarer than 1 in 60; Student's t alone is wrong twice as often."""
    monkeypatch.setattr(carry_over, "REDRAWS", 99)
    answers = [
        estimate_carry_over(periods(seed, 12, 0.10, 0.0, memory=memory), "case", "control", 5.0) for seed in range(30)
    ]
    assert sum(one is not None and one.p <= 0.05 for one in answers) <= 4


def test_what_stays_is_mostly_found_and_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry_over, "REDRAWS", 149)
    answers = [estimate_carry_over(periods(seed, 20, 0.10, 0.05), "case", "control", 5.0) for seed in range(8)]
    assert sum(one is not None and one.p <= 0.01 for one in answers) >= 7
    covered = [one for one in answers if one is not None and (one.stays.low or 0) <= 0.05 <= (one.stays.high or 0)]
    assert len(covered) >= 6


def test_an_effect_that_still_builds_up_is_a_finding() -> None:
    found = estimate_carry_over(periods(3, 20, 0.10, 0.0, course=0.06), "case", "control", 5.0)
    assert found is not None
    assert [one.kind for one in found.findings] == ["effect-builds-up"]
    assert found.course is not None
    assert found.course.estimate == pytest.approx(0.06, abs=0.02)


def test_periods_without_halves_have_no_course() -> None:
    bare = [PeriodScore(*one[:3]) for one in periods(4, 12, 0.10, 0.0)]
    found = estimate_carry_over(bare, "case", "control", 5.0)
    assert found is not None
    assert found.course is None
    assert found.findings == ()


def test_too_few_periods_say_nothing() -> None:
    assert estimate_carry_over(periods(5, 3, 0.10, 0.05), "case", "control", 5.0) is None


def test_three_arms_are_told_apart() -> None:
    generator = np.random.default_rng(6)
    made, last = [], "control"
    for block in range(30):
        for arm in generator.permutation(["control", "one", "two"]).tolist():
            score = generator.normal(0, 0.01) + 0.1 * (arm != "control") + 0.05 * (last == "two")
            made.append(PeriodScore(block, arm, score))
            last = arm
    one, two = (estimate_carry_over(made, arm, "control", 5.0) for arm in ("one", "two"))
    assert one is not None
    assert two is not None
    assert one.findings == ()
    assert [finding.kind for finding in two.findings] == ["effect-after-undo"]
