# SPDX-License-Identifier: Apache-2.0
"""Several machines: what holds on average, and what to expect on one more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from ktrial.judge.sequential import as_array
from ktrial.judge.stats.blocked import one_look
from ktrial.kit.errors import BadInput

#: Fewer machines are shown side by side and not pooled.
FEWEST_MACHINES = 3


class PooledMachine(msgspec.Struct, frozen=True, kw_only=True):
    """The effect on one machine with the standard error that its one-look interval amounts to."""

    machine: str
    blocks: int
    estimate: float
    error: float
    low: float
    high: float


class PooledEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The mean effect over machines with its interval; `tau` is the sd between machines, `i_squared` their share.

    `predicted_low` and `predicted_high` bound the effect on one more machine. All but `i_squared` are logarithms.
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
    """One machine's part, from all its blocks. Raises BadInput below seven of them, or where they have no spread."""
    from scipy.special import stdtrit

    values = as_array(differences)
    found = one_look(values)
    if found is None or len(values) < 7:
        raise BadInput(
            f"{machine}: {len(values)} blocks give no interval to pool",
            hint="a trial that is part of a pool runs on to seven blocks",
        )
    estimate, low, high = found
    if not high > low:
        raise BadInput(f"{machine}: all blocks show the same difference, so that its weight is not known")
    error = (high - low) / (2 * float(stdtrit(len(values) - 1, 0.975)))
    return PooledMachine(machine=machine, blocks=len(values), estimate=estimate, error=error, low=low, high=high)


def pool(machines: Sequence[PooledMachine], confidence: float = 0.95) -> PooledEffect:
    """Random effects: DerSimonian-Laird between machines, Hartung-Knapp-Sidik-Jonkman never below it, prediction."""
    from scipy.special import stdtrit

    count = len(machines)
    if count < FEWEST_MACHINES:
        raise BadInput(f"{count} machines are shown side by side, not pooled", hint="three machines can be pooled")
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
    """DerSimonian and Laird's variance between machines, and the share of the scatter that it explains."""
    weights = 1 / variances
    mean = (weights * effects).sum() / weights.sum()
    scatter = float((weights * (effects - mean) ** 2).sum())
    free = len(effects) - 1
    scale = float(weights.sum() - (weights**2).sum() / weights.sum())
    tau_squared = max(0.0, (scatter - free) / scale)
    return tau_squared, max(0.0, 1 - free / scatter) if scatter > 0 else 0.0
