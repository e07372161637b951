# SPDX-License-Identifier: Apache-2.0
"""The judge of a race, in which many configurations meet the control in a few common blocks.

A race only chooses what deserves more runs. It gives estimates and no verdict, so it may drop arms after a single block
without a false claim about the arms that stay.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Literal

from ktrial.judge import validity_checks
from ktrial.judge.collect_log import Scores, Trial, visit_scores
from ktrial.judge.model.judgement import Judgement, NextStep, OutcomeJudgement
from ktrial.judge.model.log import Protocol, Race
from ktrial.judge.model.verdict import Effect
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.finding import Finding

#: Maximum number of blocks in a race. More would be better spent on a trial.
MOST_RACE_BLOCKS = 9
#: If blocks are void, a race ends after this multiple of its blocks.
_MOST_DRAWN = 2
_METHOD = "mean difference to the control within blocks"


def refuse_race(protocol: Protocol) -> None:
    """Raise BadInput for a race that cannot be run."""
    race = _race_of(protocol)
    cap = protocol.cap
    if cap is None or not 1 <= cap <= MOST_RACE_BLOCKS:
        raise BadInput(
            f"cap: expected 1 to {MOST_RACE_BLOCKS} blocks for a race, got {cap}", hint="correct cap in the protocol"
        )
    if not 0 < race.keep <= 1:
        raise BadInput(f"keep: expected a share above 0 and up to 1, got {race.keep:g}", hint="for example  keep = 0.5")
    names = [arm.name for arm in protocol.arms]
    for name in race.stay:
        if name not in names:
            raise UnknownName("arm", name, names, hint=f"use one of: {', '.join(names)}")


def judge_race(trial: Trial) -> Judgement:
    """Return the estimates so far, the arms that dropped out, and the next block."""
    protocol = trial.protocol
    scores = {name: visit_scores(trial, name) for name in protocol.outcomes}
    alive = alive_arms(trial, scores[protocol.primary])
    findings = _findings(trial)
    step = _next_step(trial, alive, findings)
    return Judgement(
        cap=protocol.cap,
        comparisons=protocol.comparisons,
        blocks=len(trial.complete),
        voided=len(trial.voids),
        judged=tuple(
            _estimated(protocol, outcome, arm, scores[outcome], is_over=step.action == "stop" or arm not in alive)
            for outcome, rule in protocol.outcomes.items()
            if rule.role != "exploratory"
            for arm, _ in protocol.contrasts
        ),
        dropped=tuple(arm.name for arm in protocol.arms if arm.name not in alive),
        findings=tuple(findings),
        next=step,
    )


def _race_of(protocol: Protocol) -> Race:
    assert protocol.race, "only races are judged here"
    return protocol.race


def comparable_score(score: float, scale: str) -> float:
    """Return a score on the scale on which differences are compared.

    A count becomes log(1 + count), with its sign: large counts then don't hide differences between small counts.
    """
    return math.copysign(math.log1p(abs(score)), score) if scale == "count" else score


def alive_arms(trial: Trial, scores: Scores) -> tuple[str, ...]:
    """Return the arms of the next block: the control, the arms of `stay`, and the best of the challengers."""
    protocol, race = trial.protocol, _race_of(trial.protocol)
    scale = protocol.outcomes[protocol.primary].scale
    stay = {protocol.control, *race.stay}
    challengers = [arm.name for arm in protocol.arms if arm.name not in stay]
    gains: dict[str, list[float]] = {name: [] for name in challengers}
    for block in trial.complete:
        finite = {arm: value for arm, value in scores.get(block, {}).items() if math.isfinite(value)}
        seen = {arm: comparable_score(value, scale) for arm, value in finite.items()}
        challengers = [name for name in challengers if name in seen]
        if protocol.control not in seen:
            continue
        for name in challengers:
            gains[name].append(seen[name] - seen[protocol.control])
        ranked = sorted(challengers, key=lambda name: -mean(gains[name]))
        left = set(ranked[: max(1, math.ceil(race.keep * len(ranked) - 1e-9))])
        challengers = [name for name in challengers if name in left]
    names = stay | set(challengers)
    return tuple(arm.name for arm in protocol.arms if arm.name in names)


def _estimated(protocol: Protocol, outcome: str, arm: str, scores: Scores, *, is_over: bool) -> OutcomeJudgement:
    rule = protocol.outcomes[outcome]
    control = protocol.control
    gains = [visits[arm] - visits[control] for visits in scores.values() if arm in visits and control in visits]
    gains = [gain for gain in gains if math.isfinite(gain)]
    scale: Literal["log", "difference"] = "log" if rule.scale == "log" else "difference"
    effect = Effect(estimate=mean(gains), low=None, high=None, scale=scale, method=_METHOD) if gains else None
    return OutcomeJudgement(
        outcome=outcome,
        role=rule.role,
        arm=arm,
        against=control,
        placebo=any(one.placebo for one in protocol.arms if one.name == arm),
        verdict="inconclusive" if is_over else None,
        why="ended" if is_over else "open",
        blocks=len(gains),
        effect=effect,
    )


def _findings(trial: Trial) -> list[Finding]:
    protocol = trial.protocol
    found = validity_checks.identity([(run.arm, run.identity) for run in trial.runs], protocol.varies)
    different = validity_checks.another([(run.arm, run.failure) for run in trial.runs])
    knob = validity_checks.knob_voids([void.reason for void in trial.voids.values() if void.cause == "knob"])
    return [*found, *(one for one in (different, knob) if one)]


def _next_step(trial: Trial, alive: Sequence[str], findings: Sequence[Finding]) -> NextStep:
    protocol, race = trial.protocol, _race_of(trial.protocol)
    cap = protocol.cap or MOST_RACE_BLOCKS
    refused = next((one for one in findings if one.level == "refuse"), None)
    reason = None
    if trial.ended is not None:
        reason = trial.ended
    elif refused is not None:
        reason = refused.sentence
    elif trial.unfinished is None and len(trial.complete) >= cap:
        reason = "the race is over"
    elif trial.unfinished is None and not set(alive) - {protocol.control, *race.stay}:
        reason = "no challenger is left"
    elif trial.unfinished is None and len(trial.drawn) >= _MOST_DRAWN * cap:
        reason = f"{len(trial.voids)} of {len(trial.drawn)} blocks are void"
    if reason is not None:
        return NextStep(action="stop", reason=reason)
    begun = trial.unfinished
    if begun is not None:
        ran: Mapping[str, int] = Counter(run.arm for run in trial.runs if run.block == begun.block)
        left = tuple(arm for arm in begun.order if ran.get(arm, 0) < protocol.runs_per_visit)
        reason = f"block {begun.block} has begun"
        return NextStep(action="go on", reason=reason, block=begun.block, arms=left, drawn=True)
    block = max(trial.drawn, default=0) + 1
    return NextStep(action="go on", reason="the race goes on", block=block, arms=tuple(alive), look=cap)
