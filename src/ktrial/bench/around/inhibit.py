# SPDX-License-Identifier: Apache-2.0
"""Inhibit sleep and screen lock during a measurement, and list the timers that may disturb it."""

from __future__ import annotations

from ktrial.bench.benchmark import Invocation, RawOutput, check_exit
from ktrial.bench.run.ports import Desktop, Executor, RunningLoad, run_or_stop
from ktrial.kit.errors import BadRun
from ktrial.machine.disturbance import Disturbance, Quiet, read_list_timers
from ktrial.machine.ports import Clock

#: How far ahead to look for timers if the length of the measurement is unknown.
UNKNOWN_S = 3600.0
_LIMIT_S = 10.0
_FOREVER_S = 30 * 86_400.0
_TRIES, _EACH_S = 20, 0.1
_WORDS = {"sleep": "sleep", "idle": "screen lock"}
_NOBODY = "no session bus"
_TIMERS = ("systemctl", "list-timers", "--all", "--output=json")


class Quieter:
    """Inhibits sleep and, unless `lock_screen`, the screen lock between `begin` and `end`."""

    def __init__(
        self, executor: Executor, clock: Clock, *, lock_screen: bool = False, desktop: Desktop | None = None
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._desktop = None if lock_screen else desktop
        self._what = ("sleep",) if lock_screen else ("sleep", "idle")
        self._held: RunningLoad | None = None

    def begin(self, expected_s: float | None) -> Quiet:
        """Inhibit what the system allows. Return what is inhibited, the timers that are due, and notes on failures."""
        programs = self._executor.programs(["systemd-inhibit", "systemctl"])
        why = self._hold() if programs["systemd-inhibit"] else "systemd-inhibit is not installed"
        deaf = self._desktop.keep_awake("measurement") if self._desktop is not None else _NOBODY
        held = tuple(one for one in self._what if why is None or (one == "idle" and deaf is None))
        named = " and ".join(_WORDS[one] for one in self._what if one not in held)
        notes = [f"could not inhibit {named}: {why}"] if named else []
        if deaf not in (None, _NOBODY):
            notes.append(f"the desktop may still lock the screen ({deaf})")
        disturbances: tuple[Disturbance, ...] = ()
        try:
            if not programs["systemctl"]:
                raise BadRun("systemctl is not installed")
            disturbances = self._due(UNKNOWN_S if expected_s is None else expected_s)
        except BadRun as error:
            notes.append(f"cannot list timers that might interfere: {error.message}")
        return Quiet(held_off=held, disturbances=disturbances, notes=tuple(notes))

    def end(self) -> None:
        """Allow sleep and the screen lock again."""
        if self._desktop is not None:
            self._desktop.release()
        held, self._held = self._held, None
        if held is not None:
            held.stop()

    def _hold(self) -> str | None:
        """Start the inhibitor and wait until it takes effect; return why it does not, or None."""
        mark = f"measurement {self._clock.unix_ms()}"
        options = (f"--what={':'.join(self._what)}", "--mode=block", "--who=ktrial", f"--why={mark}")
        self._held = self._executor.start(
            Invocation(argv=("systemd-inhibit", *options, "sleep", "infinity"), limit_s=_FOREVER_S)
        )
        for _ in range(_TRIES):
            if not self._held.alive():
                break
            listed = self._ask(("systemd-inhibit", "--list"))
            if mark in listed.stdout.decode("utf-8", "replace"):
                return None
            self._clock.sleep(_EACH_S)
        held, self._held = self._held, None
        raw = held.stop()
        said = raw.failed or raw.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return said or "systemd-inhibit took no effect"

    def _due(self, within_s: float) -> tuple[Disturbance, ...]:
        raw = self._ask(_TIMERS)
        if raw.exit_status != 0 and raw.stderr.strip():
            raise BadRun(raw.stderr.decode("utf-8", "replace").strip().partition("\n")[0])
        check_exit(raw)
        now_us = self._clock.unix_ms() * 1000
        found = [
            Disturbance(
                name=timer.unit,
                due_s=max(0.0, (timer.next_unix_us - now_us) / 1e6),
                stop=f"sudo systemctl stop {timer.unit}",
            )
            for timer in read_list_timers(raw.stdout, "systemctl list-timers")
            if timer.next_unix_us is not None
        ]
        return tuple(sorted((one for one in found if one.due_s <= within_s), key=lambda one: one.due_s))

    def _ask(self, argv: tuple[str, ...]) -> RawOutput:
        return run_or_stop(self._executor, Invocation(argv=argv, limit_s=_LIMIT_S))
