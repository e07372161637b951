# SPDX-License-Identifier: Apache-2.0
"""A sched_ext scheduler as an arm: a program that runs as long as the arm is in force."""

from __future__ import annotations

from ktrial.bench.benchmark import Invocation, RawOutput, why_failed
from ktrial.bench.run.ports import Executor, RunningLoad
from ktrial.bench.run.undoable_command import EJECTED, ArmScheduler
from ktrial.kit.errors import Refused
from ktrial.machine.ports import Clock, Machine
from ktrial.trial.arms.arms import ArmDrift, ArmLost

STATE = "/sys/kernel/sched_ext/state"
OPS = "/sys/kernel/sched_ext/root/ops"
#: How often a scheduler was enabled since boot.
SEQUENCE = "/sys/kernel/sched_ext/enable_seq"
#: Seconds until one must be in force or gone, between two looks, and that it may run.
START_S, _PAUSE_S, _LIMIT_S = 15.0, 0.05, 7 * 86400.0


class SchedulerSeat:
    """Starts and stops schedulers, and checks that the right one stays in force."""

    def __init__(self, machine: Machine, executor: Executor, clock: Clock) -> None:
        self._machine = machine
        self._executor = executor
        self._clock = clock
        self._running: RunningLoad | None = None
        self._wanted: ArmScheduler | None = None
        self._sequence: str | None = None

    def start(self, arm: str, scheduler: ArmScheduler) -> None:
        """Start the scheduler. Raise ArmLost if the kernel doesn't show it."""
        invocation = Invocation(
            argv=scheduler.argv,
            limit_s=_LIMIT_S,
            environment=scheduler.environment,
            directory=scheduler.directory,
        )
        before = self._texts()[SEQUENCE]
        self._running, self._wanted = self._executor.start(invocation), scheduler
        end_ns = self._clock.monotonic_ns() + int(START_S * 1e9)
        # The kernel shows a scheduler as enabled before it counts it.
        while not self._is_in_force() or (before is not None and self._texts()[SEQUENCE] == before):
            alive = self._running.alive()
            if not alive or self._clock.monotonic_ns() > end_ns:
                shown, ending = self._state_text(), why_failed(self._stopped() or RawOutput(exit_status=0))
                why = (
                    f"sched_ext shows {shown} after {START_S:g} s" if alive else f"it {ending or 'ended with status 0'}"
                )
                raise ArmLost(
                    f"cannot put arm {arm} in force: {scheduler.argv[0]}: {why}",
                    hint=f"ktrial stopped it; a working scheduler shows {scheduler.ops!r} in {OPS}",
                )
            self._clock.sleep(_PAUSE_S)
        self._sequence = self._texts()[SEQUENCE]

    def failed(self) -> str | None:
        """Return why the scheduler was not in force all the time; None if it was, or if there is none."""
        if self._wanted is None or self._running is None:
            return None
        if not self._running.alive():
            return f"{EJECTED}: {self._wanted.argv[0]} has ended; sched_ext shows {self._state_text()}"
        if not self._is_in_force():
            return f"{EJECTED}: sched_ext shows {self._state_text()} instead of {self._wanted.ops}"
        if self._texts()[SEQUENCE] != self._sequence:
            return f"{EJECTED}: another scheduler was in force meanwhile"
        return None

    def drifted(self) -> tuple[ArmDrift, ...]:
        """Return a foreign scheduler that is in force although the present arm has none."""
        if self._wanted is not None:
            return ()
        now = self._texts()[STATE]
        if now != "enabled":
            return ()
        return (ArmDrift(address="sched_ext", path=STATE, wanted="disabled", now=f"enabled: {self._texts()[OPS]}"),)

    def stop(self) -> None:
        """End the scheduler. Raise ArmLost if sched_ext still shows one."""
        if self._running is None:
            return
        wanted = self._wanted
        self._stopped()
        end_ns = self._clock.monotonic_ns() + int(START_S * 1e9)
        while self._texts()[STATE] == "enabled":
            if self._clock.monotonic_ns() > end_ns:
                name = wanted.argv[0] if wanted is not None else "the scheduler"
                raise ArmLost(
                    f"cannot stop {name}: its program has ended, but sched_ext still shows {self._state_text()}",
                    hint=f"read {STATE}",
                )
            self._clock.sleep(_PAUSE_S)

    def refuse_another(self) -> None:
        """Raise Refused if the kernel lacks sched_ext, if another scheduler uses it, or if ktrial lacks the rights."""
        state = self._texts()[STATE]
        if state is None:
            raise Refused(
                "this kernel has no sched_ext", hint=f"boot a kernel with CONFIG_SCHED_CLASS_EXT, which has {STATE}"
            )
        if state == "enabled":
            raise Refused(
                f"a sched_ext scheduler is in force already: {self._texts()[OPS]}", hint="stop its program or service"
            )
        if not self._executor.runs_as_root:
            raise Refused(
                "a sched_ext scheduler needs root, and ktrial runs your programs as you",
                hint="run ktrial in a root shell, or use scx_loader: commands with  scxctl start  and  scxctl stop",
            )

    def _stopped(self) -> RawOutput | None:
        running, self._running, self._wanted = self._running, None, None
        return None if running is None else running.stop()

    def _is_in_force(self) -> bool:
        texts = self._texts()
        wanted = self._wanted
        return wanted is not None and texts[STATE] == "enabled" and (texts[OPS] or "").startswith(wanted.ops)

    def _state_text(self) -> str:
        texts = self._texts()
        return f"{texts[STATE] or 'nothing'}{f', {texts[OPS]}' if texts[OPS] else ''}"

    def _texts(self) -> dict[str, str | None]:
        found = self._machine.read((STATE, OPS, SEQUENCE))
        return {path: reading.text if reading is not None else None for path, reading in found.items()}
