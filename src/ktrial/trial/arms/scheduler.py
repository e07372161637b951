# SPDX-License-Identifier: Apache-2.0
"""A sched_ext scheduler as an arm: a program that runs as long as the arm is in force."""

from __future__ import annotations

import re

from ktrial.bench.benchmark import Invocation, RawOutput, why_failed
from ktrial.bench.run.ports import Executor, RunningLoad
from ktrial.bench.run.undoable_command import EJECTED, ArmScheduler
from ktrial.kit.errors import Refused
from ktrial.machine.ports import Clock, Machine
from ktrial.machine.watch_kernel_log import look
from ktrial.trial.arms.arms import ArmDrift, ArmLost

STATE = "/sys/kernel/sched_ext/state"
OPS = "/sys/kernel/sched_ext/root/ops"
#: The kernel's count of schedulers that were enabled since boot.
SEQUENCE = "/sys/kernel/sched_ext/enable_seq"
#: Seconds until a scheduler must be in force or gone, seconds between two looks, and seconds that it may run.
START_S, _PAUSE_S, _LIMIT_S = 60.0, 0.05, 7 * 86400.0
#: States of sched_ext in which no scheduler is in force, starting or ending.
_IDLE = frozenset((None, "disabled"))
#: The kernel's log lines about the ejection of a scheduler, with the reason.
_LOGGED = re.compile(r"sched_ext: (?!.* enabled$).*")
#: Maximum number of these lines that a message quotes.
_QUOTED = 2
_END_IT = (
    "stop the scheduler with `scxctl stop` or `systemctl stop scx`; "
    "after the trial, `scxctl restore` or `systemctl start scx` starts it again"
)


class SchedulerSeat:
    """Starts and stops schedulers, and checks that the right scheduler stays in force."""

    def __init__(self, machine: Machine, executor: Executor, clock: Clock) -> None:
        self._machine = machine
        self._executor = executor
        self._clock = clock
        self._running: RunningLoad | None = None
        self._wanted: ArmScheduler | None = None
        self._before: str | None = None
        self._sequence: str | None = None
        self._newest: int | None = None
        self._worked: set[str] = set()
        self._lost: str | None = None

    def look(self) -> None:
        """Store what sched_ext and the kernel's log show before a scheduler starts."""
        self._before = self._texts()[SEQUENCE]
        self._newest = look(self._machine).newest

    def start(self, arm: str, scheduler: ArmScheduler) -> None:
        """Start the scheduler after `look`, unless a command of its arm has started it.

        Raise ArmLost if the scheduler never starts. If the kernel ejects the scheduler at once, or if it started in an
        earlier visit and not in this one, raise nothing; `failed` then returns the reason.
        """
        if scheduler.argv:
            invocation = Invocation(
                argv=scheduler.argv,
                limit_s=_LIMIT_S,
                environment=scheduler.environment,
                directory=scheduler.directory,
            )
            self._running = self._executor.start(invocation)
        self._wanted = scheduler
        end_ns = self._clock.monotonic_ns() + int(START_S * 1e9)
        while not self._has_started():
            alive = self._running is None or self._running.alive()
            if not alive or self._clock.monotonic_ns() > end_ns:
                shown, ending = self._state_text(), why_failed(self._stopped() or RawOutput(exit_status=0))
                why = (
                    f"sched_ext shows {shown} after {START_S:g} s" if alive else f"it {ending or 'ended with status 0'}"
                )
                if scheduler.ops in self._worked:
                    self._wanted, self._lost = scheduler, f"{_name(scheduler)} did not start again: {why}"
                    return
                raise ArmLost(
                    f"cannot put arm {arm} in force with {_name(scheduler)}: {why}",
                    hint=f"set `ops` of the arm's `sched_ext` to what `cat {OPS}` shows while the scheduler runs"
                    if alive and shown.startswith("enabled")
                    else "start the scheduler by hand to see what it prints",
                )
            self._clock.sleep(_PAUSE_S)
        self._worked.add(scheduler.ops)
        self._sequence = self._texts()[SEQUENCE]

    def failed(self) -> str | None:
        """Return why the scheduler was not in force all the time; None if it was, or the arm has no scheduler."""
        if self._wanted is None:
            return None
        if self._lost is not None:
            why = self._lost
        elif self._running is not None and not self._running.alive():
            why = f"{self._wanted.argv[0]} has ended; sched_ext shows {self._state_text()}"
        elif not self._is_in_force():
            why = f"sched_ext shows {self._state_text()} instead of {self._wanted.ops}"
        elif self._texts()[SEQUENCE] != self._sequence:
            why = "another scheduler was in force meanwhile"
        else:
            return None
        return f"{EJECTED}: {why}{self._logged()}"

    def drifted(self) -> tuple[ArmDrift, ...]:
        """Return a drift if a scheduler is in force although the current arm has none."""
        if self._wanted is not None:
            return ()
        texts = self._texts()
        if texts[STATE] in _IDLE:
            return ()
        now = f"{texts[STATE]}: {texts[OPS]}"
        return (ArmDrift(address="sched_ext", path=STATE, wanted="disabled", now=now),)

    def stop(self) -> ArmScheduler | None:
        """End the scheduler's program, and return the scheduler that was to be in force, if any."""
        wanted = self._wanted
        self._stopped()
        return wanted

    def wait_until_gone(self, scheduler: ArmScheduler) -> None:
        """Wait for the end of a stopped scheduler. Raise ArmLost if sched_ext still shows a scheduler."""
        end_ns = self._clock.monotonic_ns() + int(START_S * 1e9)
        while self._texts()[STATE] not in _IDLE:
            if self._clock.monotonic_ns() > end_ns:
                raise ArmLost(
                    f"cannot stop {_name(scheduler)}: it has ended, but sched_ext still shows {self._state_text()}",
                    hint=f"start the trial again once `cat {STATE}` shows disabled",
                )
            self._clock.sleep(_PAUSE_S)

    def refuse_another(self, *, needs_root: bool) -> None:
        """Raise Refused if the kernel lacks sched_ext, if another scheduler uses it, or if ktrial lacks the rights."""
        state = self._texts()[STATE]
        if state is None:
            raise Refused(
                "this kernel has no sched_ext",
                hint="boot kernel 6.12 or newer, built with CONFIG_SCHED_CLASS_EXT=y",
            )
        if state not in _IDLE:
            raise Refused(f"a sched_ext scheduler is in force already: {self._state_text()}", hint=_END_IT)
        if needs_root and not self._executor.runs_as_root:
            raise Refused(
                "cannot start a sched_ext scheduler: it needs root, and ktrial runs your programs as you",
                hint="run ktrial in a root shell, or let scx_loader start the scheduler (`mode` of the arm)",
            )

    def _has_started(self) -> bool:
        """Return whether the kernel has counted a new scheduler. The count follows after the kernel shows it."""
        now = self._texts()[SEQUENCE]
        if self._before is not None and now == self._before:
            return False
        # A scheduler that was counted and is gone again was ejected at once.
        return self._is_in_force() or (self._before is not None and self._texts()[STATE] == "disabled")

    def _logged(self) -> str:
        """Return the kernel's log lines about the end of the scheduler, as the end of a sentence."""
        log = look(self._machine, 0 if self._newest is None else self._newest + 1)
        lines = [found[0] for record in log.records if (found := _LOGGED.search(record.text)) is not None]
        return f"; the kernel says: {'; '.join(lines[:_QUOTED])}" if lines else ""

    def _stopped(self) -> RawOutput | None:
        running, self._running, self._wanted, self._lost = self._running, None, None, None
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


def _name(scheduler: ArmScheduler) -> str:
    return scheduler.argv[0] if scheduler.argv else scheduler.ops
