# SPDX-License-Identifier: Apache-2.0
"""A fleet's trial as an append-only log of events, `ktrial.fleet-log/1`: who takes part, then what happened, in order.

The state of the trial is a pure function of its events. Another coordinator can therefore continue the trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ktrial.fleet.file import FleetTrial

MachineState = Literal["running", "in-use", "ended", "unreachable", "failed", "stopped"]
#: The states in which a machine has nothing left to do.
FINAL: tuple[MachineState, ...] = ("ended", "failed", "stopped")


class FleetMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that takes part, by its name in the inventory.

    `arm` is set if the machine measures only one arm. `pair` is the number of the machine's pair. With stepped waves,
    each machine is listed once per period: `wave` is the period, and `switch` the wave in which the machine gets the
    arm.
    """

    host: str
    wave: int
    seed: int
    facts: Mapping[str, str] = {}
    pair: int | None = None
    arm: str | None = None
    switch: int | None = None


class MachineTime(msgspec.Struct, frozen=True, kw_only=True):
    """The approximate time that a machine takes for its warm-up, and for all its blocks."""

    warm_up_s: float
    blocks_s: float


class FleetBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="fleet"):
    """Everything that was fixed before the first run. `left_out` lists the hosts that do not take part, and why.

    With `when_idle`, machines measure only while nobody and nothing else uses them. `takes` is missing if unknown.
    """

    schema: Literal["ktrial.fleet-log/1"] = "ktrial.fleet-log/1"
    fleet: str
    trial: FleetTrial
    sha256: str
    seed: int
    machines: tuple[FleetMachine, ...]
    left_out: Mapping[str, str] = {}
    when_idle: bool = False
    takes: MachineTime | None = None


class WaveBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="wave"):
    """The machines of a wave may begin their first blocks."""

    wave: int


class MachineStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="machine"):
    """The state of a machine at a look, and when to look again.

    `place` is the index of the machine in `FleetBegan.machines`.
    """

    place: int
    host: str
    state: MachineState
    at_unix_ms: int
    trial: str | None = None
    blocks: int = 0
    next_look_unix_ms: int | None = None
    message: str | None = None
    guard: bool = False


class GuardReading(msgspec.Struct, frozen=True, kw_only=True):
    """A guard after a wave: the effect on the machines so far, and its one-sided p.

    `estimate` and `margin` are logarithms; an estimate below zero is worse. `error` is the guard's share of the error
    rate.
    """

    outcome: str
    arm: str
    estimate: float
    margin: float
    p: float
    error: float

    @property
    def is_broken(self) -> bool:
        return self.p <= self.error and self.estimate < -self.margin


class WaveEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="wave-ended"):
    """Whether the trial continues after a wave, and why."""

    wave: int
    decision: Literal["go on", "stop"]
    reason: str
    guards: tuple[GuardReading, ...] = ()


class TakenOver(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="coordinator"):
    """The coordinator `holder` took over the trial. Its `fence` is higher than all fences before."""

    holder: str
    fence: int
    at_unix_ms: int


class FleetEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="end"):
    """The end of the trial; no event follows."""

    reason: str


FleetEvent: TypeAlias = FleetBegan | WaveBegan | MachineStep | WaveEnded | TakenOver | FleetEnded
_DECODER: msgspec.json.Decoder[FleetEvent] = msgspec.json.Decoder(FleetEvent)
_ENCODER = msgspec.json.Encoder(order="deterministic")


def encode(event: FleetEvent) -> str:
    return _ENCODER.encode(event).decode()


def decode(line: str | bytes) -> FleetEvent:
    return _DECODER.decode(line)


class FleetStanding:
    """The current state of a fleet's trial, from its log."""

    def __init__(self, events: Iterable[FleetEvent]) -> None:
        first, *rest = events
        assert isinstance(first, FleetBegan), "a log begins with its fleet"
        self.began = first
        #: The last step of each machine, by its place in the list.
        self.steps: dict[int, MachineStep] = {}
        self.waves_begun: set[int] = set()
        self.waves_over: dict[int, WaveEnded] = {}
        self.end: FleetEnded | None = None
        #: When the coordinator first looked at each machine.
        self.first_look_unix_ms: dict[int, int] = {}
        #: When each unreachable machine became unreachable.
        self.away_since_unix_ms: dict[int, int] = {}
        for event in rest:
            self.take(event)

    def take(self, event: FleetEvent) -> None:
        """Update the state with the next event of the log."""
        match event:
            case MachineStep():
                self._take_step(event)
            case WaveBegan(wave=wave):
                self.waves_begun.add(wave)
            case WaveEnded(wave=wave):
                self.waves_over[wave] = event
            case FleetEnded():
                self.end = event
            case _:
                pass

    def _take_step(self, event: MachineStep) -> None:
        self.first_look_unix_ms.setdefault(event.place, event.at_unix_ms)
        if event.state == "unreachable":
            self.away_since_unix_ms.setdefault(event.place, event.at_unix_ms)
        else:
            self.away_since_unix_ms.pop(event.place, None)
        before = self.steps.get(event.place)
        if before is not None and event.trial is None:
            event = msgspec.structs.replace(event, trial=before.trial, blocks=max(event.blocks, before.blocks))
        self.steps[event.place] = event

    @property
    def waves(self) -> Sequence[int]:
        return sorted({one.wave for one in self.began.machines})

    def places_of(self, wave: int) -> tuple[int, ...]:
        """Return the indices of a wave's machines in `FleetBegan.machines`."""
        return tuple(place for place, one in enumerate(self.began.machines) if one.wave == wave)

    def machine(self, place: int) -> FleetMachine:
        return self.began.machines[place]

    def state_of(self, place: int) -> MachineState | None:
        step = self.steps.get(place)
        return None if step is None else step.state

    def is_final(self, place: int) -> bool:
        return self.state_of(place) in FINAL

    @property
    def finished(self) -> Mapping[int, str]:
        """The trials of the machines that have finished their blocks, by place."""
        return {
            place: step.trial
            for place, step in sorted(self.steps.items())
            if step.state == "ended" and step.trial is not None
        }
