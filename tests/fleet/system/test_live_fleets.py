# SPDX-License-Identifier: Apache-2.0
"""Live trials over machines behind real sshds, whose metrics this machine reads from one server."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.fleet import Fleet, LiveWork, fleet_of

pytestmark = pytest.mark.timeout(900)

NAMES = tuple(f"m{number}" for number in range(1, 14))
BEFORE = dict.fromkeys(NAMES, "4096")
PAIRS = 'design = "pairs"\nmatch = ["cpu.model"]\n'


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with fleet_of(NAMES) as made:
        yield made


def wait_for(is_so: Callable[[], bool], limit_s: float = 150) -> None:
    end_s = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.1)


def started(fleet: Fleet, *more: str) -> subprocess.Popen[str]:
    words = fleet.words("run", str(fleet.folder / "trial.toml"), "-i", str(fleet.inventory), "-y", *more)
    return subprocess.Popen(words, env=fleet.environment(), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


def test_pairs_have_a_verdict_although_their_coordinator_was_killed(fleet: Fleet) -> None:
    with LiveWork(fleet, dict.fromkeys(NAMES, -0.2), absent=["m13"]) as work:
        guards = 'guards = { app_s = "50%" }'
        fleet.write_live(work, live=guards, fleet=PAIRS + 'waves = [2, "100%"]')
        with started(fleet) as first:
            wait_for(lambda: list(fleet.values().values()).count("512") == 2)
            first.send_signal(signal.SIGKILL)
        wait_for(lambda: fleet.values() == BEFORE, 20)
        wait_for(lambda: not any(one.processes() for one in fleet.machines.values()), 20)
        done = fleet.run("--forks", "12")
        assert done.returncode == 0, done.stderr
        assert "continuing " in done.stderr
    assert fleet.values() == BEFORE
    found = json.loads(fleet.ktrial("report", "--json").stdout)
    (one,) = found["contrasts"]
    assert (one["verdict"], one["scope"], len(one["pooled"]["machines"])) == ("better", "these machines", 6)
    assert one["effect"]["estimate"] == pytest.approx(0.223, abs=0.02)
    assert "answers with status 404" in found["left_out"]["m13"]
    assert [over["decision"] for over in found["waves"]] == ["go on", "go on"]
    machines = json.loads(fleet.ktrial("status", "--json").stdout)["machines"]
    assert {one["step"]["blocks"] for one in machines} == {7}


def test_a_guard_restores_its_machine_and_stops_the_wave(fleet: Fleet) -> None:
    with LiveWork(fleet, dict.fromkeys(NAMES, 0.6)) as work:
        guards = 'guards = { app_s = "20%" }'
        fleet.write_live(work, period="12s", live=guards, fleet=PAIRS + 'waves = [1, "100%"]', seed=2)
        done = fleet.run()
    assert done.returncode == 3, done.stderr
    assert "a guard of m" in done.stderr
    assert "app_s in big: 1." in done.stderr
    assert "wave 2 begins" not in done.stderr
    assert fleet.values() == BEFORE
    machines = json.loads(fleet.ktrial("status", "--json").stdout)["machines"]
    begun = {one["arm"]: one["step"]["state"] for one in machines if one["step"] is not None}
    assert begun == {"big": "failed", "control": "stopped"}


def test_a_machine_that_is_lost_goes_on_when_it_is_back(fleet: Fleet) -> None:
    with LiveWork(fleet, dict.fromkeys(NAMES, -0.2)) as work:
        fleet.write_live(work, fleet='waves = ["100%"]', seed=3)
        with started(fleet, "--limit", "m1,m2,m3") as running:
            machine = fleet.machines["m1"]
            wait_for(lambda: machine.read("/proc/sys/net/core/somaxconn") == "512")
            machine.way.cut()
            assert running.stderr is not None
            said = running.stderr.read()
        assert running.returncode == 0, said
    assert "m1 cannot be reached: lost the connection" in said
    assert fleet.values() == BEFORE
