# SPDX-License-Identifier: Apache-2.0
"""Finds programs that benchmarks need in a trial's guests, and builds the requests to the guest's agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.bench.agent_output import exec_output
from ktrial.bench.availability import PACKAGE_PROGRAMS, install_command, is_program, package_tool
from ktrial.bench.benchmark import DIRECTORY, PINNED, Benchmark, Invocation, RawOutput
from ktrial.bench.guest_tools import guest_path
from ktrial.bench.suite import SuiteLoad, Task
from ktrial.bench.tool_files import recipe_for
from ktrial.guests.agent_replies import Reply
from ktrial.kit.errors import BadInput
from ktrial.kit.json_bytes import wire_bytes
from ktrial.machine.facts import FactBook

if TYPE_CHECKING:
    from ktrial.bench.run.ports import Executor

#: Program that prints the files which other programs leave.
_CAT = "cat"
#: Numbers of requests for files, which follow the requests of all runs.
_FIRST_FILE, _MOST_FILES = 1_000_000, 100
#: The folder that contains a folder for each run of a boot.
RUNS = "/ktrial/runs"
_CAPTURE_BYTES = 1 << 20
_FILE_LIMIT_S = 60.0


def tools_of(tasks: Sequence[Task], executor: Executor) -> dict[str, str]:
    """Return this machine's paths of the programs that benchmarks need in guests.

    Raise BadInput if a program is missing.
    """
    wanted = {name: task.benchmark for task in tasks if is_program(task.benchmark) for name in task.benchmark.needs}
    if not wanted:
        return {}
    leaving = any(
        task.benchmark.invocation(task.parameters, FactBook({})).files for task in tasks if is_program(task.benchmark)
    )
    found = executor.programs([*wanted, *([_CAT] if leaving else []), *PACKAGE_PROGRAMS])
    for name, benchmark in wanted.items():
        if found[name] is None:
            hint = install_command(benchmark.packages, package_tool(found))
            if hint is None:
                recipe = recipe_for([name])
                hint = f"install {name} by hand" if recipe is None else f"ktrial tools get {recipe.name}"
            raise BadInput(f"cannot run {benchmark.name} in guests: {name} is not installed here", hint=hint)
    return {name: place for name in (*wanted, _CAT) if (place := found.get(name)) is not None}


def looked_for(benchmarks: Iterable[Benchmark], load: SuiteLoad | None = None) -> tuple[str, ...]:
    """Return the programs to find on this machine: programs for guests, and package managers to install them."""
    wanted = {name: None for one in benchmarks if is_program(one) for name in one.needs if "/" not in name}
    if load is not None and load.use == "stress-ng":
        wanted["stress-ng"] = None
    return (*wanted, *PACKAGE_PROGRAMS) if wanted else ()


def in_guest(invocation: Invocation, tools: Mapping[str, str]) -> Invocation:
    if not invocation.argv:
        return invocation
    first, *rest = invocation.argv
    return msgspec.structs.replace(invocation, argv=(guest_path(tools[first]), *rest))


def needs_root(invocation: Invocation) -> bool:
    return invocation.realtime_priority is not None


def environment_of(invocation: Invocation) -> dict[str, str]:
    """Return all environment variables of a program; DIRECTORY stands for the folder of the run."""
    return {**PINNED, "HOME": DIRECTORY, "TMPDIR": DIRECTORY, **invocation.environment} if invocation.argv else {}


def folders_of(number: int) -> dict[str, bytes]:
    """Return the private folder of a run, as a member of the guest's file system."""
    return {f"{RUNS}/{number}/": b""}


def requests_of(number: int, invocation: Invocation, tools: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the requests to the guest's agent: first the run, then each file that it leaves."""
    directory = f"{RUNS}/{number}"
    common = {"do": "exec", "directory": directory, "capture_bytes": _CAPTURE_BYTES}
    run: dict[str, Any] = {"id": number, **common, "limit_s": invocation.limit_s}
    run["argv"] = [word.replace(DIRECTORY, directory) for word in invocation.argv]
    given = environment_of(invocation).items()
    run["environment"] = {name: value.replace(DIRECTORY, directory) for name, value in given}
    if invocation.cpus:
        run["cpus"] = list(invocation.cpus)
    if invocation.stdin:
        run["stdin"] = wire_bytes(invocation.stdin)
    hand_over = {**common, "environment": dict(PINNED), "limit_s": _FILE_LIMIT_S}
    files = [
        {"id": _file_number(number, at), **hand_over, "argv": [guest_path(tools[_CAT]), name]}
        for at, name in enumerate(invocation.files)
    ]
    return [run, *files]


def _file_number(number: int, at: int) -> int:
    return _FIRST_FILE + number * _MOST_FILES + at


def output_of(
    replies: Mapping[int, Reply], number: int, answer: Mapping[str, Any], invocation: Invocation
) -> RawOutput:
    raw = exec_output(answer)
    files: dict[str, bytes] = {}
    for at, name in enumerate(invocation.files):
        reply = replies.get(_file_number(number, at))
        if reply is None or reply.ok is None:
            continue
        read = exec_output(reply.ok)
        if read.exit_status == 0:
            files[name] = read.stdout
            raw = msgspec.structs.replace(raw, cut=raw.cut or read.cut)
    return msgspec.structs.replace(raw, files=files)
