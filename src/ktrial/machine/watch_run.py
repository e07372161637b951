# SPDX-License-Identifier: Apache-2.0
"""Observe the conditions of runs: readings before and after, samples and the kernel's log during each."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from ktrial.kit.errors import AgentError, BadInput
from ktrial.machine.gate_readings import FACTS, Thermometers, others_share, readings_at, readings_during
from ktrial.machine.gates import ABSENT, Reading, Readings
from ktrial.machine.kernel_log import KernelLogDelta
from ktrial.machine.ports import Machine, Sampling, SleepClock
from ktrial.machine.run_conditions import Conditions, Telemetry, shown_at
from ktrial.machine.sensors import Samples, summarise
from ktrial.machine.transactions import verify
from ktrial.machine.watch_kernel_log import KernelLogWatch

#: Reading the clocks takes far less, and no machine suspends and resumes within this time.
SHORTEST_S = 0.1


def suspended_s(before_s: float, after_s: float) -> float:
    """Return how long the machine slept between two readings of `slept_s`; less than SHORTEST_S counts as 0."""
    slept = after_s - before_s
    if not math.isfinite(slept) or slept <= -SHORTEST_S:
        raise BadInput(
            f"suspend time fell from {before_s:.1f} s to {after_s:.1f} s: the machine may have been restarted",
            hint="run the command again",
        )
    return slept if slept >= SHORTEST_S else 0.0


#: The name of the raw part that contains a run's samples.
TELEMETRY = "telemetry.parquet"


class ConditionWatch:
    """Reads the conditions of a machine around runs in `folder`; `pack` converts samples to a file.

    If `period_s` is None, ConditionWatch takes no samples during runs.
    """

    def __init__(
        self,
        machine: Machine,
        sampling: Sampling,
        clock: SleepClock,
        folder: str,
        pack: Callable[[Samples], bytes],
        period_s: float | None = 1.0,
    ) -> None:
        self.machine = machine
        self.sampling = sampling
        self.clock = clock
        self.pack = pack
        self.period_s = period_s
        self._in_force: frozenset[str] | None = None
        self._others: Reading = ABSENT
        self._folder = folder
        self._thermometers: Thermometers | None = None

    def look(self) -> Readings:
        return self.readings(self.once())

    def rest(self, wait: Callable[[], None]) -> None:
        """Call `wait`, and measure how much CPU time other programs use meanwhile; later readings include it."""
        before = self.once()
        wait()
        self._others = others_share(before, self.once())

    def once(self) -> Samples | None:
        """Return one sample; None if the agent reports an error or is lost."""
        try:
            return self.sampling.once()
        except AgentError:
            return None

    def readings(self, samples: Samples | None) -> Readings:
        """Return readings from a sample and the facts; the first sample determines which sensors are compared."""
        if self._thermometers is None and samples is not None:
            self._thermometers = Thermometers.of(samples)
        facts = self.machine.facts(FACTS)
        return readings_at(samples, facts, self._folder, self._thermometers, self._others)

    def misread(self) -> tuple[str, ...]:
        """Return the paths of settings that were in force at the first call and no longer are."""
        try:
            verified = verify(self.machine)
        except AgentError as error:
            if error.kind == "lost":
                raise
            return ()
        now = frozenset(
            step.path for transaction in verified for step in transaction.steps if step.outcome == "in-force"
        )
        if self._in_force is None:
            self._in_force = now
        return tuple(sorted(self._in_force - now))

    def forget_settings(self) -> None:
        """Let the next call of `misread` record again which settings are in force."""
        self._in_force = None

    def beside(self) -> RunWatch:
        return RunWatch(self)


class RunWatch:
    """Observes one run from just before it to just after it."""

    def __init__(self, watch: ConditionWatch) -> None:
        self._watch = watch
        self._log = KernelLogWatch(watch.machine)
        self._first: Samples | None = None
        self._samples: Samples | None = None
        self._said = KernelLogDelta()
        self._slept_s = 0.0
        self._lost: str | None = None
        self._sampling = self._ended = False
        self.misread: tuple[str, ...] = ()

    def begin(self) -> None:
        self._watch.misread()
        self._log.begin()
        self._slept_s = self._watch.clock.slept_s()
        if self._watch.period_s is None:
            self._first = self._watch.once()
            return
        try:
            self._watch.sampling.start(self._watch.period_s)
        except AgentError as error:
            self._lost = error.message
        else:
            self._sampling = True

    def end(self) -> None:
        self._samples = self._stop() if self._watch.period_s is not None else self._watch.once()
        self._slept_s = suspended_s(self._slept_s, self._watch.clock.slept_s())
        self._said = self._log.end()
        self.misread = self._watch.misread()
        self._ended = True

    def close(self) -> None:
        if self._sampling:
            with suppress(AgentError):
                self._stop()

    @property
    def suspended_s(self) -> float:
        return self._slept_s if self._ended else 0.0

    @property
    def parts(self) -> dict[str, bytes]:
        """The samples as a file to store with the run; empty without samples."""
        sampled = self._ended and self._watch.period_s is not None
        return {TELEMETRY: self._watch.pack(self._samples)} if sampled and self._samples is not None else {}

    def conditions(self, before: Readings) -> Conditions:
        """Return all observed conditions; `before` are the readings that allowed the run to start."""
        if not self._ended:
            return Conditions(before=(), after=(), readings_before=before, lost=self._lost)
        samples, sampled = self._samples, self._watch.period_s is not None
        columns = summarise(samples) if samples is not None and sampled else {}
        first = samples if sampled else self._first
        return Conditions(
            before=shown_at(first, 0) if first is not None else (),
            after=shown_at(samples, -1) if samples is not None else (),
            readings_before=before,
            readings_during=readings_during(samples if sampled else None, columns, self._said, self.suspended_s),
            readings_after=self._watch.readings(samples),
            telemetry=Telemetry.of(samples, columns) if samples is not None and sampled else None,
            lost=self._lost,
            kernel_log=self._said,
        )

    def _stop(self) -> Samples | None:
        if not self._sampling:
            return None
        self._sampling = False
        try:
            return self._watch.sampling.stop()
        except AgentError as error:
            self._lost = error.message
            return None
