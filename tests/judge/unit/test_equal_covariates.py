# SPDX-License-Identifier: Apache-2.0
"""Scores at equal covariates: what the load explains is gone, and nothing depends on which arm was which."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from scipy.stats import binomtest

from ktrial.judge.collect_log import collect, pairs_of, visit_scores
from ktrial.judge.equal_covariates import level_scores
from ktrial.judge.judge import judge
from ktrial.judge.model.log import BlockDrawn, Event, OutcomeRule, RunEnded, TrialArm, check_protocol, protocol_in
from ktrial.kit.errors import Contradiction
from tests.support.trials import protocol

TIME = "live.latency"
Load = dict[int, dict[str, list[float]]]


def measured(seed: int, blocks: int, effect: float = 0.0) -> tuple[dict[int, dict[str, float]], Load]:
    """Scores of periods whose load differs by chance, and matters; the first block is far from the others."""
    generator = np.random.default_rng(seed)
    load = generator.normal(0, 1, (blocks, 2))
    scores = -0.2 * load + generator.normal(0, 0.02, (blocks, 2)) + generator.normal(0, 1, (blocks, 1))
    scores[:, 1] += effect
    found = {number + 1: {"control": float(one[0]), "case": float(one[1])} for number, one in enumerate(scores)}
    loads = {number + 1: {"control": [float(one[0])], "case": [float(one[1])]} for number, one in enumerate(load)}
    return found, loads


def differences(scores: dict[int, dict[str, float]]) -> list[float]:
    return [one["case"] - one["control"] for one in scores.values()]


def test_what_the_load_explains_is_taken_away() -> None:
    scores, loads = measured(1, 20, 0.05)
    assert np.std(differences(scores)) > 0.2
    level = differences(level_scores(scores, loads))
    assert np.std(level) < 0.06
    assert np.median(level) == pytest.approx(0.05, abs=0.02)


def test_exchanging_the_arms_of_a_block_changes_nothing_but_its_sign() -> None:
    scores, loads = measured(2, 20)
    level = differences(level_scores(scores, loads))
    for turned in ({3}, {1, 8, 20}):
        for block in turned:
            scores[block] = {"control": scores[block]["case"], "case": scores[block]["control"]}
            loads[block] = {"control": loads[block]["case"], "case": loads[block]["control"]}
        again = differences(level_scores(scores, loads))
        signs = [-1 if block in turned else 1 for block in scores]
        assert again == pytest.approx([sign * one for sign, one in zip(signs, level, strict=True)])
        level = again


def test_a_block_that_was_judged_never_changes() -> None:
    scores, loads = measured(3, 20)
    whole = level_scores(scores, loads)
    for look in (7, 9, 12, 16):
        part = level_scores({block: scores[block] for block in range(1, look + 1)}, loads)
        assert part == {block: whole[block] for block in part}


@pytest.mark.parametrize("value", [0.0, 4.0])
def test_a_covariate_that_never_moves_explains_nothing(value: float) -> None:
    scores, loads = measured(4, 9)
    still = {block: {arm: [value] for arm in arms} for block, arms in loads.items()}
    assert differences(level_scores(scores, still)) == pytest.approx(differences(scores))
    # Beside one that moves, and one that says the same again.
    both = {block: {arm: [*load, 2 * load[0], value] for arm, load in arms.items()} for block, arms in loads.items()}
    expected = differences(level_scores(scores, loads))
    assert differences(level_scores(scores, both)) == pytest.approx(expected)


def test_few_blocks_and_outliers_give_no_slope() -> None:
    scores, loads = measured(5, 3)
    assert differences(level_scores(scores, loads)) == pytest.approx(differences(scores))
    generator = np.random.default_rng(6)
    noise = {block: {"control": 0.0, "case": float(generator.normal(0, 0.01))} for block in range(1, 13)}
    load = {block: {"control": [0.0], "case": [float(generator.normal(0, 0.1))]} for block in noise}
    noise[5]["case"], load[5]["case"] = 3.0, [2.0]
    assert differences(level_scores(noise, load)) == pytest.approx(differences(noise))


def log_of(seed: int, blocks: int, effect: float, *, adjusts: bool = True) -> list[Event]:
    scores, loads = measured(seed, blocks, effect)
    first = protocol(
        arms=(TrialArm(name="control"), TrialArm(name="case")),
        outcomes={TIME: OutcomeRule(direction="lower", role="primary")},
        cap=blocks,
    )
    log: list[Event] = [msgspec.structs.replace(first, adjust=("load",) if adjusts else msgspec.UNSET)]
    for block, arms in scores.items():
        log.append(BlockDrawn(block=block, order=("control", "case")))
        for arm, score in arms.items():
            run = sum(isinstance(one, RunEnded) for one in log) + 1
            covariates = {"load": loads[block][arm][0]}
            values = {TIME: math.exp(-score)}
            log.append(RunEnded(run=run, block=block, arm=arm, measurements=values, covariates=covariates))
    return log


def test_the_verdict_is_at_equal_load_if_the_protocol_says_so() -> None:
    (raw,) = judge(log_of(7, 20, 0.1, adjusts=False)).judged
    (level,) = judge(log_of(7, 20, 0.1)).judged
    assert (raw.verdict, level.verdict) == ("inconclusive", "better")
    assert level.effect is not None
    assert level.effect.estimate == pytest.approx(0.1, abs=0.02)


def test_equal_arms_are_seldom_told_apart() -> None:
    """At 5 %, more than 18 of 200 are rarer than 1 in 100."""
    verdicts = [judge(log_of(seed, 20, 0.0)).judged[0].verdict for seed in range(200)]
    claims = sum(one in {"better", "worse"} for one in verdicts)
    assert binomtest(claims, 200, 0.05, alternative="greater").pvalue > 0.01


def test_a_run_without_the_covariate_has_no_score() -> None:
    log = log_of(8, 9, 0.0)
    log[-1] = msgspec.structs.replace(log[-1], covariates=msgspec.UNSET)
    assert len(pairs_of(visit_scores(collect(log), TIME), "case", "control").arm) == 8


def test_a_trial_that_may_be_extended_cannot_be_judged_at_equal_covariates() -> None:
    first = protocol_in(log_of(9, 9, 0.0))
    with pytest.raises(Contradiction, match="cannot judge at equal covariates"):
        check_protocol(msgspec.structs.replace(first, extend=True))
