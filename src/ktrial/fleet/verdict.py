# SPDX-License-Identifier: Apache-2.0
"""What a fleet's trial says: the effect over machines, how much it differs between them, and for whom it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ktrial.fleet.guards import block_effects
from ktrial.fleet.log import Standing, WaveEnded
from ktrial.judge.collect_log import collect, visit_scores
from ktrial.judge.model.comparison import MachineEffect, Pooled
from ktrial.judge.model.log import Event, OutcomeRule, protocol_in
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.judge.sequential import call, worth_it
from ktrial.judge.stats.blocked import one_look
from ktrial.judge.stats.machines import FEWEST_MACHINES, METHOD, PooledMachine, machine_effect, pool
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Direction

Scope = Literal["these machines", "machines like these"]
#: A spread between machines whose share of the scatter is this large is worth a sentence.
_DIFFERS_SHARE = 0.5
_PAIRS = "Hodges-Lehmann over pairs, Walsh interval"


class SubgroupEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect on the machines that share the value of a fact; null with fewer than three of them."""

    fact: str
    value: str
    machines: int
    effect: Effect | None


class FleetContrast(msgspec.Struct, frozen=True, kw_only=True):
    """One arm against the control in one outcome, over machines.

    `scope` says for which machines the verdict holds. `helped` and `hurt` count the machines whose own interval
    excludes zero.
    """

    outcome: str
    role: str
    direction: Direction
    margin: float
    arm: str
    control: str
    verdict: Verdict
    why: str
    scope: Scope
    effect: Effect | None
    worth: WorthIt | None
    pooled: Pooled
    helped: int = 0
    hurt: int = 0
    subgroups: tuple[SubgroupEffect, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether the machines differ clearly in this effect."""
        return self.pooled.i_squared is not None and self.pooled.i_squared >= _DIFFERS_SHARE


class FleetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a fleet's trial, `ktrial.fleet-result/1`."""

    schema: Literal["ktrial.fleet-result/1"] = "ktrial.fleet-result/1"
    fleet: str
    design: str
    machines: int
    measured: int
    contrasts: tuple[FleetContrast, ...]
    waves: tuple[WaveEnded, ...] = ()
    left_out: Mapping[str, str] = {}
    trials: Mapping[str, str] = {}
    ended: str | None = None


def fleet_result(standing: Standing, logs: Mapping[str, Sequence[Event]]) -> FleetResult:
    """Return the result so far; `logs` has the trial of each machine that has finished its blocks, by host."""
    began = standing.began
    pairs = began.trial.fleet.design == "pairs"
    contrasts = (_of_pairs if pairs else _within)(standing, logs) if logs else ()
    unfinished = {
        host: step.message or step.state for host, step in standing.steps.items() if host not in logs and step.message
    }
    return FleetResult(
        fleet=began.fleet,
        design=began.trial.fleet.design,
        machines=len(began.machines),
        measured=len(logs),
        contrasts=tuple(contrasts),
        waves=tuple(standing.waves_over[wave] for wave in sorted(standing.waves_over)),
        left_out={**began.left_out, **unfinished},
        trials=standing.trials,
        ended=None if standing.end is None else standing.end.reason,
    )


def _within(standing: Standing, logs: Mapping[str, Sequence[Event]]) -> list[FleetContrast]:
    protocol = protocol_in(next(iter(logs.values())))
    found = []
    for role in ("primary", "secondary", "guard"):
        outcomes = [one for one in protocol.of_role(role) if protocol.outcomes[one].scale == "log"]
        error = protocol.alpha / max(1, protocol.comparisons * len(outcomes))
        for outcome in outcomes:
            for arm, against in protocol.contrasts:
                values = {host: block_effects(log, outcome, arm, against) for host, log in logs.items()}
                shown, kept = _machines(values)
                rule = protocol.outcomes[outcome]
                one = _contrast(outcome, rule, (arm, against), shown, kept, error)
                groups = _subgroups(standing, kept, error)
                found.append(msgspec.structs.replace(one, subgroups=tuple(groups)))
    return found


def _machines(values: Mapping[str, np.ndarray]) -> tuple[list[MachineEffect], list[PooledMachine]]:
    shown, kept = [], []
    for host, differences in values.items():
        try:
            one = machine_effect(host, differences.tolist())
        except BadInput as error:
            why = error.message.removeprefix(f"{host}: ")
            shown.append(MachineEffect(machine=host, blocks=len(differences), why=why))
            continue
        kept.append(one)
        effect = Effect(estimate=one.estimate, low=one.low, high=one.high, method="Hodges-Lehmann")
        shown.append(MachineEffect(machine=host, blocks=one.blocks, effect=effect))
    return shown, kept


def _contrast(
    outcome: str,
    rule: OutcomeRule,
    pair: tuple[str, str],
    shown: Sequence[MachineEffect],
    kept: Sequence[PooledMachine],
    error: float,
) -> FleetContrast:
    margin = math.log1p(rule.margin)
    bare = FleetContrast(
        outcome=outcome,
        role=rule.role,
        direction=rule.direction,
        margin=rule.margin,
        arm=pair[0],
        control=pair[1],
        verdict="inconclusive",
        why=f"{len(kept)} of {len(shown)} machines can be pooled (minimum {FEWEST_MACHINES})",
        scope="these machines",
        effect=None,
        worth=None,
        pooled=Pooled(machines=tuple(shown)),
        helped=sum(one.low > 0 for one in kept),
        hurt=sum(one.high < 0 for one in kept),
    )
    if len(kept) < FEWEST_MACHINES:
        return bare
    found = pool(kept, 1 - error)
    verdict = call(found.low, found.high, margin)
    return msgspec.structs.replace(
        bare,
        verdict=verdict or "inconclusive",
        why="the interval over machines decides" if verdict else "the interval over machines is too wide",
        scope="machines like these",
        effect=Effect(
            estimate=found.estimate, low=found.low, high=found.high, confidence=found.confidence, method=METHOD
        ),
        worth=worth_it(verdict, found.estimate, found.low, found.high, margin),
        pooled=Pooled(
            machines=tuple(shown),
            predicted_low=found.predicted_low,
            predicted_high=found.predicted_high,
            tau=found.tau,
            i_squared=found.i_squared,
        ),
    )


def _subgroups(standing: Standing, kept: Sequence[PooledMachine], error: float) -> list[SubgroupEffect]:
    """Return the effect for each value of the facts that were declared beforehand."""
    facts = {one.host: one.facts for one in standing.began.machines}
    found = []
    for fact in standing.began.trial.fleet.subgroups:
        values: dict[str, list[PooledMachine]] = {}
        for one in kept:
            values.setdefault(facts[one.machine].get(fact, "unknown"), []).append(one)
        for value, members in sorted(values.items()):
            effect = None
            if len(members) >= FEWEST_MACHINES:
                mean = pool(members, 1 - error / len(values))
                effect = Effect(
                    estimate=mean.estimate, low=mean.low, high=mean.high, confidence=mean.confidence, method=METHOD
                )
            found.append(SubgroupEffect(fact=fact, value=value, machines=len(members), effect=effect))
    return found


def _of_pairs(standing: Standing, logs: Mapping[str, Sequence[Event]]) -> list[FleetContrast]:
    began = standing.began
    control = began.trial.control
    arm = next(name for name in began.trial.arms if name != control)
    first = protocol_in(next(iter(logs.values())))
    outcome = first.primary
    rule, error = first.outcomes[outcome], first.alpha
    level = {host: _level(log, outcome) for host, log in logs.items()}
    shown: list[MachineEffect] = []
    differences: list[float] = []
    for number in sorted({one.pair for one in began.machines if one.pair is not None}):
        hosts = {one.arm: one.host for one in began.machines if one.pair == number}
        name = f"{hosts[arm]} against {hosts[control]}"
        ends = level.get(hosts[arm]), level.get(hosts[control])
        if ends[0] is None or ends[1] is None:
            shown.append(MachineEffect(machine=name, blocks=0, why="one of the two has no result"))
            continue
        differences.append(ends[0] - ends[1])
        effect = Effect(estimate=differences[-1], low=None, high=None, method="difference of two machines")
        shown.append(MachineEffect(machine=name, blocks=1, effect=effect))
    bare = _contrast(outcome, rule, (arm, control), shown, [], error)
    bare = msgspec.structs.replace(bare, why=f"{len(differences)} pairs are complete")
    looked = one_look(np.array(differences), error) if differences else None
    if looked is None:
        return [bare]
    estimate, low, high = looked
    margin = math.log1p(rule.margin)
    verdict = call(low, high, margin)
    return [
        msgspec.structs.replace(
            bare,
            verdict=verdict or "inconclusive",
            effect=Effect(estimate=estimate, low=low, high=high, confidence=1 - error, method=_PAIRS),
            worth=worth_it(verdict, estimate, low, high, margin),
        )
    ]


def _level(log: Sequence[Event], outcome: str) -> float | None:
    """Return the mean score of a machine that measures one arm, under both of its names."""
    scores = [one for visits in visit_scores(collect(log), outcome).values() for one in visits.values()]
    return float(np.mean(scores)) if scores and np.isfinite(scores).all() else None
