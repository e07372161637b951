# SPDX-License-Identifier: Apache-2.0
"""The result of a fleet's trial: the effect over machines, its spread, and the machines for which it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ktrial.fleet.draw import FEWEST_PAIRS
from ktrial.fleet.guards import Logs, block_effects, level_of, pair_differences
from ktrial.fleet.log import FleetStanding, WaveEnded
from ktrial.fleet.stepped import stepped_effect
from ktrial.judge.model.comparison import MachineEffect, Pooled, Role
from ktrial.judge.model.log import OutcomeRule, protocol_in
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.judge.sequential import call, worth_it
from ktrial.judge.stats.blocked import one_look
from ktrial.judge.stats.machines import FEWEST_MACHINES, METHOD, PooledMachine, machine_effect, pool
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Direction

Scope = Literal["these machines", "machines like these"]
#: The smallest share of a spread between machines in the whole scatter that the text mentions.
_DIFFERS_SHARE = 0.5
_PAIRS = "Hodges-Lehmann over pairs, Walsh interval"
_STEPS = "least squares over machines and periods, interval by permuting the waves"
_ROLES: tuple[Role, ...] = ("primary", "secondary", "guard")


class SubgroupEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect on the machines with one value of a fact; `effect` is null for fewer than three machines."""

    fact: str
    value: str
    machines: int
    effect: Effect | None


class FleetContrast(msgspec.Struct, frozen=True, kw_only=True):
    """One arm against the control in one outcome, over machines.

    `scope` names the machines for which the verdict holds. `helped` and `hurt` count the machines whose own interval
    excludes zero.
    """

    outcome: str
    role: Role
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
    trials: Mapping[str, tuple[str, ...]] = {}
    ended: str | None = None


def fleet_result(standing: FleetStanding, logs: Logs) -> FleetResult:
    """Return the result so far; `logs` maps the place of each machine that has finished its blocks to its log."""
    began = standing.began
    judged = {"within": _within, "pairs": _of_pairs, "stepped": _of_steps}[began.trial.fleet.design]
    unfinished = {
        step.host: step.message for place, step in standing.steps.items() if place not in logs and step.message
    }
    return FleetResult(
        fleet=began.fleet,
        design=began.trial.fleet.design,
        machines=len({one.host for one in began.machines}),
        measured=len({standing.machine(place).host for place in logs}),
        contrasts=tuple(judged(standing, logs)) if logs else (),
        waves=tuple(standing.waves_over[wave] for wave in sorted(standing.waves_over)),
        left_out={**began.left_out, **unfinished},
        trials=_trials(standing),
        ended=None if standing.end is None else standing.end.reason,
    )


def _trials(standing: FleetStanding) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for place, trial in standing.finished.items():
        host = standing.machine(place).host
        found[host] = (*found.get(host, ()), trial)
    return found


def _within(standing: FleetStanding, logs: Logs) -> list[FleetContrast]:
    protocol = protocol_in(next(iter(logs.values())))
    found = []
    for role in _ROLES:
        outcomes = [one for one in protocol.of_role(role) if protocol.outcomes[one].scale == "log"]
        error = protocol.alpha / max(1, protocol.comparisons * len(outcomes))
        for outcome in outcomes:
            for arm, against in protocol.contrasts:
                values = {
                    standing.machine(place).host: block_effects(log, outcome, arm, against)
                    for place, log in logs.items()
                }
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


def _subgroups(standing: FleetStanding, kept: Sequence[PooledMachine], error: float) -> list[SubgroupEffect]:
    """Return the effect for each value of the facts that the protocol declares."""
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


def _of_pairs(standing: FleetStanding, logs: Logs) -> list[FleetContrast]:
    def judged(bare: FleetContrast, levels: Mapping[int, float], error: float) -> FleetContrast:
        blocks = standing.began.trial.fleet.blocks
        pairs = list(pair_differences(standing, levels, bare.arm))
        shown = tuple(
            MachineEffect(
                machine=f"{one} against {other}",
                blocks=2 * blocks,
                effect=Effect(estimate=difference, low=None, high=None, method="difference of two machines"),
            )
            for one, other, difference in pairs
        )
        bare = msgspec.structs.replace(
            bare, pooled=Pooled(machines=shown), why=f"{len(pairs)} pairs are too few (minimum {FEWEST_PAIRS})"
        )
        looked = one_look(np.array([one[2] for one in pairs]), error) if pairs else None
        return bare if looked is None else _with_interval(bare, looked, error, _PAIRS)

    return _between(standing, logs, judged)


def _of_steps(standing: FleetStanding, logs: Logs) -> list[FleetContrast]:
    def judged(bare: FleetContrast, levels: Mapping[int, float], error: float) -> FleetContrast:
        whole: dict[str, dict[int, float]] = {}
        switch: dict[str, int] = {}
        for place, level in levels.items():
            machine = standing.machine(place)
            whole.setdefault(machine.host, {})[machine.wave] = level
            switch[machine.host] = machine.switch or 0
        periods = len({one.wave for one in standing.began.machines})
        hosts = [host for host, values in whole.items() if len(values) == periods]
        shown = tuple(
            MachineEffect(
                machine=host,
                blocks=len(values) * standing.began.trial.fleet.blocks,
                why=None if host in hosts else "a period is missing",
            )
            for host, values in whole.items()
        )
        why = f"{len(hosts)} machines were measured in all {periods} periods"
        bare = msgspec.structs.replace(bare, pooled=Pooled(machines=shown), why=why)
        if len(hosts) < 2:
            return bare
        matrix = np.array([[whole[host][wave] for wave in sorted(whole[host])] for host in hosts])
        looked = stepped_effect(matrix, np.array([switch[host] for host in hosts]), error)
        return bare if looked is None else _with_interval(bare, looked, error, _STEPS)

    return _between(standing, logs, judged)


def _between(
    standing: FleetStanding, logs: Logs, judged: Callable[[FleetContrast, Mapping[int, float], float], FleetContrast]
) -> list[FleetContrast]:
    """Return the contrasts of a design in which each machine measures one arm at a time."""
    trial, protocol = standing.began.trial, protocol_in(next(iter(logs.values())))
    arm = next(name for name in trial.arms if name != trial.control)
    found = []
    for role in _ROLES:
        outcomes = [one for one in protocol.of_role(role) if protocol.outcomes[one].scale == "log"]
        for outcome in outcomes:
            levels = {place: one for place, log in logs.items() if (one := level_of(log, outcome)) is not None}
            bare = _contrast(outcome, protocol.outcomes[outcome], (arm, trial.control), (), (), protocol.alpha)
            found.append(judged(bare, levels, protocol.alpha / len(outcomes)))
    return found


def _with_interval(bare: FleetContrast, looked: tuple[float, float, float], error: float, method: str) -> FleetContrast:
    """Return the contrast with an interval over these machines, and the verdict from it."""
    estimate, low, high = looked
    margin = math.log1p(bare.margin)
    verdict = call(low, high, margin)
    return msgspec.structs.replace(
        bare,
        verdict=verdict or "inconclusive",
        why="the interval decides" if verdict else "the interval is too wide",
        effect=Effect(estimate=estimate, low=low, high=high, confidence=1 - error, method=method),
        worth=worth_it(verdict, estimate, low, high, margin),
    )
