# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

from ktrial.judge.model.question import Answer, Observation, Question
from ktrial.judge.observational import judge_foreign

BLOCKS = 8


def observed(values: Sequence[float], blocks: Sequence[str | None], places: Sequence[int]) -> tuple[Observation, ...]:
    return tuple(
        Observation(value=value, block=block, place=place)
        for value, block, place in zip(values, blocks, places, strict=True)
    )


def judged(arms: dict[str, tuple[Observation, ...]], tiers: tuple[str, ...]) -> Answer:
    question = Question(
        name="x.time", direction="lower", arms=arms, control="stock", margin=0.02, role="primary", tiers=tiers
    )
    (answer,) = judge_foreign([question])
    return answer


def ladder(levels: dict[str, float], seed: int = 1) -> dict[str, tuple[Observation, ...]]:
    """All arms in each block, in random order, with 1 % of noise."""
    generator = np.random.default_rng(seed)
    arms: dict[str, list[Observation]] = {name: [] for name in levels}
    place = 0
    for block in range(BLOCKS):
        for name in generator.permutation(list(levels)).tolist():
            place += 1
            value = levels[name] * math.exp(generator.normal(0, 0.01)) * 1.1**block
            arms[name].append(Observation(value=value, block=str(block), place=place))
    return {name: tuple(runs) for name, runs in arms.items()}


def test_three_tiers_are_five_questions_of_one_family() -> None:
    arms = ladder({"stock": 1.0, "t1": 0.9, "t2": 0.9, "t3": 0.7})
    answer = judged(arms, ("t1", "t2", "t3"))
    asked = [*answer.contrasts, *answer.steps[1:]]
    assert [(one.arm, one.control) for one in answer.steps] == [("t1", "stock"), ("t2", "t1"), ("t3", "t2")]
    assert answer.steps[0] == answer.contrasts[0], "the first tier's step is its contrast, asked once"
    raw = []
    for one in asked:
        before, after = (np.log([run.value for run in arms[name]]) for name in (one.control, one.arm))
        raw.append(float(stats.wilcoxon(before, after, method="exact").pvalue))
    held = multipletests(raw, method="holm")[1]
    for one, p, adjusted in zip(asked, raw, held, strict=True):
        assert one.test is not None
        assert one.test.p == pytest.approx(p, abs=1e-12)
        assert one.test.p_adjusted == pytest.approx(adjusted, abs=1e-12)
    assert [one.verdict for one in answer.steps] == ["better", "equivalent", "better"]
    assert answer.steps[1].blocks == BLOCKS


def test_tiers_of_different_sessions_are_compared_through_the_control_that_both_have() -> None:
    first, later = [f"a{at}" for at in range(BLOCKS)], [f"b{at}" for at in range(BLOCKS)]
    noise = np.random.default_rng(5).normal(0, 0.005, (4, BLOCKS))
    # The machine became twice as slow between the sessions: only the control tells.
    stock = [*np.exp(noise[0]), *(2 * np.exp(noise[1]))]
    t1, t2 = (0.9 * np.exp(noise[2])).tolist(), (2 * 0.8 * np.exp(noise[3])).tolist()
    odd, even = [2 * at + at % 2 for at in range(2 * BLOCKS)], [2 * at + 1 - at % 2 for at in range(2 * BLOCKS)]
    arms = {
        "stock": observed(stock, [*first, *later], odd),
        "t1": observed(t1, first, even[:BLOCKS]),
        "t2": observed(t2, later, even[BLOCKS:]),
    }
    step = judged(arms, ("t1", "t2")).steps[1]
    differences = [np.log(mine) - np.log(theirs) for mine, theirs in ((t1, stock[:BLOCKS]), (t2, stock[BLOCKS:]))]
    expected = -float(np.median(np.subtract.outer(differences[1], differences[0])))
    assert step.effect is not None
    assert step.effect.estimate == pytest.approx(expected, abs=1e-12)
    assert step.effect.estimate == pytest.approx(math.log(9 / 8), abs=0.01)
    assert step.verdict == "better"
    assert step.test is not None
    p = float(stats.mannwhitneyu(differences[1], differences[0], method="exact").pvalue)
    assert step.test.p == pytest.approx(p, abs=1e-12)
    assert "through-control" in {finding.kind for finding in step.findings}


def test_tiers_of_different_sessions_without_the_control_in_both_are_not_comparable() -> None:
    first, later = [f"a{at}" for at in range(BLOCKS)], [f"b{at}" for at in range(BLOCKS)]
    arms = ladder({"stock": 1.0, "t1": 0.9})
    values = [run.value for run in arms["t1"]]
    arms = {
        "stock": observed(values, first, range(0, 16, 2)),
        "t1": observed(values, first, range(1, 17, 2)),
        "t2": observed([value / 2 for value in values], later, range(20, 28)),
    }
    step = judged(arms, ("t1", "t2")).steps[1]
    assert (step.verdict, step.effect) == ("not comparable", None)
    assert "not in the blocks of both" in step.why


def test_tiers_one_after_the_other_without_blocks_are_at_most_different_with_their_effect() -> None:
    nothing = [None] * BLOCKS
    values = [run.value / 1.1**at for at, run in enumerate(ladder({"stock": 1.0})["stock"])]
    arms = {
        name: observed([factor * value for value in values], nothing, range(at * BLOCKS, (at + 1) * BLOCKS))
        for at, (name, factor) in enumerate({"stock": 1.0, "t1": 0.8, "t2": 0.5}.items())
    }
    step = judged(arms, ("t1", "t2")).steps[1]
    assert step.verdict == "different"
    assert step.effect is not None
    assert step.effect.estimate == pytest.approx(math.log(1.6))
    assert "time-and-arm-confounded" in {finding.kind for finding in step.findings}


def test_a_tier_without_values_is_said() -> None:
    arms = {**ladder({"stock": 1.0, "t2": 0.9}), "t1": ()}
    arms = {name: arms[name] for name in ("stock", "t1", "t2")}
    steps = judged(arms, ("t1", "t2")).steps
    assert [(one.verdict, one.why) for one in steps] == [("inconclusive", "t1 has no value")] * 2
