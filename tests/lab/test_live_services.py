# SPDX-License-Identifier: Apache-2.0
"""Live trials of forty minutes on services under load: three with a planted slowdown, three without; all at once.

Each service has a machine of its own (namespaces with sshd), whose ktrial switches a setting while clients send
requests whose number or work goes up and down.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.remote_machine import CHECKOUT, RemoteMachine, remote_machine
from tests.support.stores import postgresql

pytestmark = pytest.mark.timeout(4200)

TIME = "40min"
SOMAXCONN = "/proc/sys/net/core/somaxconn"
GROUP = "ktrial-live-{}-" + str(os.getpid())
#: One answer of the server with this many bytes needs many segments if the receiver's buffer is small.
_PAGE_BYTES = 40_000
_SMALL_BUFFER = "4096 4096 4096"


class Case(NamedTuple):
    """A service, how its slowdown is planted, and what is tried; without a plant nothing may be claimed."""

    service: str
    arm: str
    plant: str | None


CASES = {
    "proxy": Case("redis", "net.core.somaxconn=512", "proxy"),
    "knob": Case("redis", f"net.ipv4.tcp_rmem={_SMALL_BUFFER}", "knob"),
    "quota": Case("pgbench", f"cgroup:cpu.max@{GROUP.format('quota')}=9000 100000", "quota"),
    "redis-a": Case("redis", "net.core.somaxconn=512", None),
    "redis-b": Case("redis", "net.ipv4.tcp_tw_reuse=0", None),
    "pgbench": Case("pgbench", "net.core.somaxconn=512", None),
}


@contextlib.contextmanager
def running(*argv: str, machine: RemoteMachine) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        ["nsenter", "--target", machine.first_process, "--mount", "--uts", "--net", "--pid", "--", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def redis(machine: RemoteMachine, log: Path, case: Case, seed: int) -> Iterator[None]:
    """A Redis server, a proxy and clients on the machine."""
    factor = 1.1 if case.plant == "proxy" else 1.0
    port, own = "6399", "6400"
    with running("redis-server", "--port", port, "--save", "", machine=machine):
        machine.run("sh", "-c", f"until redis-cli -p {port} ping; do sleep 0.1; done")
        machine.run("sh", "-c", f"head -c {_PAGE_BYTES} /dev/zero | redis-cli -p {port} -x set page")
        program = str(CHECKOUT / "tests/support/live_program.py")
        words = [str(log), port, SOMAXCONN, "512", str(factor), own, "40", "1200", str(seed)]
        with running("/usr/bin/python3", program, *words, machine=machine):
            yield


@contextlib.contextmanager
def pgbench(machine: RemoteMachine, log: Path, case: Case, name: str) -> Iterator[None]:
    """A PostgreSQL server in a control group with a tenth of a CPU, and pgbench, whose work per request varies."""
    with quota_group(name) as (group, quota), postgresql() as url:
        folder = url.rpartition("host=")[2]
        subprocess.run(["pgbench", "-q", "-i", "-h", folder, "-U", "postgres", "postgres"], check=True)
        (group / "cgroup.procs").write_text(Path(folder, "data/postmaster.pid").read_text().split()[0])
        program = str(CHECKOUT / "tests/support/live_pgbench.py")
        with running("/usr/bin/python3", program, str(log), folder, "1200", *map(str, quota), machine=machine):
            yield


@contextlib.contextmanager
def quota_group(name: str) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """A control group with a tenth of a CPU, and the files between which its quota must be carried over, if any.

    A machine with groups of version 1 has no cpu.max: a file of this name stands for it there.
    """
    named = Path("/sys/fs/cgroup", GROUP.format(name))
    has_second = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    group = named if has_second else Path("/sys/fs/cgroup/cpu", named.name)
    for folder in {named, group}:
        folder.mkdir()
    (named / "cpu.max").write_text("10000 100000")
    try:
        yield group, () if has_second else (named / "cpu.max", group / "cpu.cfs_quota_us")
    finally:
        while (group / "cgroup.procs").read_text():
            time.sleep(0.1)
        group.rmdir()
        if not has_second:
            (named / "cpu.max").unlink()
            named.rmdir()


@contextlib.contextmanager
def live_trial(name: str, case: Case, seed: int) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A live trial under way, and the folder with its events and messages."""
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(remote_machine(f"live{seed}"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ktrial-live-")))
        folder.chmod(0o755)
        log = folder / "service.log"
        log.touch(mode=0o644)
        serve = redis(machine, log, case, seed) if case.service == "redis" else pgbench(machine, log, case, name)
        stack.enter_context(serve)
        metric = f"latency_ms:lower=log:{log}?match=latency_ms ([0-9.]+)&take=mean"
        options = ["--for", TIME, "--name", name, "--seed", str(seed), "--json", "--yes"]
        options += ["--poll", "2s"] if case.service == "pgbench" else []
        with (folder / "events").open("wb") as events, (folder / "told").open("wb") as told:
            words = machine.command("live", case.arm, "--metric", metric, *options)
            started = subprocess.Popen(
                words, env=machine.environment(), stdin=subprocess.DEVNULL, stdout=events, stderr=told
            )
            stack.enter_context(started)
            stack.callback(started.terminate)
            yield started, folder


def verdict_in(folder: Path) -> str:
    """The verdict on the latency at the end of the trial."""
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines() if line.startswith('{"event"')]
    ended = [one for one in events if one["event"] == "trial-ended"]
    assert ended, (folder / "told").read_text()[-2000:]
    (found,) = [one["verdict"] for one in ended[-1]["judgement"]["judged"] if one["role"] == "primary"]
    return str(found)


def test_what_was_planted_is_found_and_nothing_else() -> None:
    with contextlib.ExitStack() as stack:
        trials = {
            name: stack.enter_context(live_trial(name, case, seed))
            for seed, (name, case) in enumerate(CASES.items(), start=1)
        }
        for process, _ in trials.values():
            process.wait()
        verdicts = {name: verdict_in(folder) for name, (_, folder) in trials.items()}
    for name, case in CASES.items():
        assert (verdicts[name] == "worse") is (case.plant is not None), verdicts
