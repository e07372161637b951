# SPDX-License-Identifier: Apache-2.0
"""The guards of a fleet: after each wave, they test whether an arm is worse than allowed on the machines so far.

Chance drew the order within each block of a machine. Under "no difference", the sign of a block's difference is
therefore a fair coin. In pairs, a coin decided which machine of a pair has the arm. All guards, arms and
waves share one error rate, so that a test after each wave does not increase the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ktrial.fleet.log import FleetStanding, GuardReading
from ktrial.judge.collect_log import collect, pairs_of, visit_scores
from ktrial.judge.model.log import Event, Protocol, protocol_in
from ktrial.judge.sequential import Array, as_array, hodges_lehmann

#: Up to this many units, all sign patterns are tried; above, this many random ones.
_EXACT_UNITS, _FLIPS = 13, 10_000
_SEED = 33
#: Sums that differ by less than this share of their size are equal.
_SAME = 1e-9

Logs = Mapping[int, Sequence[Event]]


def guard_readings(standing: FleetStanding, logs: Logs) -> tuple[GuardReading, ...]:
    """Return each guard's result on the machines that have finished; `logs` maps machine places to logs."""
    if not logs:
        return ()
    protocol, trial = protocol_in(next(iter(logs.values()))), standing.began.trial
    found = list(_guards(protocol, [name for name in trial.arms if name != trial.control]))
    readings = []
    for outcome, arm in found:
        values = guard_units(standing, logs, outcome, arm)
        typical = [hodges_lehmann(one) for one in values if len(one)]
        readings.append(
            GuardReading(
                outcome=outcome,
                arm=arm,
                estimate=float(np.mean(typical)) if typical else 0.0,
                margin=math.log1p(protocol.outcomes[outcome].margin),
                p=worse_p(np.concatenate(values) if values else as_array([])),
                error=trial.fleet.guard_error / (len(standing.waves) * len(found)),
            )
        )
    return tuple(readings)


def guard_units(standing: FleetStanding, logs: Logs, outcome: str, arm: str) -> list[Array]:
    """Return the differences of each machine's blocks, of each pair, or of each switch, depending on the design.

    If the arm changes nothing, the sign of each difference is a fair coin.
    """
    design = standing.began.trial.fleet.design
    if design == "within":
        return [block_effects(log, outcome, arm, standing.began.trial.control) for log in logs.values()]
    levels = {place: level for place, log in logs.items() if (level := level_of(log, outcome)) is not None}
    if design == "pairs":
        return [as_array([difference]) for _, _, difference in pair_differences(standing, levels, arm)]
    return [as_array([change]) for change in switch_changes(standing, levels)]


def _guards(protocol: Protocol, arms: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each guard with each arm. Skip counters, which have no ratio; each trial's own verdict judges them."""
    for outcome in protocol.of_role("guard"):
        if protocol.outcomes[outcome].scale == "log":
            yield from ((outcome, arm) for arm in arms)


def block_effects(log: Sequence[Event], outcome: str, arm: str, against: str) -> Array:
    """Return the differences of one machine's blocks that have a value for both arms; below zero is worse."""
    differences: Array = pairs_of(visit_scores(collect(log), outcome), arm, against).differences
    return differences[np.isfinite(differences)]


def level_of(log: Sequence[Event], outcome: str) -> float | None:
    """Return the mean score of a machine that measures one arm; None if a score is missing."""
    scores = [one for visits in visit_scores(collect(log), outcome).values() for one in visits.values()]
    return float(np.mean(scores)) if scores and np.isfinite(scores).all() else None


def pair_differences(
    standing: FleetStanding, levels: Mapping[int, float], arm: str
) -> Iterator[tuple[str, str, float]]:
    """Yield each complete pair: the machine with the arm, its partner, and how much better the arm's machine is."""
    pairs: dict[int, dict[bool, int]] = {}
    for place in levels:
        machine = standing.machine(place)
        if machine.pair is not None:
            pairs.setdefault(machine.pair, {})[machine.arm == arm] = place
    for _, ends in sorted(pairs.items()):
        if len(ends) == 2:
            difference = levels[ends[True]] - levels[ends[False]]
            yield standing.machine(ends[True]).host, standing.machine(ends[False]).host, difference


def switch_changes(standing: FleetStanding, levels: Mapping[int, float]) -> Iterator[float]:
    """Yield how much each machine improved when it got the arm, minus the change of the others at the same time."""
    of_host: dict[str, dict[int, float]] = {}
    switch: dict[str, int] = {}
    for place, level in levels.items():
        machine = standing.machine(place)
        of_host.setdefault(machine.host, {})[machine.wave] = level
        switch[machine.host] = machine.switch or 0
    for host, periods in of_host.items():
        begun = switch[host] + 1
        if begun not in periods or begun - 1 not in periods:
            continue
        others = [
            other[begun] - other[begun - 1]
            for name, other in of_host.items()
            if switch[name] != switch[host] and begun in other and begun - 1 in other
        ]
        yield periods[begun] - periods[begun - 1] - (float(np.median(others)) if others else 0.0)


def worse_p(differences: Array) -> float:
    """Return the probability of a sum this low or lower if the sign of each difference is a fair coin."""
    count = len(differences)
    if not count:
        return 1.0
    total = float(differences.sum())
    sizes = np.abs(differences)
    room = _SAME * float(sizes.sum())
    if count <= _EXACT_UNITS:
        patterns = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float(np.mean((2 * patterns - 1) @ sizes <= total + room))
    generator = np.random.Generator(np.random.PCG64(_SEED))
    signs = 2 * generator.integers(0, 2, size=(_FLIPS, count)) - 1
    # The observed pattern is one of the possible patterns.
    return float((1 + np.count_nonzero(signs @ sizes <= total + room)) / (_FLIPS + 1))
