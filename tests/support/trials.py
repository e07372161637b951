# SPDX-License-Identifier: Apache-2.0
"""Makes logs of trials from scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ktrial.judge.model.log import BlockDrawn, Event, OutcomeRule, Protocol, RunEnded, TrialArm, block_order

TIME = "tool.time"
RATE = "tool.rate"


def protocol(names: Iterable[str] = ("case",), **changes: Any) -> Protocol:
    """Return the protocol of the control and these arms, judged by a time with the usual margin and cap."""
    fields: dict[str, Any] = {
        "name": "test",
        "arms": tuple(TrialArm(name=arm) for arm in ("control", *names)),
        "control": "control",
        "outcomes": {TIME: OutcomeRule(direction="lower", role="primary")},
        "cap": 20,
        "seed": 7,
    }
    return Protocol(**{**fields, **changes})


def value_of(score: float, rule: OutcomeRule) -> float:
    """Return the measurement with this score."""
    if rule.scale == "count":
        return score
    return math.exp(score if rule.direction == "higher" else -score)


def log_of(fixed: Protocol, scores: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Event]:
    """Return a log with one run per visit, from scores of each outcome, arm and block.

    An arm with fewer blocks is dropped after its last block. Counters are given as they are.
    """
    log: list[Event] = [fixed]
    blocks = max(len(column) for arms in scores.values() for column in arms.values())
    run = 0
    for block in range(1, blocks + 1):
        here = [arm.name for arm in fixed.arms if any(len(arms.get(arm.name, ())) >= block for arms in scores.values())]
        order = block_order(fixed.seed, block, here)
        log.append(BlockDrawn(block=block, order=order))
        for arm in order:
            run += 1
            measured = {
                outcome: value_of(arms[arm][block - 1], fixed.outcomes[outcome])
                for outcome, arms in scores.items()
                if len(arms.get(arm, ())) >= block
            }
            log.append(RunEnded(run=run, block=block, arm=arm, measurements=measured))
    return log


def pair_log(fixed: Protocol, differences: Sequence[float], outcome: str = TIME) -> list[Event]:
    """Return the log of a trial of one arm whose blocks have these differences, on a control that drifts."""
    control = [0.01 * block for block in range(len(differences))]
    case = [base + step for base, step in zip(control, differences, strict=True)]
    return log_of(fixed, {outcome: {"control": control, "case": case}})
