# SPDX-License-Identifier: Apache-2.0
"""What guards a trial: what an earlier one left, limits on the machine, and who changed a knob."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ktrial.kit.errors import Refused
from ktrial.machine.ports import Machine
from ktrial.trial.arms.arms import Drift, NamesWriter
from ktrial.trial.arms.writers import writer_of
from ktrial.trial.protocol.file import TrialFile
from ktrial.trial.record import StoredTrial
from ktrial.trial.run.ports import TrialWorld
from ktrial.trial.run.safety import SOURCES, SafetyWatch
from ktrial.tuning.plans.unsettled import UNFINISHED, unfinished


def recover(world: TrialWorld, session: Machine) -> None:
    """Finish what an earlier ktrial was killed in, where this session may: what is found then is what was there."""
    if not session.is_root:
        return
    told = session.request("status")["transactions"]
    if not any(one["state"] == UNFINISHED for one in told):
        return
    for one in session.request("recover")["transactions"]:
        if one["state"] == UNFINISHED:
            world.say(unfinished(one))
        else:
            world.say(f"transaction {one['transaction']} was unfinished; what it had changed was put back")


@contextmanager
def limits_watched(world: TrialWorld, file: TrialFile) -> Iterator[None]:
    """Limits of the protocol are looked at once a second, whatever is waited for."""
    if file.safety.none:
        yield
        return
    watch = SafetyWatch(file.safety, world.sampling_of(SOURCES))
    watch.begin()
    world.interrupts.watch = watch.check
    try:
        yield
    finally:
        world.interrupts.watch = None


def writers(world: TrialWorld, root: Machine | None) -> NamesWriter:
    """Who changed a knob, where that can be known."""

    def name(drift: Drift, own: int | None) -> str | None:
        return writer_of(root, world.catalog, drift, own) if root is not None else None

    return name


def refuse_changed(stored: StoredTrial, found: Mapping[str, str]) -> None:
    """What the arms change must be found as it was when the trial began: that is what the control is."""
    for address, before in stored.found.items():
        now = found.get(address)
        if now is not None and now != before:
            raise Refused(
                f"{address} was {before} when {stored.trial} began and is {now} now: the control would be another one",
                hint="put it back as it was, or begin a new trial",
            )
