# SPDX-License-Identifier: Apache-2.0
"""Pooling over machines: the effect on each machine, the average, and the range to expect on another machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ktrial.judge.contrasts import ContrastResult
from ktrial.judge.model.comparison import MachineEffect, Pooled, TestResult
from ktrial.judge.model.verdict import Effect
from ktrial.judge.observational_layout import Layout, Order, Runs, Scale, lay_out
from ktrial.judge.sequential import as_array
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.blocked import one_look
from ktrial.kit.errors import BadInput
from ktrial.kit.finding import Finding
from ktrial.kit.startup import load_special

#: Fewer machines than this are shown side by side instead of being pooled.
FEWEST_MACHINES = 3


class PooledMachine(msgspec.Struct, frozen=True, kw_only=True):
    """The effect on one machine, with the standard error derived from its one-look interval."""

    machine: str
    blocks: int
    estimate: float
    error: float
    low: float
    high: float


class PooledEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The mean effect over machines with its interval.

    `tau` is the sd between machines. `i_squared` is the share of the scatter that comes from differences between
    machines. `predicted_low` and `predicted_high` bound the effect on one more machine. All but `i_squared` are
    logarithms.
    """

    machines: tuple[PooledMachine, ...]
    estimate: float
    low: float
    high: float
    predicted_low: float
    predicted_high: float
    tau: float
    i_squared: float
    confidence: float


def machine_effect(machine: str, differences: Sequence[float]) -> PooledMachine:
    """Return the effect on one machine from all its blocks.

    Raise BadInput for fewer than seven blocks, or if all differences are equal.
    """
    stdtrit = load_special().stdtrit

    values = as_array(differences)
    found = one_look(values)
    if found is None or len(values) < 7:
        raise BadInput(
            f"{machine}: {len(values)} blocks are too few to pool",
            hint="run at least seven blocks on each machine",
        )
    estimate, low, high = found
    if not high > low:
        raise BadInput(
            f"{machine}: all blocks show the same difference, which gives no interval",
            hint=f"leave out {machine}, or measure more blocks there",
        )
    error = (high - low) / (2 * float(stdtrit(len(values) - 1, 0.975)))
    return PooledMachine(machine=machine, blocks=len(values), estimate=estimate, error=error, low=low, high=high)


def pool(machines: Sequence[PooledMachine], confidence: float = 0.95) -> PooledEffect:
    """Return the pooled effect by a random-effects model, with a prediction interval.

    The variance between machines is DerSimonian-Laird's; the error is Hartung-Knapp-Sidik-Jonkman's, but never below
    the error of the plain model. Raise BadInput for too few machines.
    """
    stdtrit = load_special().stdtrit

    count = len(machines)
    if count < FEWEST_MACHINES:
        raise BadInput(
            f"too few machines to pool: {count} (minimum {FEWEST_MACHINES})", hint="add trials of other machines"
        )
    effects = np.array([one.estimate for one in machines])
    variances = np.array([one.error for one in machines]) ** 2
    tau_squared, i_squared = _between(effects, variances)
    weights = 1 / (variances + tau_squared)
    mean = float((weights * effects).sum() / weights.sum())
    scatter = float((weights * (effects - mean) ** 2).sum() / (count - 1))
    error = math.sqrt(max(1.0, scatter) / float(weights.sum()))
    share = (1 + confidence) / 2
    half = float(stdtrit(count - 1, share)) * error
    predicted = float(stdtrit(count - 2, share)) * math.sqrt(tau_squared + error**2)
    return PooledEffect(
        machines=tuple(machines),
        estimate=mean,
        low=mean - half,
        high=mean + half,
        predicted_low=mean - predicted,
        predicted_high=mean + predicted,
        tau=math.sqrt(tau_squared),
        i_squared=i_squared,
        confidence=confidence,
    )


def _between(effects: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """Return DerSimonian and Laird's variance between machines, and its share of the scatter."""
    weights = 1 / variances
    mean = (weights * effects).sum() / weights.sum()
    scatter = float((weights * (effects - mean) ** 2).sum())
    free = len(effects) - 1
    scale = float(weights.sum() - (weights**2).sum() / weights.sum())
    tau_squared = max(0.0, (scatter - free) / scale)
    return tau_squared, max(0.0, 1 - free / scatter) if scatter > 0 else 0.0


METHOD = "random effects over machines (Hartung-Knapp-Sidik-Jonkman)"
_BY_ITSELF = "Hodges-Lehmann"
_WORST: tuple[Order, ...] = ("sequence", "unknown", "interleaved")


class Together(NamedTuple):
    """The effects on all machines, and the pooled contrast or, in `why`, the reason that there is none."""

    pooled: Pooled
    layout: Layout | None
    measured: ContrastResult | None
    why: str


def pool_machines(control: Runs, arm: Runs, scale: Scale, alpha: float) -> Together:
    """Return one contrast pooled over the machines of its runs; every run must have a machine."""
    shown: list[MachineEffect] = []
    kept: list[PooledMachine] = []
    layouts: list[Layout] = []
    for machine in dict.fromkeys((*control.machines, *arm.machines)):
        one, layout, effect = _alone(str(machine), _of(control, machine), _of(arm, machine), scale)
        shown.append(one)
        if effect is not None and layout is not None:
            kept.append(effect)
            layouts.append(layout)
    if len(kept) < FEWEST_MACHINES:
        count = f"{len(kept)} of {len(shown)} machine{'s'[: len(shown) != 1]} can be pooled"
        why = f"{count}, but pooling needs at least {FEWEST_MACHINES}: the machines are shown side by side"
        return Together(Pooled(machines=tuple(shown)), None, None, why)
    found = pool(kept, 1 - alpha)
    whole = Pooled(
        machines=tuple(shown),
        predicted_low=found.predicted_low,
        predicted_high=found.predicted_high,
        tau=found.tau,
        i_squared=found.i_squared,
    )
    return Together(whole, _layout(layouts, kept), _as_contrast(found), "")


def within_machines(runs: Runs) -> Array:
    """Return the scores minus the median of their machine, so that machines don't look like modes."""
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
) -> tuple[MachineEffect, Layout | None, PooledMachine | None]:
    """Return the effect on one machine; also the layout and effect for pooling, if it can be pooled."""
    if not len(control.scores) or not len(arm.scores):
        return MachineEffect(machine=name, blocks=0, why="it has not measured both arms"), None, None
    layout = lay_out(control, arm)
    if layout is None or not layout.blocked:
        why = "its runs are not in blocks, which the effect on one machine needs"
        return MachineEffect(machine=name, blocks=0, why=why), None, None
    blocks = len(layout.control)
    if scale != "log":
        why = "values of zero or below have no ratio to pool"
        return MachineEffect(machine=name, blocks=blocks, why=why), None, None
    try:
        found = machine_effect(name, (layout.arm - layout.control).tolist())
    except BadInput as error:
        why = error.message.removeprefix(f"{name}: ")
        return MachineEffect(machine=name, blocks=blocks, why=why), None, None
    effect = Effect(estimate=found.estimate, low=found.low, high=found.high, method=_BY_ITSELF)
    return MachineEffect(machine=name, blocks=blocks, effect=effect), layout, found


def _layout(layouts: Sequence[Layout], kept: Sequence[PooledMachine]) -> Layout:
    """Return the layout with machines as units; a doubt about one machine applies to the whole."""
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


def _as_contrast(found: PooledEffect) -> ContrastResult:
    special = load_special()
    stdtr, stdtrit = special.stdtr, special.stdtrit

    free = len(found.machines) - 1
    error = (found.high - found.low) / (2 * float(stdtrit(free, (1 + found.confidence) / 2)))
    t = found.estimate / error
    effect = Effect(estimate=found.estimate, low=found.low, high=found.high, confidence=found.confidence, method=METHOD)
    test = TestResult(name=METHOD, statistic="t", value=t, p=2 * float(stdtr(free, -abs(t))), floor=0.0)
    return ContrastResult(effect=effect, test=test, cross_checks=())
