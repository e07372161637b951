# SPDX-License-Identifier: Apache-2.0
"""The coordinator of a fleet's trial. Wave after wave, it looks at each machine that is due, until all are finished.

A look is short: it fetches what the machine has finished and sends its next blocks. Nothing of the coordinator runs on
a machine during a measurement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ktrial.fleet.guards import guard_readings
from ktrial.fleet.log import (
    FINAL,
    FleetEnded,
    FleetEvent,
    FleetMachine,
    FleetStanding,
    MachineState,
    MachineStep,
    WaveBegan,
    WaveEnded,
)
from ktrial.judge.model.log import Event

#: Seconds until the next look at an unreachable machine.
AWAY_LOOK_S = 30.0
#: Number of failed looks in a row after which a machine is left out, if the failures may be temporary: the store was
#: unreachable, or something ended the program that looked.
MOST_FAILURES = 3
#: Longest sleep of the coordinator before it renews its lease.
LONGEST_NAP_S = 10.0


class MachineLook(NamedTuple):
    """A machine to look at; `place` is its index in the fleet. Its trial begins or, with a `trial`, continues."""

    place: int
    machine: FleetMachine
    trial: str | None = None


class Sight(NamedTuple):
    """The result of a look at a machine. `guard` is set if a limit was passed and the machine has restored itself.

    `may_pass` is set for a failure of the environment, which may be over at the next look. If `is_news` is false, the
    log gets no event.
    """

    host: str
    state: MachineState
    trial: str | None = None
    blocks: int = 0
    next_look_s: float | None = None
    message: str | None = None
    guard: bool = False
    may_pass: bool = False
    is_news: bool = True


class Looking(Protocol):
    """Looks at machines, and stops them."""

    def look(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        """Yield the result of each machine as soon as it arrives; in between, yield None from time to time."""

    def stop(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        """Stop the machines' trials, and yield the results as `look` does; each machine restores everything at once."""

    def leave_out(self, look: MachineLook) -> None:
        """Stop waiting for a machine that was away for too long."""


class FleetLease(Protocol):
    """The coordinator's lease of the trial."""

    def append(self, *events: FleetEvent) -> None: ...


class Time(Protocol):
    """The clock of the coordinator; `sleep` raises KeyboardInterrupt on Ctrl-C."""

    def unix_ms(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


class Coordinator:
    """Carries out a fleet's trial from its current state; `logs` returns the log of a machine's trial."""

    def __init__(
        self,
        standing: FleetStanding,
        lease: FleetLease,
        looking: Looking,
        clock: Time,
        logs: Callable[[str], Sequence[Event]],
        listen: Callable[[FleetEvent], None],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the coordinator; `listen` gets each event, and `tick` is called from time to time between events."""
        self._standing = standing
        self._lease = lease
        self._looking = looking
        self._clock = clock
        self._logs = logs
        self._listen = listen
        self._failures: Counter[int] = Counter()
        self._tick = tick

    def carry_out(self) -> None:
        """Run until all waves are over, or until a wave stops the trial."""
        standing = self._standing
        for wave in standing.waves:
            if standing.end is not None:
                return
            if wave not in standing.waves_over:
                if wave not in standing.waves_begun:
                    self._tell(WaveBegan(wave=wave))
                self._measure(standing.places_of(wave))
                self._tell(self._wave_ended(wave))
            over = standing.waves_over[wave]
            if over.decision == "stop":
                self._stop_running()
                self._tell(FleetEnded(reason=over.reason))
                return
        if standing.end is None:
            self._tell(FleetEnded(reason="all waves are over"))

    def collect(self, looks: Sequence[MachineLook]) -> None:
        """Look once at machines whose results are missing."""
        self._take(looks, self._looking.look(looks))

    def stop(self, reason: str) -> None:
        """Stop all machines that are measuring, and end the trial."""
        self._stop_running()
        self._tell(FleetEnded(reason=reason))

    def _tell(self, *events: FleetEvent) -> None:
        self._lease.append(*events)
        for event in events:
            self._standing.take(event)
            self._listen(event)

    def _measure(self, places: Sequence[int]) -> None:
        """Look at the machines of a wave when they are due, until all are finished or given up, or a guard trips."""
        while True:
            self._give_up(places)
            if all(map(self._standing.is_final, places)):
                return
            if self._tripped(places):
                self._stop_running()
                return
            due = self._due(places)
            if due:
                self._take(due, self._looking.look(due))
            else:
                self._clock.sleep(min(LONGEST_NAP_S, self._wait_s(places)))
                self._lease.append()
                self._tick()

    def _due(self, places: Sequence[int]) -> list[MachineLook]:
        """Return the looks that are due now. A machine that has not begun is due unless too many are measuring."""
        standing, now_ms = self._standing, self._clock.unix_ms()
        busy = sum(standing.state_of(place) == "running" for place in places)
        limit = standing.began.trial.fleet.at_once
        found = []
        for place in places:
            step, machine = standing.steps.get(place), standing.machine(place)
            if step is not None and (step.state in FINAL or (step.next_look_unix_ms or 0) > now_ms):
                continue
            if step is None or step.state == "in-use":
                if limit is not None and busy >= limit:
                    continue
                busy += 1
            found.append(MachineLook(place, machine, None if step is None else step.trial))
        return found

    def _wait_s(self, places: Sequence[int]) -> float:
        now_ms = self._clock.unix_ms()
        steps = [step for place in places if (step := self._standing.steps.get(place)) is not None]
        due_ms = [step.next_look_unix_ms or 0 for step in steps if step.state not in FINAL]
        # A look that is due but was not made waits until fewer machines measure.
        return max(0.05, (min((one for one in due_ms if one > now_ms), default=now_ms) - now_ms) / 1000)

    def _step(self, place: int, sight: Sight) -> MachineStep:
        now_ms = self._clock.unix_ms()
        state = self._state(place, sight)
        next_s = AWAY_LOOK_S if state == "unreachable" else sight.next_look_s
        return MachineStep(
            place=place,
            host=sight.host,
            state=state,
            at_unix_ms=now_ms,
            trial=sight.trial,
            blocks=sight.blocks,
            next_look_unix_ms=None if next_s is None else now_ms + int(1000 * next_s),
            message=sight.message,
            guard=sight.guard,
        )

    def _state(self, place: int, sight: Sight) -> MachineState:
        """Return the machine's state. A failure that may be temporary only counts after several looks."""
        if sight.state != "failed" or not sight.may_pass:
            self._failures[place] = 0
            return sight.state
        self._failures[place] += 1
        return "unreachable" if self._failures[place] < MOST_FAILURES else "failed"

    def _give_up(self, places: Iterable[int]) -> None:
        """Leave out machines that were away for longer than the trial's `patience`."""
        patience_ms = 1000 * self._standing.began.trial.fleet.patience_s
        now_ms = self._clock.unix_ms()
        for place in places:
            since_ms = self._standing.away_since_unix_ms.get(place)
            if since_ms is not None and now_ms - since_ms >= patience_ms and not self._standing.is_final(place):
                step = self._standing.steps[place]
                self._looking.leave_out(MachineLook(place, self._standing.machine(place), step.trial))
                self._tell(
                    MachineStep(
                        place=place,
                        host=step.host,
                        state="failed",
                        at_unix_ms=now_ms,
                        message=f"away for too long: {step.message or 'unreachable'}",
                    )
                )

    def _tripped(self, places: Iterable[int]) -> list[MachineStep]:
        steps = (self._standing.steps.get(place) for place in places)
        return [step for step in steps if step is not None and step.guard]

    def _stop_running(self) -> None:
        standing = self._standing
        running = [
            MachineLook(place, standing.machine(place), step.trial)
            for place, step in standing.steps.items()
            if step.state in {"running", "in-use", "unreachable"}
        ]
        if running:
            self._take(running, self._looking.stop(running))

    def _take(self, looks: Sequence[MachineLook], sights: Iterator[Sight | None]) -> None:
        """Log the results of looks as they arrive, and renew the lease in between."""
        places = {look.machine.host: look.place for look in looks}
        for sight in sights:
            if sight is None:
                self._tell()
            elif sight.is_news:
                self._tell(self._step(places[sight.host], sight))
            else:
                self._standing.take(self._step(places[sight.host], sight))
            self._tick()

    def _wave_ended(self, wave: int) -> WaveEnded:
        """Decide whether the trial continues after a wave."""
        standing = self._standing
        members = standing.places_of(wave)
        if tripped := self._tripped(members):
            reason = f"a guard of {tripped[0].host} tripped: {tripped[0].message or 'a limit was passed'}"
            return WaveEnded(wave=wave, decision="stop", reason=reason)
        if not any(standing.state_of(place) == "ended" for place in members):
            told = (standing.steps.get(place) for place in members)
            message = next((step.message for step in told if step is not None), None)
            reason = f"no machine of wave {wave} gave a result" + (f": {message}" if message else "")
            return WaveEnded(wave=wave, decision="stop", reason=reason)
        guards = guard_readings(standing, finished_logs(standing, self._logs))
        broken = [one for one in guards if one.is_broken]
        if broken:
            names = ", ".join(f"{one.outcome} of {one.arm}" for one in broken)
            reason = f"{names} {'is' if len(broken) == 1 else 'are'} worse than a guard allows"
            return WaveEnded(wave=wave, decision="stop", reason=reason, guards=guards)
        reason = "the guards hold" if guards else "no guard was declared"
        return WaveEnded(wave=wave, decision="go on", reason=reason, guards=guards)


def finished_logs(standing: FleetStanding, logs: Callable[[str], Sequence[Event]]) -> dict[int, Sequence[Event]]:
    """Return the logs of the machines whose trials are over, by place."""
    return {place: logs(trial) for place, trial in standing.finished.items()}
