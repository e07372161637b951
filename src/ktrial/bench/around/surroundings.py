# SPDX-License-Identifier: Apache-2.0
"""What happens around the runs of a suite."""

from __future__ import annotations

from ktrial.bench.around.around_run import Around
from ktrial.bench.around.idle import IdleWatch
from ktrial.bench.around.inhibit import Quieter
from ktrial.bench.around.resets import Resets
from ktrial.bench.around.start_gate import OTHERS_S, StartGates
from ktrial.bench.run.ports import RunWorld
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Suite
from ktrial.machine.watch_run import ConditionWatch
from ktrial.tuning.state.snapshot import take_state


def surroundings(
    world: RunWorld, suite: Suite, order: Order, *, when_idle: bool = False, settle_s: float | None = None
) -> Around:
    """What happens around the suite's runs; asks for root where a reset needs it."""
    purpose = suite.between.needs_root
    root = world.root_session(purpose) if purpose is not None else None
    machine = world.looking_session
    folder = str(world.measuring_place.work)
    conditions = ConditionWatch(machine, world.sampling, world.clock, folder, world.pack_samples, order.sample_period_s)
    around = Around(
        machine,
        world.clock,
        Resets(suite.between, world.executor, root),
        Quieter(world.executor, world.clock, lock_screen=when_idle, desktop=world.desktop),
        IdleWatch(world.executor, world.clock) if when_idle else None,
        lambda: take_state(machine, world.catalog).canonical(),
        StartGates(conditions, world.clock, order.gates, settle_s, OTHERS_S),
    )
    around.recorder = lambda: world.run_recorder
    return around
