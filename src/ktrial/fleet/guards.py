# SPDX-License-Identifier: Apache-2.0
"""The guards of a fleet: after each wave, whether an arm is worse on the machines so far than a guard allows.

Under "no difference" the sign of each block's difference is a fair coin, on every machine, because the order within the
block was drawn. The error is shared by all guards, arms and waves, so that looking after each wave costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ktrial.fleet.log import GuardReading
from ktrial.judge.collect_log import collect, pairs_of, visit_scores
from ktrial.judge.model.log import Event, Protocol, protocol_in
from ktrial.judge.sequential import Array, hodges_lehmann

#: Up to this many blocks all sign patterns are tried; above, this many random ones.
_EXACT_BLOCKS, _FLIPS = 13, 10_000
_SEED = 33
#: Sums closer than this share of their size are equal.
_SAME = 1e-9


def block_effects(log: Sequence[Event], outcome: str, arm: str, against: str) -> Array:
    """Return the differences of one machine's blocks that have a value of both arms; below zero is worse."""
    differences: Array = pairs_of(visit_scores(collect(log), outcome), arm, against).differences
    return differences[np.isfinite(differences)]


def guard_readings(logs: Mapping[str, Sequence[Event]], error: float, waves: int) -> tuple[GuardReading, ...]:
    """Return each guard of the machines' trials so far; `error` is that of all of them over all waves."""
    if not logs:
        return ()
    protocol = protocol_in(next(iter(logs.values())))
    found = list(_guards(protocol))
    readings = []
    for outcome, arm in found:
        values = [block_effects(log, outcome, arm, protocol.control) for log in logs.values()]
        readings.append(
            GuardReading(
                outcome=outcome,
                arm=arm,
                estimate=_estimate(values),
                margin=math.log1p(protocol.outcomes[outcome].margin),
                p=worse_p(np.concatenate(values)),
                error=error / (waves * len(found)),
            )
        )
    return tuple(readings)


def _guards(protocol: Protocol) -> Iterator[tuple[str, str]]:
    """Yield the guards on the log scale, with each arm. Counters have no ratio; the trial's own verdict judges them."""
    for outcome in protocol.of_role("guard"):
        if protocol.outcomes[outcome].scale == "log":
            yield from ((outcome, arm) for arm, against in protocol.contrasts if against == protocol.control)


def _estimate(values: Sequence[Array]) -> float:
    """Return the mean over machines of their typical differences."""
    typical = [hodges_lehmann(one) for one in values if len(one)]
    return float(np.mean(typical)) if typical else 0.0


def worse_p(differences: Array) -> float:
    """Return how likely a sum as low as this is if the sign of each difference is a fair coin."""
    count = len(differences)
    if not count:
        return 1.0
    total = float(differences.sum())
    room = _SAME * float(np.abs(differences).sum())
    sizes = np.abs(differences)
    if count <= _EXACT_BLOCKS:
        patterns = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float(np.mean((2 * patterns - 1) @ sizes <= total + room))
    generator = np.random.Generator(np.random.PCG64(_SEED))
    signs = 2 * generator.integers(0, 2, size=(_FLIPS, count)) - 1
    # The observed pattern is one of those that are possible.
    return float((1 + np.count_nonzero(signs @ sizes <= total + room)) / (_FLIPS + 1))
