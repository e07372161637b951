# SPDX-License-Identifier: Apache-2.0
"""Two arms that were measured on several machines: each machine by itself, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ktrial.judge.contrasts import Measured
from ktrial.judge.model.comparison import MachineEffect, Pooled, TestResult
from ktrial.judge.model.verdict import Effect
from ktrial.judge.observational_layout import Layout, Order, Runs, Scale, lay_out
from ktrial.judge.stats import pooling
from ktrial.judge.stats.arrays import Array
from ktrial.kit.errors import BadInput
from ktrial.kit.finding import Finding

METHOD = "random effects over machines (Hartung-Knapp-Sidik-Jonkman)"
_BY_ITSELF = "Hodges-Lehmann"
_WORST: tuple[Order, ...] = ("sequence", "unknown", "interleaved")


class Together(NamedTuple):
    """What is known of every machine; the whole where there are enough to pool, else why not."""

    pooled: Pooled
    layout: Layout | None
    measured: Measured | None
    why: str


def pool_machines(control: Runs, arm: Runs, scale: Scale, alpha: float) -> Together:
    """One contrast over the machines of its runs, of which all must be known."""
    shown: list[MachineEffect] = []
    kept: list[pooling.PooledMachine] = []
    layouts: list[Layout] = []
    for machine in dict.fromkeys((*control.machines, *arm.machines)):
        one, layout, effect = _alone(str(machine), _of(control, machine), _of(arm, machine), scale)
        shown.append(one)
        if effect is not None and layout is not None:
            kept.append(effect)
            layouts.append(layout)
    if len(kept) < pooling.FEWEST_MACHINES:
        count = f"{len(kept)} machine{'s'[: len(kept) != 1]} of {len(shown)} can be pooled"
        why = f"{count}, and at least {pooling.FEWEST_MACHINES} are needed: they are shown side by side"
        return Together(Pooled(machines=tuple(shown)), None, None, why)
    found = pooling.pool(kept, 1 - alpha)
    whole = Pooled(
        machines=tuple(shown),
        predicted_low=found.predicted_low,
        predicted_high=found.predicted_high,
        tau=found.tau,
        i_squared=found.i_squared,
    )
    return Together(whole, _layout(layouts, kept), _measured(found), "")


def within_machines(runs: Runs) -> Array:
    """Scores less the median of their machine: that machines differ is no mode."""
    names = np.array([str(machine) for machine in runs.machines])
    scores = runs.scores.copy()
    for name in np.unique(names):
        scores[names == name] -= np.median(scores[names == name])
    return scores


def _of(runs: Runs, machine: str | None) -> Runs:
    places = [place for place, name in enumerate(runs.machines) if name == machine]
    return runs.at(places)


def _alone(
    name: str, control: Runs, arm: Runs, scale: Scale
) -> tuple[MachineEffect, Layout | None, pooling.PooledMachine | None]:
    """One machine, and its part of the whole where it can have one."""
    if not len(control.scores) or not len(arm.scores):
        return MachineEffect(machine=name, blocks=0, why="it has not measured both arms"), None, None
    layout = lay_out(control, arm)
    if layout is None or not layout.blocked:
        why = "its runs are not in blocks: what a machine tells by itself needs them"
        return MachineEffect(machine=name, blocks=0, why=why), None, None
    blocks = len(layout.control)
    if scale != "log":
        why = "values of zero or below have no ratio to pool"
        return MachineEffect(machine=name, blocks=blocks, why=why), None, None
    try:
        found = pooling.machine_effect(name, (layout.arm - layout.control).tolist())
    except BadInput as error:
        why = error.message.removeprefix(f"{name}: ")
        return MachineEffect(machine=name, blocks=blocks, why=why), None, None
    effect = Effect(estimate=found.estimate, low=found.low, high=found.high, method=_BY_ITSELF)
    return MachineEffect(machine=name, blocks=blocks, effect=effect), layout, found


def _layout(layouts: Sequence[Layout], kept: Sequence[pooling.PooledMachine]) -> Layout:
    """The machines as units; what is doubtful of one of them is doubtful of all."""
    order = next(one for one in _WORST if any(layout.order == one for layout in layouts))
    confounded = next((layout.confounded_by for layout in layouts if layout.confounded_by is not None), None)
    findings: dict[str, Finding] = {one.sentence: one for layout in layouts for one in layout.findings}
    return Layout(
        control=np.zeros(len(kept)),
        arm=np.array([one.estimate for one in kept]),
        unit="machine",
        order=order,
        confounded_by=confounded,
        findings=tuple(findings.values()),
        runs=(sum(layout.runs[0] for layout in layouts), sum(layout.runs[1] for layout in layouts)),
    )


def _measured(found: pooling.PooledEffect) -> Measured:
    from scipy.special import stdtr, stdtrit

    free = len(found.machines) - 1
    error = (found.high - found.low) / (2 * float(stdtrit(free, (1 + found.confidence) / 2)))
    t = found.estimate / error
    effect = Effect(estimate=found.estimate, low=found.low, high=found.high, confidence=found.confidence, method=METHOD)
    test = TestResult(name=METHOD, statistic="t", value=t, p=2 * float(stdtr(free, -abs(t))), floor=0.0)
    return Measured(effect=effect, test=test, cross_checks=())
