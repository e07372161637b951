# SPDX-License-Identifier: Apache-2.0
"""What happens around the runs of a suite."""

from __future__ import annotations

from ktrial.domain.suite import Suite
from ktrial.services.around import Around
from ktrial.services.conditions import ConditionWatch
from ktrial.services.idle import IdleWatch
from ktrial.services.machine_state import take_state
from ktrial.services.quiet import Quieter
from ktrial.services.resets import Resets
from ktrial.services.schedule import Order
from ktrial.services.start import OTHERS_S, StartGates
from ktrial.services.trial_world import RunWorld


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
