# SPDX-License-Identifier: Apache-2.0
"""Estimates how long a fleet's trial takes: at first from the time of a run, later from the machines' progress."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from ktrial.fleet.log import FINAL, FleetBegan, FleetStanding, MachineStep, MachineTime

#: Warm-up runs before the first block.
_WARM_UPS = 2


def machine_time(began: FleetBegan, run_s: float | None, settle_s: float) -> MachineTime | None:
    """Return how long one machine takes; None if the time of a run is unknown."""
    if run_s is None:
        return None
    trial = began.trial
    arms = 2 if began.machines[0].arm is not None else len(trial.full_arms)
    visit_s = settle_s + (trial.design.runs_per_visit or 1) * run_s
    return MachineTime(warm_up_s=_WARM_UPS * (settle_s + run_s), blocks_s=trial.fleet.blocks * arms * visit_s)


def wave_seconds(began: FleetBegan, forks: int) -> Mapping[int, float]:
    """Return how long each wave takes; empty if unknown. At most `forks` machines warm up at the same time."""
    takes = began.takes
    if takes is None:
        return {}
    found = {}
    for wave in sorted({one.wave for one in began.machines}):
        count = sum(one.wave == wave for one in began.machines)
        found[wave] = _rounds(count, forks) * takes.warm_up_s + _turns(began, count) * takes.blocks_s
    return found


def seconds_left(standing: FleetStanding, now_unix_ms: int) -> float | None:
    """Return how long the trial still takes; None if that is unknown or the trial is over.

    Once machines have finished, ktrial expects every other machine to take the median of the known times.
    """
    machine_s = _machine_seconds(standing)
    if machine_s is None or standing.end is not None:
        return None
    left_s = 0.0
    for wave in standing.waves:
        if wave in standing.waves_over:
            continue
        places = standing.places_of(wave)
        steps = [standing.steps.get(place) for place in places]
        begun = [step for step in steps if step is not None and step.state not in FINAL]
        now_s = max((_step_seconds(standing, step, machine_s, now_unix_ms) for step in begun), default=0.0)
        waiting = steps.count(None)
        if standing.began.trial.fleet.at_once is None:
            left_s += max(now_s, machine_s if waiting else 0.0)
        else:
            left_s += now_s + _turns(standing.began, waiting) * machine_s
    return left_s


def _machine_seconds(standing: FleetStanding) -> float | None:
    """Return how long a machine takes for its blocks; None if unknown."""
    took_s = [
        (step.at_unix_ms - standing.first_look_unix_ms[place]) / 1000
        for place, step in standing.steps.items()
        if step.state == "ended" and step.at_unix_ms > standing.first_look_unix_ms[place]
    ]
    if took_s:
        return statistics.median(took_s)
    began = standing.began
    if began.takes is not None:
        return began.takes.blocks_s
    # A plan contains all blocks of a machine, or only the next block.
    plans_s = [
        (step.next_look_unix_ms - step.at_unix_ms) / 1000
        for step in standing.steps.values()
        if step.state == "running" and step.next_look_unix_ms is not None
    ]
    return (began.trial.fleet.blocks if began.when_idle else 1) * max(plans_s) if plans_s else None


def _step_seconds(standing: FleetStanding, step: MachineStep, machine_s: float, now_unix_ms: int) -> float:
    """Return the time that a machine which has begun still needs."""
    began, due_ms = standing.began, step.next_look_unix_ms
    share = 1 - min(1.0, step.blocks / began.trial.fleet.blocks)
    if step.state != "running" or due_ms is None or began.trial.live:
        return share * machine_s
    later_s = max(0.0, share - 1 / began.trial.fleet.blocks) * machine_s if began.when_idle else 0.0
    return max(0.0, (due_ms - now_unix_ms) / 1000) + later_s


def _turns(began: FleetBegan, count: int) -> int:
    """Return how many groups of machines measure one after the other if `count` machines wait."""
    return _rounds(count, began.trial.fleet.at_once or count)


def _rounds(count: int, at_once: int) -> int:
    return math.ceil(count / at_once) if count else 0
