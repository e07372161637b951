# SPDX-License-Identifier: Apache-2.0
"""Coordinators that are killed at random moments, with a real store and machines that answer from a recording."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ktrial.fleet.conduct import Coordinator, MachineLook, Sight
from ktrial.fleet.log import FleetBegan
from ktrial.fleet.store import StoredFleets
from ktrial.fleet.verdict import fleet_result
from ktrial.judge.model.log import Event
from ktrial.kit.errors import Busy
from ktrial.results.store.database import Database
from ktrial.results.store.runs import this_writer
from tests.support.fleets import Simulated, began, fleet_trial, hosts, simulated
from tests.support.stores import postgresql

TURNS, MACHINES = 6, 12


class RecordedMachines:
    """Machines whose state is files, so that it outlives coordinators. Each answer takes a moment."""

    def __init__(self, folder: Path, simulation: Simulated) -> None:
        self._folder, self._simulation = folder, simulation

    def look(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        for look in looks:
            time.sleep(0.002)
            yield None
            yield self._sight(look)

    def stop(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        assert not looks, "nothing stops this trial"
        yield from ()

    def leave_out(self, look: MachineLook) -> None:
        raise AssertionError(f"{look.machine.host} is never away")

    def _sight(self, look: MachineLook) -> Sight:
        host, name = look.machine.host, f"backlog-1.{look.place + 1}-x"
        place = self._folder / host
        has_begun = place.exists()
        # As with the real store, a coordinator finds a trial that another one has begun.
        line = "look" if has_begun else "begin"
        with place.open("a") as file:
            file.write(f"{line}\n")
        time.sleep(0.001)
        if len(place.read_text().splitlines()) < TURNS:
            return Sight(host, "running", trial=name, next_look_s=0.001)
        return Sight(host, "ended", trial=name, blocks=7)


class RealTime:
    @staticmethod
    def unix_ms() -> int:
        return time.time_ns() // 1_000_000

    @staticmethod
    def sleep(seconds: float) -> None:
        time.sleep(min(seconds, 0.005))


def coordinate(url: str, folder: Path, first: FleetBegan, logs: dict[str, Sequence[Event]]) -> None:
    """Take the trial and go on with it, in a process of its own."""
    database = Database.open(url)
    fleets = StoredFleets(lambda: database)
    lease = fleets.take(first.fleet, this_writer())
    standing = fleets.standing(first.fleet)
    machines = RecordedMachines(folder, Simulated(standing))
    Coordinator(standing, lease, machines, RealTime(), logs.__getitem__, lambda _: None).carry_out()
    lease.let_go()


def killed_or_done(run: object, after_s: float) -> bool:
    """Run in a child and kill it after so long; whether it came to its end."""
    assert callable(run)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run()
            status = 0
        finally:
            os._exit(status)
    end_s = time.monotonic() + after_s
    while time.monotonic() < end_s:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return True
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def kill_coordinators(url: str, folder: Path, kills: int, seed: int) -> None:
    """Run trials until so many coordinators were killed; each trial ends as it would without cuts."""
    rng = random.Random(seed)
    first = began(fleet_trial(), hosts(MACHINES))
    whole, world = simulated(first, effect=lambda host: 0.0 if host == "m1" else 0.1, turns=1)
    logs = {trial: world.log(trial) for trial in whole.finished.values()}
    wanted = fleet_result(whole, {place: logs[trial] for place, trial in whole.finished.items()})
    killed = number = 0
    while killed < kills:
        number += 1
        place = folder / str(number)
        place.mkdir()
        fleet = FleetBegan(
            **{**{name: getattr(first, name) for name in first.__struct_fields__}, "fleet": f"f{number}"}
        )
        database = Database.open(url)
        StoredFleets(lambda: database).begin(fleet)  # noqa: B023 (used within this turn)
        database.close()
        while not killed_or_done(lambda: coordinate(url, place, fleet, logs), rng.uniform(0.02, 0.35)):  # noqa: B023
            killed += 1
        database = Database.open(url)
        standing = StoredFleets(lambda: database).standing(fleet.fleet)  # noqa: B023
        database.close()
        found = fleet_result(standing, {at: logs[trial] for at, trial in standing.finished.items()})
        assert found.contrasts == wanted.contrasts
        assert [over.decision for over in found.waves] == ["go on"] * 3
        for host in hosts(MACHINES):
            lines = (place / host).read_text().splitlines()
            assert lines.count("begin") == 1


def test_killed_coordinators_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    kill_coordinators(str(tmp_path / "results.db"), tmp_path, 25, 1)


def test_two_hundred_killed_coordinators_with_postgresql(tmp_path: Path) -> None:
    with postgresql() as url:
        kill_coordinators(url, tmp_path, 200, 2)


def test_one_coordinator_at_a_time_and_a_late_one_is_told(tmp_path: Path) -> None:
    database = Database.open(str(tmp_path / "results.db"))
    fleets = StoredFleets(lambda: database)
    first = began(fleet_trial(), hosts(3))
    fleets.begin(first)
    mine = fleets.take(first.fleet, "here/m boot 1 1")
    with pytest.raises(Busy, match=r"process 1 on here coordinates backlog-1 now"):
        fleets.take(first.fleet, "there/n boot 2 2")
    mine.let_go()
    other = fleets.take(first.fleet, "there/n boot 2 2")
    assert other.fence > mine.fence
    with pytest.raises(Exception, match="process 2 on there has taken over backlog-1"):
        mine.append()
    held = fleets.holder_of(first.fleet)
    assert held is not None
    assert held.text == "process 2 on there"
    assert fleets.take(first.fleet, "here/m boot 3 3", from_others=True).fence > other.fence
    database.close()
