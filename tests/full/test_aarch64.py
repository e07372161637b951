# SPDX-License-Identifier: Apache-2.0
"""The same source builds for aarch64; what comes out answers under user-mode emulation, and boots Debian's kernels."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktrial.bench.guest_tools import GuestTool, Job, Shape
from ktrial.guests.agreement import boot_twice
from ktrial.guests.boot import BootLimits, Guests
from ktrial.guests.programs import GuestFiles
from ktrial.guests.qemu import Emulator
from ktrial.kernels.images.architectures import AARCH64
from ktrial.kernels.images.images import Images
from tests.guests.system.kernels import ARM_KERNELS, Kernel, fetch, release
from tests.support.cross_agent import cross_agent

LIMIT = "400s"
PARAMETERS = {"kind": "timer", "rate_per_s": 100, "duration_s": 2}
REQUESTS = (
    {"id": 1, "do": "load", "load": "wakeup", "parameters": PARAMETERS, "limit_s": 60},
    {"id": 2, "do": "read", "paths": ["/sys/kernel/notes"]},
)
pytestmark = [pytest.mark.xdist_group("aarch64"), pytest.mark.timeout(4800)]
kernels = pytest.mark.parametrize("kernel", ARM_KERNELS, ids=lambda kernel: kernel.name)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cross-built agent."""
    return cross_agent(tmp_path_factory.mktemp("cross") / "root")


def emulated(agent: Path, *arguments: str, requests: str = "") -> str:
    done = subprocess.run(
        ["qemu-aarch64-static", agent, *arguments],
        input=requests,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_a_small_static_program_for_aarch64(agent: Path) -> None:
    program = agent.read_bytes()
    assert program[:5] == b"\x7fELF\x02"
    assert int.from_bytes(program[18:20], "little") == 183  # EM_AARCH64
    assert len(program) < 6_000_000
    assert b"/lib/ld-linux-aarch64.so.1\0" not in program


def test_it_starts_and_says_hello(agent: Path) -> None:
    assert emulated(agent, "--version").startswith("ktrial-agent ")
    hello, read = emulated(
        agent,
        *("serve", "--role", "user"),
        requests='{"id":1,"do":"hello","protocol":1,"head":"0.1.0"}\n'
        '{"id":2,"do":"read","paths":["/proc/sys/kernel/osrelease"]}\n',
    ).splitlines()
    assert json.loads(hello)["ok"]["architecture"] == "aarch64"
    assert json.loads(read)["ok"]["values"][0]["bytes"] == Path("/proc/sys/kernel/osrelease").read_text()


def ktrial(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ktrial", "kernel", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )


def boot(kernel: Kernel, mode: str, *arguments: str) -> Any:
    """What `kernel boot --json` tells of the agent's cost of its samples in a guest."""
    fetch(kernel)
    options = ["--mode", mode, "--limit", LIMIT, "--json", *arguments]
    done = ktrial("boot", str(kernel.tree), *options, "--", "ktrial-agent", "selfcost", "--json")
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@kernels
def test_a_kernel_for_arm64_is_booted_as_it_is(agent: Path, kernel: Kernel) -> None:
    told = boot(kernel, "emulated")
    assert (told["exit_status"], told["stderr"]) == (0, ""), told
    assert (told["guest"]["release"], told["guest"]["architecture"]) == (release(kernel.tree), "aarch64")
    assert told["guest"]["cpus"] == 2
    assert json.loads(told["stdout"])


def test_an_exact_guest_of_arm64_is_the_same_each_time_and_another_one_is_not(agent: Path) -> None:
    told = boot(ARM_KERNELS[-1], "exact")
    assert (told["exit_status"], told["exact"]["runs"]) == (0, 2 if told["exact"]["odd"] is None else 3), told
    assert boot(ARM_KERNELS[-1], "exact")["exact"]["sha256"] == told["exact"]["sha256"]
    other = boot(ARM_KERNELS[-1], "exact", "--append", "ktrial.placebo=1")
    assert other["exact"]["sha256"] != told["exact"]["sha256"]


@kernels
def test_what_inspect_says_is_what_the_guest_says_and_loads_run_there(
    agent: Path, kernel: Kernel, tmp_path: Path
) -> None:
    fetch(kernel)
    told = json.loads(ktrial("inspect", str(kernel.tree), "--json").stdout)["identity"]
    assert (told["architecture"], told["release"], told["btf"]) == ("aarch64", release(kernel.tree), True)
    assert (told["scheduler"], told["hz"], told["lto"]) == (kernel.scheduler, 250, "none")
    requests = "".join(json.dumps(request) + "\n" for request in REQUESTS).encode()
    program = GuestTool(argv=("ktrial-agent", "batch", "--role", "user", "/root/requests"))
    guests = Guests(Emulator(machine=AARCH64, work=tmp_path), agent, tmp_path)
    files, image = GuestFiles({"/root/requests": requests}, {}, {}, "aarch64"), Images().find(str(kernel.tree))

    def run(shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> Any:
        return guests.boot(
            image,
            Job(programs=(program,), settle_s=12),
            files,
            shape,
            BootLimits(limit_s, begin_limit_s),
        )

    shape = Shape(mode="exact", memory_bytes=1 << 30, cpus=1)
    load, notes = boot_twice(shape, 400.0, run, guests).run.stdout.decode().splitlines()
    assert json.loads(load)["ok"]["results"]["count"] == 200
    value = json.loads(notes)["ok"]["values"][0]["bytes"]
    assert told["build_id"] in base64.b64decode(value["base64"]).hex()


def test_a_trial_of_a_kernel_for_arm64_comes_to_its_end(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    kernel = ARM_KERNELS[-1]
    fetch(kernel)
    measured = ("--suite", "agent-contextswitch-same", "-p", "duration_s=1", "--budget", "7", "--seed", "1")
    done = ktrial("trial", str(kernel.tree), "--placebo", "--mode", "emulated", *measured, "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    records = [event["record"] for event in events if event["event"] == "visit"]
    assert {one["trial"]["kernel_release"] for one in records} == {release(kernel.tree)}
    assert len([one for one in records if one["failure"] is None]) >= 14
    (primary,) = [one for one in events[-1]["comparison"]["outcomes"] if one["role"] == "primary"]
    assert [one["arm"] for one in primary["contrasts"]] == ["placebo"]
    refused = ktrial("trial", str(kernel.tree), "--placebo", "--mode", "emulated", "--suite", "sysbench-threads")
    assert "the guest is aarch64" in refused.stderr


def test_what_this_machine_brings_does_not_run_there(agent: Path) -> None:
    fetch(ARM_KERNELS[0])
    done = ktrial("boot", str(ARM_KERNELS[0].tree), "--mode", "emulated", "--", "ls")
    assert done.returncode == 2
    assert "the guest is aarch64" in done.stderr
    assert "`-- ktrial-agent`" in done.stderr
