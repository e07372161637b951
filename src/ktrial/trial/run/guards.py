# SPDX-License-Identifier: Apache-2.0
"""Guards a trial: recovers from a killed trial, watches limits, and finds out who changed a knob."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ktrial.kit.errors import AgentError, LimitPassed, Refused
from ktrial.machine import transactions
from ktrial.machine.ports import Machine, Sampling
from ktrial.machine.run_conditions import TEMPERATURES
from ktrial.machine.sensors import Samples
from ktrial.machine.transactions import UNFINISHED, status, unfinished
from ktrial.trial.arms.arms import ArmDrift, NamesWriter
from ktrial.trial.protocol.file import SafetyLimits, TrialFile
from ktrial.trial.record import StoredTrial
from ktrial.trial.run.ports import TrialWorld
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.origin.why import origins

#: Sources of samples that the limits need.
SOURCES = ("temperature", "pressure")

#: The counter of the time in which all tasks waited for memory since boot.
_STALLED = "pressure.memory.full"

#: Minimum time over which a share of the time is computed.
_SHORTEST_S = 0.5


class SafetyWatch:
    """Compares the machine with the limits at each `check`. Nothing else may use the same `sampling`."""

    def __init__(self, limits: SafetyLimits, sampling: Sampling) -> None:
        self._limits = limits
        self._sampling = sampling
        self._before: tuple[int, float] | None = None

    def begin(self) -> None:
        """Take the first sample. Raise Refused if a limit is on something that this machine does not report."""
        samples = self._sampling.once()
        if self._limits.temperature_c is not None and _temperature(samples) is None:
            raise Refused(f"cannot watch limits.temperature: {_why(samples, 'temperature')}", hint="remove the limit")
        if self._limits.memory_pressure_share is not None and _stalled(samples) is None:
            raise Refused(f"cannot watch limits.memory_pressure: {_why(samples, 'pressure')}", hint="remove the limit")
        self._judge(samples)

    def check(self) -> None:
        self._judge(self._sampling.once())

    def _judge(self, samples: Samples) -> None:
        said = self._limits.passed(_temperature(samples), self._pressure(samples))
        if said is not None:
            raise LimitPassed(
                said,
                hint="remove the cause, or start a trial with a higher limit; all settings have been restored",
            )

    def _pressure(self, samples: Samples) -> float | None:
        stalled = _stalled(samples)
        if stalled is None:
            return None
        now_ns = samples.times_ns[-1]
        if self._before is None:
            self._before = now_ns, stalled
            return None
        (before_ns, before_s) = self._before
        passed_s = (now_ns - before_ns) / 1e9
        if passed_s < _SHORTEST_S:
            return None
        self._before = now_ns, stalled
        return (stalled - before_s) / passed_s


def _temperature(samples: Samples) -> float | None:
    names = [name for name in samples.columns if name.startswith(TEMPERATURES)]
    return max((value for name in names if (value := samples.values(name)[-1]) is not None), default=None)


def _stalled(samples: Samples) -> float | None:
    return samples.values(_STALLED)[-1] if _STALLED in samples.columns else None


def _why(samples: Samples, source: str) -> str:
    return samples.absent.get(source) or "no sensor reports it"


def writer_of(machine: Machine, catalog: Catalog, drift: ArmDrift, own: int | None) -> str | None:
    """Return who set the current value: another transaction of ktrial, or a file or daemon that mentions the knob.

    None means that nobody was found.
    """
    return _transaction(machine, drift, own) or _source(machine, catalog, drift)


def _transaction(machine: Machine, drift: ArmDrift, own: int | None) -> str | None:
    try:
        told = status(machine).transactions
    except AgentError:
        return None
    for one in reversed(told):
        paths = {step.path for step in one.steps}
        if one.transaction != own and one.state == "applied" and drift.path in paths:
            return f"transaction {one.transaction} of ktrial set it ({one.title})"
    return None


def _source(machine: Machine, catalog: Catalog, drift: ArmDrift) -> str | None:
    knob = catalog.knobs.get(drift.address.partition("@")[0])
    if knob is None or drift.now is None:
        return None
    found = origins(machine, catalog, [knob])
    words = [one.set_by for one in found if one.path == drift.path and one.set_by is not None]
    return f"{words[0].place} names this value" if words else f"`ktrial why {drift.address}` may find out who did it"


def recover(world: TrialWorld, session: Machine) -> None:
    """If `session` has root, undo what a killed ktrial left in force, so that the trial finds the original values."""
    if not session.is_root:
        return
    if not any(one.state == UNFINISHED for one in status(session).transactions):
        return
    for one in transactions.recover(session).transactions:
        if one.state == UNFINISHED:
            world.say(unfinished(one))
        else:
            world.say(f"transaction {one.transaction} was unfinished; its changes have been reverted")


@contextmanager
def limits_watched(world: TrialWorld, file: TrialFile) -> Iterator[None]:
    """Check the protocol's limits about once a second during all waits."""
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

    def name(drift: ArmDrift, own: int | None) -> str | None:
        return writer_of(root, world.catalog, drift, own) if root is not None else None

    return name


def refuse_changed(stored: StoredTrial, found: Mapping[str, str]) -> None:
    """Raise Refused if a value that the arms change differs from the value at the start of the trial."""
    for address, before in stored.found.items():
        now = found.get(address)
        if now is not None and now != before:
            raise Refused(
                f"cannot continue {stored.trial}: {address} was {before} when the trial began and is {now} now",
                hint=f"set {address} to {before} again, or start a new trial",
            )
