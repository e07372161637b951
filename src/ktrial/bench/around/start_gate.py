# SPDX-License-Identifier: Apache-2.0
"""Compare the machine before each run with its state before the first run.

ktrial waits until the two states are alike, or judges their difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.kit.units import show_seconds
from ktrial.machine.gates import DEFAULTS, GateFinding, GateLimits, Readings, judge_start
from ktrial.machine.ports import Clock
from ktrial.machine.settle import TEMPERATURE, Settled, settling
from ktrial.machine.watch_run import ConditionWatch

#: Seconds between two looks; each look disturbs the machine, which should come to rest.
LOOK_EACH_S = 5.0


class Settle:
    """Waits before a run until the machine is back in the state that it had before the first run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def wait(
        self, reference: Readings, read: Callable[[], Readings], limit_s: float, tell: Callable[[str], None]
    ) -> Settled:
        """Wait at most `limit_s` until the machine is back at the readings in `reference`; `tell` gets progress."""
        began_ns = self._clock.monotonic_ns()
        while True:
            found = settling(reference, read())
            waited_s = (self._clock.monotonic_ns() - began_ns) / 1e9
            left_s = limit_s - waited_s
            if found.settled or left_s <= 0:
                return Settled(waited_s=waited_s, left=found.waiting, untold=found.untold)
            tell(f"waiting for {'; '.join(found.waiting)} ({waited_s:.0f} s of at most {show_seconds(limit_s)})")
            self._clock.sleep(min(LOOK_EACH_S, left_s))


#: How long to wait without --settle for a machine that is too hot for its gate.
COOL_S = 60.0
#: Seconds to observe other programs without another reason to wait, and seconds for which the result stays valid.
OTHERS_S, OTHERS_HOLD_S = 0.5, 10.0
#: How long to observe other programs to see whether the machine is idle.
BUSY_S = 1.0


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The readings directly before a run, and what the gates find in them."""

    readings: Readings = {}
    findings: tuple[GateFinding, ...] = ()


class StartGates:
    """The gates at the start of each run; they remember how the first run of a session began.

    `settle_s` limits the wait before each later run. `others_s` is how long to observe other programs if there is
    no wait before a run.
    """

    def __init__(
        self,
        watch: ConditionWatch,
        clock: Clock,
        limits: Mapping[str, GateLimits] = DEFAULTS,
        settle_s: float | None = None,
        others_s: float = 0.0,
    ) -> None:
        self.watch = watch
        self._clock = clock
        self._others_s = others_s
        self._rested_ns: int | None = None
        self._limits = limits
        self._settle = Settle(clock)
        self._settle_s = settle_s
        self._reference: Readings | None = None

    @property
    def reference(self) -> Readings | None:
        """The readings before the first run that counts; None before that run."""
        return self._reference

    def take_up(self, earlier: Iterable[RunRecord]) -> None:
        """Continue a session: compare its next runs with the first `earlier` run that counts and has readings."""
        for record in earlier:
            if not record.is_warm_up and record.conditions is not None and record.conditions.readings_before:
                self._reference = record.conditions.readings_before
                return

    def rest(self, seconds: float) -> None:
        """Wait, and observe meanwhile how much CPU time other programs use."""
        self.watch.rest(lambda: self._clock.sleep(seconds))
        self._rested_ns = self._clock.monotonic_ns()

    def busy(self) -> str | None:
        """Return the share of CPU time that other programs use now; None if it is unknown or within its limit."""
        self.rest(BUSY_S)
        share, limit = self.watch.look().get("others_share"), self._limits.get("others", DEFAULTS["others"]).suspect
        if limit is None or not isinstance(share, int | float) or 100 * share <= limit:
            return None
        # In tenths: a wait should report a change, not each look.
        return f"about {10 * round(10 * share)} % of the CPU time, by other programs"

    def settle(self, tell: Callable[[str], None]) -> Settled | None:
        """Wait until the machine is as cool and idle as at the start of the session.

        Without `settle_s`, wait only if the heat would make the run void. Return how the wait ended; None if there was
        no wait.
        """
        if self._reference is None:
            return None
        if self._settle_s is not None:
            return self._settle.wait(self._reference, self.watch.look, self._settle_s, tell)
        if not isinstance(self._reference.get(TEMPERATURE), int | float):
            return None
        found = judge_start(self._reference, self.watch.look(), self._limits)
        if not any(one.level == "refuse" and one.gate == "start_temperature" for one in found):
            return None
        heat = {TEMPERATURE: self._reference.get(TEMPERATURE)}
        waited = self._settle.wait(heat, self.watch.look, COOL_S, tell)
        return msgspec.structs.replace(waited, untold=())

    def judge(self, *, counts: bool) -> Start:
        """Return the readings directly before a run. If the run `counts`, judge how they differ from the first run's.

        The first run is the first that counts; warm-ups do not count.
        """
        if self._others_s and not self._has_rested():
            self.rest(self._others_s)
        now = self.watch.look()
        if not counts:
            return Start(readings=now)
        if self._reference is None:
            self._reference = now
        return Start(readings=now, findings=judge_start(self._reference, now, self._limits))

    def _has_rested(self) -> bool:
        return self._rested_ns is not None and self._clock.monotonic_ns() - self._rested_ns < OTHERS_HOLD_S * 1e9
