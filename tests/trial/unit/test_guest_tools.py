# SPDX-License-Identifier: Apache-2.0
"""Programs of this machine in the guests of a trial: what is brought, what the agent there is asked, what comes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.guest_tools import GuestRun, Shape
from ktrial.bench.suite import Task
from ktrial.kit.errors import BadInput
from ktrial.machine.facts import FactBook
from ktrial.trial.guests.guest_visit import GuestTask, came_of, job_of
from ktrial.trial.guests.programs import environment_of, in_guest, tools_of
from ktrial.tuning.plans.model import Plan

BENCHMARKS = all_benchmarks()
NOTHING = Plan(title="", changes=(), same=(), refusals=())
TOOLS = {"cyclictest": "/var/lib/tools/cyclictest", "hackbench": "/usr/bin/hackbench", "cat": "/bin/cat"}
EXACT = Shape(mode="exact", memory_bytes=1 << 29, cpus=1)


class Programs:
    """An executor that knows where programs are."""

    def __init__(self, **places: str) -> None:
        self._places = places

    def programs(self, names: Any) -> dict[str, str | None]:
        return {name: self._places.get(name) for name in names}


def task(name: str) -> Task:
    return Task(label=name, benchmark=BENCHMARKS[name], parameters=dict(BENCHMARKS[name].parameters))


def asked(name: str) -> GuestTask:
    one = task(name)
    return GuestTask(one, in_guest(one.benchmark.invocation(one.parameters, FactBook({})), TOOLS))


def exec_reply(number: int, stdout: str, status: int = 0) -> dict[str, Any]:
    told = {"exit": {"status": status}, "timed_out": False, "stdout": stdout, "stderr": "", "wall_ns": 5}
    return {"id": number, "ok": {**told, "stdout_total_bytes": len(stdout), "stderr_total_bytes": 0}}


def test_programs_are_brought_with_what_hands_over_their_files() -> None:
    places: Any = Programs(hackbench="/usr/bin/hackbench", cyclictest="/opt/cyclictest", cat="/bin/cat")
    assert tools_of([task("agent-lock")], places) == {}
    assert tools_of([task("hackbench-pipe-thread")], places) == {"hackbench": "/usr/bin/hackbench"}
    assert tools_of([task("cyclictest-other")], places) == {"cyclictest": "/opt/cyclictest", "cat": "/bin/cat"}
    without: Any = Programs(**{"apt-get": "/usr/bin/apt-get"})
    with pytest.raises(BadInput, match="cannot run hackbench-pipe-thread in guests: hackbench is not") as caught:
        tools_of([task("hackbench-pipe-thread")], without)
    assert caught.value.hint == "sudo apt install rt-tests"
    nothing: Any = Programs()
    for benchmark, hint in (
        ("hackbench-pipe-thread", "install hackbench by hand"),
        ("synthmark-voicemark", "ktrial tools get synthmark"),
    ):
        with pytest.raises(BadInput) as caught:
            tools_of([task(benchmark)], nothing)
        assert caught.value.hint == hint


def test_the_agent_is_asked_for_the_run_and_then_for_its_files() -> None:
    job, files = job_of(NOTHING, [asked("cyclictest-other"), asked("agent-lock")], None, EXACT, TOOLS)
    run, read, load = [msgspec.json.decode(line) for line in files["/ktrial/loads"].splitlines()]
    assert (run["do"], run["argv"][0], run["directory"]) == ("exec", "/usr/bin/cyclictest", "/ktrial/runs/3")
    assert run["environment"]["HOME"] == "/ktrial/runs/3"
    assert (read["argv"], read["directory"]) == (["/bin/cat", "out.json"], "/ktrial/runs/3")
    assert (load["do"], load["id"]) == ("load", 4)
    assert sorted(name for name in files if name.endswith("/")) == ["/ktrial/runs/3/"]
    # Its threads want real-time priorities, which are the guest's root's.
    assert [program.user for program in job.programs] == [None, None]
    assert job.settle_s == 12
    job, _ = job_of(NOTHING, [asked("hackbench-pipe-thread")], None, EXACT, TOOLS)
    assert job.programs[1].user == 1000
    assert environment_of(asked("hackbench-pipe-thread").invocation)["HOME"] == "{directory}"
    assert environment_of(asked("agent-lock").invocation) == {}


def test_what_a_program_printed_and_left_is_its_output() -> None:
    replies = [
        {"id": 1, "ok": {"facts": {}}},
        exec_reply(3, "table"),
        exec_reply(1_000_300, "{}"),
        exec_reply(4, "", status=7),
        exec_reply(1_000_400, "", status=1),
    ]
    run = GuestRun(
        shape=EXACT,
        emulator="QEMU",
        begun=None,
        ended=None,
        stdout=b"".join(msgspec.json.encode(one) + b"\n" for one in replies),
        stderr=b"",
        console=b"",
        wall_s=1.0,
    )
    good, bad = came_of(run, [asked("cyclictest-other"), asked("cyclictest-fifo")]).outputs
    assert (good.stdout, good.exit_status, good.files, good.wall_ns) == (b"table", 0, {"out.json": b"{}"}, 5)
    assert (bad.exit_status, bad.files) == (7, {})
