# SPDX-License-Identifier: Apache-2.0
"""Trials over machines behind real sshds, through Ansible, with a real PostgreSQL as the store."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ktrial.fleet.ansible import Ansible
from ktrial.fleet.store import StoredFleets
from ktrial.judge.model.log import BlockVoided, RunEnded
from ktrial.results.store.database import Database
from ktrial.trial.store import StoredTrials
from tests.support.fleet import Fleet, fleet_of
from tests.support.stores import postgresql

pytestmark = pytest.mark.timeout(600)

NAMES = ("m1", "m2", "m3")
BEFORE = dict.fromkeys(NAMES, "4096")


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with fleet_of(NAMES) as made:
        yield made


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as url:
        yield url


def check_runs(url: str, machines: int | None = None) -> None:
    """The newest trial has each run of each machine once, and its log leads to its end.

    Without `machines`, those count that were there when it began.
    """
    database = Database.open(url)
    try:
        fleets, trials = StoredFleets(lambda: database), StoredTrials(lambda: database)
        standing = fleets.standing(fleets.find(None))
        assert standing.end is not None
        machines = len(standing.began.machines) if machines is None else machines
        assert len(standing.finished) == machines, standing.steps
        for trial in standing.finished.values():
            log = trials.log(trial)
            assert not [one for one in log if isinstance(one, BlockVoided)]
            made = [(one.block, one.arm) for one in log if isinstance(one, RunEnded) and one.block]
            assert len(made) == len(set(made)) == 14
        names = [one.file.name for one in trials.all() if one.file.name.startswith(standing.began.fleet)]
        assert len(names) == len(set(names)), names
    finally:
        database.close()


def test_a_coordinator_that_dies_is_taken_over_and_the_verdict_is_that_of_all_machines(
    fleet: Fleet, server: str, tmp_path: Path
) -> None:
    trial = fleet.write_trial(dict.fromkeys(NAMES, -0.2), fleet='waves = ["100%"]\nsubgroups = ["inventory.rack"]')
    words = fleet.words("run", str(trial), "-i", str(fleet.inventory), "-y")
    environment = {**fleet.environment(), "KTRIAL_STORE": server}
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as first:
        wait_for(lambda: "512" in fleet.values().values(), first)
        second = fleet.run(store=server)
        assert second.returncode == 1
        assert "coordinates backlog-" in second.stderr
        first.send_signal(signal.SIGKILL)
    done = fleet.run("--json", store=server)
    assert done.returncode == 0, done.stderr
    assert "continuing " in done.stderr
    assert fleet.values() == BEFORE
    check_runs(server, 3)
    shown = fleet.ktrial("report", store=server)
    assert shown.stdout.startswith("On machines like these, big is better"), shown.stdout
    found = json.loads(fleet.ktrial("report", "--json", store=server).stdout)
    assert found["contrasts"][0]["helped"] == 3
    assert [one["value"] for one in found["contrasts"][0]["subgroups"]] == ["0", "1"]
    assert f"next: `ktrial fleet report {found['fleet']} -o {found['fleet']}.html`" in done.stderr
    assert f"next: `ktrial fleet rollout {found['fleet']} -i INVENTORY` keeps big" in done.stderr
    assert "wrote" in fleet.ktrial("report", "-o", str(tmp_path / "fleet.html"), store=server).stderr
    page = (tmp_path / "fleet.html").read_text(encoding="utf-8")
    assert "On machines like these, big is better" in page
    assert 'id="waves"' in page
    told = fleet.ktrial("report", "--markdown", store=server).stdout
    assert told.startswith(f"# {found['fleet']}: big against control on 3 machines")
    for machine in fleet.machines.values():
        assert machine.processes() == []
        assert machine.run("find", str(machine.home), "-type", "f") == ""
        # Machines never hold the way to the database.
        assert subprocess.run(["grep", "-rqs", "postgresql", machine.folder / "state"], check=False).returncode == 1


def wait_for(is_so: object, running: subprocess.Popen[str], limit_s: float = 150) -> None:
    assert callable(is_so)
    end_s = time.monotonic() + limit_s
    while not is_so():
        assert running.poll() is None, running.stderr.read() if running.stderr else ""
        if time.monotonic() > end_s:
            running.kill()
            _, told = running.communicate()
            pytest.fail(told)
        time.sleep(0.1)


def test_stop_restores_a_machine_at_once(fleet: Fleet) -> None:
    """One machine, which counts as idle here: what is stopped on several is seen in simulation."""
    is_idle = 'gates = { others = { suspect = "100%" } }'
    trial = fleet.write_trial({}, fleet='waves = ["100%"]\nblocks = 40', top=is_idle, seed=2)
    words = fleet.words("run", str(trial), "-i", str(fleet.inventory), "--limit", "m1", "-y", "--when-idle")
    with subprocess.Popen(
        words, env=fleet.environment(), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as running:
        wait_for(lambda: fleet.values()["m1"] == "512", running)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 130, told
    assert "`ktrial fleet stop backlog-" in told
    assert "time unknown until the first machine has begun to measure; ktrial also waits for" in " ".join(told.split())
    status = json.loads(fleet.ktrial("status", "--json").stdout)
    assert status["when_idle"]
    assert status["left_s"] > 0
    fleet.write_trial({}, fleet='waves = ["100%"]\nblocks = 20', seed=2)
    edited = fleet.run()
    assert edited.returncode == 4
    assert "trial.toml was edited after backlog-" in edited.stderr
    done = fleet.ktrial("stop", "-i", str(fleet.inventory))
    assert done.returncode == 0, done.stderr
    assert fleet.values() == BEFORE
    status = fleet.ktrial("status")
    assert "ended: stopped by the user" in status.stdout


@pytest.mark.parametrize(
    "words, said",
    [
        ((), "no inventory given"),
        (("-i", "/nowhere/hosts.ini"), "/nowhere/hosts.ini: no such inventory"),
        (("-i", "INVENTORY", "--limit", "db"), "no host of the inventory matches --limit db"),
        (("-i", "BROKEN"), "Ansible cannot read the inventory"),
    ],
)
def test_an_inventory_that_says_nothing_is_refused(fleet: Fleet, words: Sequence[str], said: str) -> None:
    broken = fleet.folder / "broken.yml"
    broken.write_text("all: [unclosed\n")
    places = {"INVENTORY": str(fleet.inventory), "BROKEN": str(broken)}
    trial = fleet.write_trial({}, seed=3)
    done = fleet.ktrial("run", str(trial), *(places.get(word, word) for word in words))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert said in done.stderr
    assert "next: " in done.stderr


def test_no_value_of_a_trial_is_a_template_of_ansibles(tmp_path: Path) -> None:
    """A trial file of somebody else must run nothing on the controller. ktrial starts where the user is."""
    program, inventory, told = tmp_path / "ktrial", tmp_path / "hosts.ini", tmp_path / "told"
    program.write_text(f'#!/bin/sh\necho "in $PWD: $*" >> {told}\necho \'{{"facts": {{}}}}\'\n')
    program.chmod(0o755)
    inventory.write_text("m1 ansible_connection=local\n")
    ansible = Ansible([str(inventory)], [str(program)], tmp_path, limit=None, forks=1, store=f"{tmp_path}/db")
    hostile = "{{ lookup('pipe', 'touch " + str(tmp_path / "owned") + "') }}"
    (found,) = [one for one in ansible.run("facts", {"m1": {"prefixes": [hostile]}}) if one is not None]
    assert found.state == "ok", found.content
    assert hostile in told.read_text()
    assert told.read_text().startswith(f"in {Path.cwd()}: ")
    assert not (tmp_path / "owned").exists()


def test_a_machine_that_left_the_inventory_is_away(fleet: Fleet, tmp_path: Path) -> None:
    ansible = Ansible([str(fleet.inventory)], ["ktrial"], tmp_path, limit=None, forks=1, store=f"{tmp_path}/db")
    (found,) = [one for one in ansible.run("facts", {"gone": {}}) if one is not None]
    assert (found.host, found.state, found.message) == (
        "gone",
        "unreachable",
        "the inventory no longer lists this host",
    )


def test_machines_that_cannot_take_part_are_left_out_with_the_reason(fleet: Fleet, tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.ini"
    known = fleet.machines["m2"]
    other = tmp_path / "known_hosts"
    other.write_text("m2 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPyV6OZ4jJsSlWrcHuGVB8Ct3iBNkU7gzXGPXGOGjj2I\n")
    inventory.write_text(
        "nowhere ansible_host=nowhere.invalid\n"
        f'm2 ansible_host=m2 ansible_ssh_common_args="-F {known.ssh_config} '
        f'-o UserKnownHostsFile={other} -o ControlPath=none"\n'
    )
    trial = fleet.write_trial({}, seed=4)
    done = fleet.ktrial("run", str(trial), "-i", str(inventory), "-y")
    assert done.returncode == 2
    assert "nowhere is left out: cannot connect to nowhere.invalid" in done.stderr
    assert "m2 is left out: cannot connect to m2: Host key verification failed" in done.stderr
    assert "no machine of the inventory can take part" in done.stderr
