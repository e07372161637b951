# SPDX-License-Identifier: Apache-2.0
"""A fleet without machines: recorded outcomes, a clock that jumps, and a store in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ktrial.fleet.conduct import Coordinator, MachineLook, Sight
from ktrial.fleet.draw import draw
from ktrial.fleet.file import AGAIN, FleetTable, FleetTrial
from ktrial.fleet.guards import Logs
from ktrial.fleet.log import FleetBegan, FleetEvent, FleetStanding
from ktrial.fleet.page import Units
from ktrial.fleet.verdict import FleetResult, fleet_result
from ktrial.judge.model.log import Event, OutcomeRule, TrialArm
from ktrial.trial.protocol.file import ArmFile
from tests.support.trials import TIME, log_of, protocol

GUARD = "case.p99"
UNITS: Units = {TIME: "s", GUARD: "s"}
#: Returns the scores of the control and the arm for each outcome, which are the blocks of a machine.
Effect = Callable[[str], float]


def fleet_trial(**table: Any) -> FleetTrial:
    """Return a trial of one arm, `big`."""
    return FleetTrial(
        name="backlog",
        command=("true",),
        arms={"control": ArmFile(), "big": ArmFile(set={"net.core.somaxconn": 512})},
        fleet=FleetTable(**table),
    )


def began(trial: FleetTrial, facts: Mapping[str, Mapping[str, str]], seed: int = 1) -> FleetBegan:
    drawn = draw(trial.fleet, facts, seed, ("control", "big"))
    return FleetBegan(
        fleet="backlog-1",
        trial=trial,
        sha256=trial.sha256,
        seed=seed,
        machines=drawn.machines,
        left_out=drawn.left_out,
    )


class Simulated:
    """Machines that make their blocks at once. `effect` and `harm` are the arm's effects on a host, as logarithms.

    Implements `fleet.conduct.Looking`, its lease and its clock.
    """

    def __init__(
        self,
        standing: FleetStanding,
        *,
        effect: Effect = lambda _: 0.0,
        harm: Effect = lambda _: 0.0,
        noise: float = 0.01,
        between: float = 0.05,
        away: Mapping[str, int] | None = None,
        used: Mapping[str, int] | None = None,
        trips: Sequence[str] = (),
        fails: Mapping[str, int] | None = None,
        turns: int = 2,
        seed: int = 5,
    ) -> None:
        self.standing = standing
        self.events: list[FleetEvent] = []
        self.now_ms = 1_000_000
        self.beats = 0
        self.most_measuring = 0
        self.stopped: list[str] = []
        self.left_out: list[str] = []
        self._effect, self._harm, self._noise = effect, harm, noise
        self._away, self._used = dict(away or {}), dict(used or {})
        self._trips, self._turns = trips, turns
        self._fails = dict(fails or {})
        self._rng = np.random.default_rng(seed)
        self._levels = {one.host: float(self._rng.normal(0, between)) for one in standing.began.machines}
        self._logs: dict[str, list[Event]] = {}
        self._looks: dict[str, int] = {}

    # The lease and the clock.

    def append(self, *events: FleetEvent) -> None:
        self.events += events
        self.beats += not events

    def unix_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_ms += int(1000 * seconds)

    # The machines.

    def look(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        for look in looks:
            yield None
            yield self._sight(look)
        measuring = [step for step in self.standing.steps.values() if step.state == "running"]
        self.most_measuring = max(self.most_measuring, len(measuring))

    def stop(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        for look in looks:
            self.stopped.append(look.machine.host)
            yield Sight(look.machine.host, "stopped", trial=look.trial)

    def leave_out(self, look: MachineLook) -> None:
        self.left_out.append(look.machine.host)

    def log(self, trial: str) -> Sequence[Event]:
        return self._logs[trial]

    def _sight(self, look: MachineLook) -> Sight:
        host = look.machine.host
        if self._away.get(host, 0) > 0:
            self._away[host] -= 1
            return Sight(host, "unreachable", message="no route to host")
        if self._fails.get(host, 0) > 0:
            self._fails[host] -= 1
            return Sight(host, "failed", message="cannot read the store: server closed the connection", may_pass=True)
        if host in self._trips:
            return Sight(host, "failed", message="the temperature is 99.0 °C (limit 95 °C)", guard=True)
        name = f"backlog-1.{look.place + 1}-x"
        assert look.trial in {None, name}
        if self._used.get(host, 0) > 0:
            self._used[host] -= 1
            return Sight(host, "in-use", trial=name, next_look_s=60.0, message="in use: /dev/tty1")
        self._looks[name] = self._looks.get(name, 0) + 1
        if self._looks[name] < self._turns:
            return Sight(host, "running", trial=name, next_look_s=60.0)
        self._logs[name] = self._made(look)
        return Sight(host, "ended", trial=name, blocks=self.standing.began.trial.fleet.blocks)

    def _made(self, look: MachineLook) -> list[Event]:
        """Return the log of a machine's trial: the machine's level, noise, and the arm's effect."""
        machine, blocks = look.machine, self.standing.began.trial.fleet.blocks
        rules = {
            TIME: OutcomeRule(direction="lower", role="primary"),
            GUARD: OutcomeRule(direction="lower", role="guard", margin=0.05),
        }
        arms = ("control", "big") if machine.arm is None else (machine.arm, AGAIN)
        fixed = protocol(
            (),
            arms=tuple(TrialArm(name=name) for name in arms),
            control=arms[0],
            outcomes=rules,
            cap=blocks,
            seed=machine.seed,
            pooled=True,
            fixed=True,
        )
        scores: dict[str, dict[str, list[float]]] = {TIME: {}, GUARD: {}}
        for arm in arms:
            has_arm = arm == "big" or machine.arm == "big"
            for outcome, size in ((TIME, self._effect), (GUARD, self._harm)):
                shift = self._levels[machine.host] + (size(machine.host) if has_arm else 0.0)
                scores[outcome][arm] = (shift + self._rng.normal(0, self._noise, blocks)).tolist()
        return log_of(fixed, scores)


def simulated(first: FleetBegan, **manner: Any) -> tuple[FleetStanding, Simulated]:
    """Run a fleet's trial on simulated machines to its end; return its state and the machines."""
    standing = FleetStanding([first])
    world = Simulated(standing, **manner)
    Coordinator(standing, world, world, world, world.log, lambda _: None).carry_out()
    return standing, world


def hosts(count: int, **facts: str) -> dict[str, dict[str, str]]:
    return {
        f"m{number}": {"cpu.model": "A", "cpu.threads": "8", "kernel.release": "6.1", **facts}
        for number in range(1, count + 1)
    }


def racks(count: int) -> dict[str, dict[str, str]]:
    """Return hosts that alternate between racks `a` and `b`; the first two are databases."""
    return {
        host: {**facts, "inventory.rack": "ab"[number % 2], "inventory.role": "db" if number < 2 else "web"}
        for number, (host, facts) in enumerate(hosts(count).items())
    }


def fleet_page(
    write: Callable[[FleetStanding, FleetResult, Logs, Units], str], first: FleetBegan, **manner: Any
) -> str:
    """Return the report of a simulated fleet, written by `fleet_html` or `fleet_markdown`."""
    standing, world = simulated(first, **manner)
    logs = {place: world.log(trial) for place, trial in standing.finished.items()}
    return write(standing, fleet_result(standing, logs), logs, UNITS)


def shuffled_names(count: int, seed: int) -> list[str]:
    names = [f"m{number}" for number in range(1, count + 1)]
    random.Random(seed).shuffle(names)
    return names


def without_times(events: Sequence[FleetEvent]) -> list[dict[str, Any]]:
    """Return the events without the fields that differ between two runs of the same trial."""
    found = [msgspec.to_builtins(one) for one in events]
    for one in found:
        for name in ("at_unix_ms", "next_look_unix_ms", "fence", "holder"):
            one.pop(name, None)
    return found
