# SPDX-License-Identifier: Apache-2.0
"""Kills and cuts at random moments of real trials: the coordinator, ssh, agents, the database, a whole machine."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fleet.system.test_fleets import BEFORE, NAMES, check_runs
from tests.support.fleet import Fleet, fleet_of
from tests.support.stores import postgresql

pytestmark = pytest.mark.timeout(14_400)
LIMIT_S = 600


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with fleet_of(NAMES) as made:
        yield made


def processes_with(word: str) -> list[int]:
    """The processes here whose command line has this word; each test has folders of its own.

    What runs on a machine of the fleet, such as the program that it measures, is not here.
    """
    here, found = Path("/proc/self/ns/pid").readlink(), []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (place / "cmdline").read_bytes() and (place / "ns/pid").readlink() == here:
                found.append(int(place.name))
    return [pid for pid in found if pid != os.getpid()]


def end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill(pids: list[int], rng: random.Random) -> None:
    """Kill one of these processes."""
    if pids:
        end(rng.choice(pids))


def parent_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def server_of(url: str) -> int:
    """The first process of the test's own PostgreSQL."""
    return int(Path(url.rpartition("host=")[2], "data/postmaster.pid").read_text().split()[0])


def kill_one(fleet: Fleet, running: subprocess.Popen[bytes], database: list[int], rng: random.Random) -> str:
    """Kill or cut something."""
    machine = fleet.machines[rng.choice(NAMES)]

    def power() -> None:
        machine.off()
        machine.boot()

    ways: dict[str, Callable[[], object]] = {
        "coordinator": running.kill,
        "coordinator with all that it started": lambda: list(map(end, processes_with(str(fleet.folder)))),
        "ssh": lambda: kill(processes_with(str(machine.ssh_config)), rng),
        "agent": lambda: machine.kill("ktrial-agent"),
        "sshd": lambda: machine.kill("sshd: remote"),
        "database": lambda: kill(database, rng),
        "machine": power,
        "line": machine.way.cut,
    }
    name = rng.choice(list(ways))
    ways[name]()
    return name


def kill_fleets(fleet: Fleet, url: str, kills: int, seed: int) -> None:
    """Run trials until so many kills were made; each trial comes to its end all the same."""
    rng, made, number = random.Random(seed), 0, 0
    while made < kills:
        number += 1
        trial = fleet.write_trial(dict.fromkeys(NAMES, -0.2), fleet='waves = ["100%"]', seed=1000 * seed + number)
        words = fleet.words("run", str(trial), "-i", str(fleet.inventory), "-y")
        environment = {**fleet.environment(), "KTRIAL_STORE": url}
        told: list[str] = []
        end_s = time.monotonic() + LIMIT_S
        while True:
            assert time.monotonic() < end_s, told
            with subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    _, err = running.communicate(timeout=rng.uniform(1, 30) if len(told) < 10 else LIMIT_S)
                    if running.returncode == 0:
                        break
                    told.append(err.decode()[-600:])
                    time.sleep(1)
                    continue
                # The database's children are backends; its first process starts again by itself.
                backends = [pid for pid in processes_with("postgres: ") if parent_of(pid) == server_of(url)]
                told.append(kill_one(fleet, running, backends, rng))
                made += 1
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.communicate(timeout=LIMIT_S)
                if running.returncode == 0:
                    break
        for machine in fleet.machines.values():
            machine.ktrial("recover")
        assert fleet.values() == BEFORE, told
        check_runs(url)


def test_kills_leave_values_and_runs_whole(fleet: Fleet) -> None:
    with postgresql() as url:
        kill_fleets(fleet, url, 8, 1)


@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_two_hundred_kills_leave_values_and_runs_whole(fleet: Fleet, seed: int) -> None:
    """A fourth of them each; `-n 4` makes them at the same time."""
    with postgresql() as url:
        kill_fleets(fleet, url, 50, seed)
