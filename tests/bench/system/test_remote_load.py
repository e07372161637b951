# SPDX-License-Identifier: Apache-2.0
"""The load of server benchmarks really comes from another machine, and nothing stays on either."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.kept import raw, records, state
from tests.support.remote_machine import RemoteMachine, join, own_boot, remote_machine
from tests.support.terminal import eventually

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("remote-load")]
PROGRAMS = ("redis-server", "postgres", "nginx", "iperf3", "redis-benchmark", "pgbench", "wrk", "ktrial-agent")
TINY = {
    "redis-benchmark-get": ["commands=5000", "keys=100"],
    "pgbench": ["seconds=2", "rate=100", "clients=4", "scale=1"],
    "wrk-nginx": ["seconds=1", "connections=4"],
    "iperf3": ["seconds=1", "omit_seconds=0"],
}
#: Kernels have one of the two kinds of control groups for CPUs.
OLD_GROUP, GROUP = Path("/sys/fs/cgroup/cpu/ktrial-load"), Path("/sys/fs/cgroup/ktrial-load")


class Pair(NamedTuple):
    """Two machines with a cable between them, and a user here whose ssh knows both."""

    server: RemoteMachine
    load: RemoteMachine
    address: str

    def words(self, *words: str) -> tuple[str, ...]:
        return (*words, "--load-from", f"ssh:{self.load.name}", "--load-address", self.address)

    def bench(self, name: str, *more: str) -> tuple[str, ...]:
        parameters = [word for one in TINY[name] for word in ("-p", one)]
        return self.words("bench", name, *parameters, *more)

    def left(self) -> list[str]:
        """Return processes and files that runs left on either machine."""
        found = []
        for one in (self.server, self.load):
            found += [line for name in PROGRAMS for line in one.processes(name)]
            found += one.run("find", str(one.home), "-mindepth", "1").split()
        return found


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with remote_machine("web1", more=own_boot(1)) as web1, remote_machine("load1", more=own_boot(2)) as load1:
        again = web1.ssh_config.read_text().replace("Host web1 root@web1", "Host again")
        web1.ssh_config.write_text(web1.ssh_config.read_text() + load1.ssh_config.read_text() + again)
        yield Pair(web1, load1, join([web1, load1], "10.77.0")["web1"])


@pytest.fixture(autouse=True)
def nothing_stays(pair: Pair) -> Iterator[None]:
    yield
    assert eventually(lambda: not pair.left(), 20), pair.left()


def measured(done: subprocess.CompletedProcess[str], output: Path, status: int = 0) -> list[dict[str, Any]]:
    assert done.returncode == status, done.stdout + done.stderr
    runs: list[dict[str, Any]] = json.loads(output.read_text())["runs"]
    return runs


def kept_output(pair: Pair, run: dict[str, Any]) -> bytes:
    """Return all that the programs of a run printed, as it is stored."""
    here = pair.server.folder / "here"
    return b"".join(raw(here, one, "state") for name, one in run["raw"].items() if "telemetry" not in name)


@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_takes_its_load_from_the_other_machine(pair: Pair, tmp_path: Path, name: str) -> None:
    output = tmp_path / "out.json"
    done = pair.server.ktrial(*pair.bench(name, "-n", "1", "-o", str(output)))
    (run,) = measured(done, output)
    found = run["generator"]
    assert f"the server runs on web1 at {pair.address}; the load comes from load1: " in done.stderr
    assert (found["name"], found["measured"]) == ("load1", "web1")
    assert run["parameters"]["generator"] == found["identity"]
    assert found["identity"].startswith(done.stderr.partition("comes from load1: ")[2].partition("\n")[0])
    assert 0 < found["program_share"] <= found["busy_share"] <= 1
    assert run["conditions"]["readings_during"]["generator_busy"] == found["busy_share"]
    assert all(one["value"] > 0 for one in run["measurements"] if one["unit"] != "count")
    assert "{a" in " ".join(run["argv"]), "the words stand for the address, so that the record of each run is the same"
    assert pair.address not in json.dumps([run["argv"], run["steps"], run["environment"]])
    stored = kept_output(pair, run)
    assert pair.address.encode() not in stored
    assert not re.search(rb"[0-9a-f]{48}", stored), "the password"


def test_a_connection_that_breaks_fails_its_run_and_nothing_stays(pair: Pair, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    words = pair.bench("wrk-nginx", "-n", "2", "-p", "seconds=2", "-o", str(output))
    going = subprocess.Popen(
        pair.server.command(*words), env=pair.server.environment(), stderr=subprocess.PIPE, text=True
    )
    assert eventually(lambda: bool(pair.load.processes("/usr/bin/wrk -t 2")), 60)
    rows = [line.split()[3] for line in pair.server.run("ss", "-Hltn").splitlines()]
    ports = [row for row in rows if row != "127.0.0.1:22"]
    assert [row.rpartition(":")[0] for row in ports] == [pair.address], "no other address is open"
    assert not pair.load.processes("nginx")
    assert not pair.server.processes("/usr/bin/wrk")
    pair.load.way.cut()
    said = going.communicate(timeout=120)[1]
    assert going.returncode == 1, said
    first, second = json.loads(output.read_text())["runs"]
    assert first["failure"].startswith("cannot send the load from load1: lost the connection to load1")
    assert not first["measurements"]
    assert second["failure"] is None, "the next run connects again"
    assert second["generator"]["identity"] == second["parameters"]["generator"]


def test_a_generator_that_is_the_measured_machine_by_another_name_is_refused(pair: Pair) -> None:
    words = ("bench", "redis-benchmark-get", "--load-from", "ssh:again", "--load-address", pair.address)
    done = pair.server.ktrial(*words)
    assert done.returncode == 2, done.stderr
    assert "again and web1 are the same machine" in done.stderr


def test_packets_that_a_firewall_drops_fail_the_run(pair: Pair, tmp_path: Path) -> None:
    device = pair.load.run("ip", "-o", "route", "get", pair.address).split(" dev ")[1].split()[0]
    neighbour = ("ip", "neigh", "replace", pair.address, "lladdr", "02:00:00:00:00:99", "dev", device)
    output = tmp_path / "out.json"
    pair.load.run(*neighbour, "nud", "permanent")
    try:
        done = pair.server.ktrial(*pair.bench("redis-benchmark-get", "-n", "1", "-o", str(output)))
    finally:
        pair.load.run("ip", "neigh", "delete", pair.address, "dev", device)
    (run,) = measured(done, output, status=1)
    assert run["failure"].startswith(
        f"cannot send the load from load1: load1 does not reach the server at {pair.address} on web1 "
        "(no answer within 10 s); next: use --load-address ADDRESS:PORT with a port that the firewall of web1 lets"
    )


@pytest.fixture
def limited(pair: Pair) -> Iterator[None]:
    """The generator's programs may use a twentieth of a CPU."""
    group = OLD_GROUP if OLD_GROUP.parent.is_dir() else GROUP
    if group == GROUP:
        (group.parent / "cgroup.subtree_control").write_text("+cpu")
    group.mkdir()
    try:
        (group / ("cpu.cfs_quota_us" if group == OLD_GROUP else "cpu.max")).write_text("5000")
        (group / "cgroup.procs").write_text(sshd_of(pair.load))
        yield
        (group.parent / "cgroup.procs").write_text(sshd_of(pair.load))
        assert eventually(lambda: not (group / "cgroup.procs").read_text(), 20)
    finally:
        group.rmdir()


def sshd_of(machine: RemoteMachine) -> str:
    """Return the number here of the process that starts all sessions there."""
    children = Path(f"/proc/{machine.first_process}/task/{machine.first_process}/children").read_text().split()
    return next(one for one in children if b"sshd" in Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")[0])


@pytest.mark.usefixtures("limited")
def test_a_generator_at_its_limit_is_told(pair: Pair, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    done = pair.server.ktrial(*pair.bench("wrk-nginx", "-n", "1", "-p", "threads=1", "-o", str(output)))
    (run,) = measured(done, output)
    assert run["generator"]["throttled_share"] > 0.1
    assert run["generator"]["busy_share"] > 0.8
    assert "suspect: the load generator was saturated: up to " in " ".join(done.stderr.split())


def test_a_trial_repeats_the_load_from_its_file(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "trial.toml"
    file.write_text(
        f"""name = "remote"
suite = "wrk-nginx"
parameters = {{ seconds = 1, connections = 4 }}
load_from = "ssh:load1"
load_address = "{pair.address}"
[design]
cap = 7
settle = "0s"
[gates]
others = "off"
[arms.control]
[arms.big]
set = {{ "net.core.somaxconn" = 512 }}
"""
    )
    done = pair.server.ktrial("trial", "run", str(file), "--no-profile", "--json")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    runs = [one for one in records(pair.server.folder / "here", "state") if one["trial"] is not None]
    assert {one["trial"]["arm"] for one in runs} == {"control", "big"}
    assert len({one["generator"]["identity"] for one in runs}) == 1
    assert all(one["argv"] == runs[0]["argv"] for one in runs), "a port that differs would be another command"
    assert "load generator was saturated" in done.stdout or max(one["generator"]["busy_share"] for one in runs) <= 0.8
    again = pair.server.ktrial("trial", "recheck", runs[0]["trial"]["trial"])
    assert again.returncode == 0, again.stderr


def test_the_server_may_run_on_this_machine(pair: Pair, tmp_path: Path) -> None:
    ends = ("kthere", "kthat")
    subprocess.run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True)
    try:
        subprocess.run(["ip", "link", "set", ends[1], "netns", pair.load.first_process], check=True)
        subprocess.run(["ip", "address", "add", "10.78.0.1/24", "dev", ends[0]], check=True)
        subprocess.run(["ip", "link", "set", ends[0], "up"], check=True)
        pair.load.run("ip", "address", "add", "10.78.0.2/24", "dev", ends[1])
        pair.load.run("ip", "link", "set", ends[1], "up")
        output = tmp_path / "out.json"
        words = ("bench", "redis-benchmark-set", "-n", "1", "-p", "commands=5000", "-p", "keys=100", "-o", str(output))
        argv = [sys.executable, "-m", "ktrial", *words, "--load-from", "ssh:load1", "--load-address", "10.78.0.1"]
        done = subprocess.run(argv, env=pair.server.environment(), capture_output=True, text=True, check=False)
        (run,) = measured(done, output)
    finally:
        subprocess.run(["ip", "link", "delete", ends[0]], check=True)
    assert "the server runs on this machine at 10.78.0.1" in done.stderr
    assert run["generator"]["measured"] == "this machine"
    assert not run["directory"].startswith(str(state(pair.server.folder / "here", "state"))), "wrk ran there"
