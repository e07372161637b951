# SPDX-License-Identifier: Apache-2.0
"""One visit of a guest trial: the job for its boot, and the results of the boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ktrial.bench.agent_output import load_output
from ktrial.bench.benchmark import DIRECTORY, AgentLoad, Invocation, RawOutput
from ktrial.bench.guest_tools import GuestRun, GuestTool, Job, Shape, status_of
from ktrial.bench.suite import SuiteLoad, Task
from ktrial.guests.agent_replies import Reply, read_replies
from ktrial.guests.agreement import settle_s
from ktrial.kit.errors import BadRun
from ktrial.machine.transactions import Applied, decode_reply
from ktrial.trial.arms.arms import refusal_of
from ktrial.trial.guests.programs import folders_of, needs_root, output_of, requests_of
from ktrial.tuning.plans.model import Plan
from ktrial.tuning.plans.wire import wire_plan

#: Request numbers; the requests of loads have the numbers after these.
_FACTS, _APPLY, _FIRST_LOAD = 1, 2, 3
_ROOT_FILE, _USER_FILE, _BESIDE_FILE = "/ktrial/settings", "/ktrial/loads", "/ktrial/beside"
_USER = 1000
#: The folder for the files of loads: on the disk, if the guest has one.
DISK_PLACE = "/var/tmp"
_SHOWN_BYTES = 200
SEED = "seed"


class GuestTask(NamedTuple):
    """One run: a benchmark with its parameters, including the seed if the benchmark takes a seed."""

    task: Task
    invocation: Invocation


class Came(NamedTuple):
    """The result of a visit: the output of each requested run, the guest's kernel release, and the ID of its boot."""

    outputs: tuple[RawOutput, ...]
    kernel_release: str | None
    boot_id: str | None


def asked_of(tasks: Sequence[Task], workloads: int, invocation_of: Any) -> tuple[GuestTask, ...]:
    """Return a request for every benchmark and seed; `invocation_of` returns the invocation of a task."""
    found = []
    for seed in range(1, workloads + 1):
        for task in tasks:
            own = {**task.parameters, SEED: seed} if SEED in task.parameters else task.parameters
            seeded = msgspec.structs.replace(task, parameters=own)
            found.append(GuestTask(seeded, invocation_of(seeded)))
    return tuple(found)


def needs_disk(parameters: Mapping[str, Any]) -> bool:
    """Return whether the load's files need a file system from which the kernel can reclaim memory."""
    return "directory" in parameters


def job_of(
    plan: Plan,
    asked: Sequence[GuestTask],
    background: SuiteLoad | None,
    shape: Shape,
    tools: Mapping[str, str],
) -> tuple[Job, dict[str, bytes]]:
    """Return the guest's job and files; `tools` maps programs to their paths on this machine."""
    settings: list[dict[str, Any]] = [{"id": _FACTS, "do": "facts", "only": ["boot.id", "kernel.release"]}]
    if not plan.empty:
        settings.append({"id": _APPLY, "do": "apply", "plan": wire_plan(plan, {"kind": "keep"})})
    numbered = list(enumerate(asked, start=_FIRST_LOAD))
    runs = [request for number, one in numbered for request in _requests(number, one.invocation, tools)]
    files = {_ROOT_FILE: _lines(settings), _USER_FILE: _lines(runs)}
    for number, one in numbered:
        if one.invocation.load is None:
            files |= folders_of(number)
    beside: tuple[GuestTool, ...] = ()
    if background is not None:
        files[_BESIDE_FILE] = _lines([_load(_FIRST_LOAD, background.invocation(shape.cpus))])
        beside = (_batch("user", _BESIDE_FILE, _USER),)
    user = None if any(needs_root(one.invocation) for one in asked) else _USER
    measured = msgspec.structs.replace(_batch("user", _USER_FILE, user), beside=beside)
    return Job(programs=(_batch("root", _ROOT_FILE, None), measured), settle_s=settle_s(shape.mode)), files


def _batch(role: str, file: str, user: int | None) -> GuestTool:
    return GuestTool(argv=("/usr/bin/ktrial-agent", "batch", "--role", role, file), user=user)


def _requests(number: int, invocation: Invocation, tools: Mapping[str, str]) -> list[dict[str, Any]]:
    return requests_of(number, invocation, tools) if invocation.load is None else [_load(number, invocation)]


def _load(number: int, invocation: Invocation) -> dict[str, Any]:
    load = load_of(invocation)
    placed = {
        name: value.replace(DIRECTORY, DISK_PLACE) if isinstance(value, str) else value
        for name, value in load.parameters.items()
    }
    found: dict[str, Any] = {"id": number, "do": "load", "load": load.name, "parameters": placed}
    found["limit_s"] = invocation.limit_s
    if invocation.cpus:
        found["cpus"] = list(invocation.cpus)
    return found


def load_of(invocation: Invocation) -> AgentLoad:
    """Return the agent's load in an invocation, which must have one of the agent's loads."""
    assert invocation.load is not None, "whatever is not a load is a program"
    return invocation.load


def _lines(requests: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(one) + b"\n" for one in requests)


def came_of(run: GuestRun, asked: Sequence[GuestTask]) -> Came:
    """Return the output of each requested run. If the boot failed, every run failed."""
    release = run.begun.release if run.begun is not None else None
    try:
        replies = read_replies(run.stdout)
    except BadRun as error:
        return Came((RawOutput(failed=error.message),) * len(asked), release, None)
    facts = replies.get(_FACTS)
    boot_id = _fact(facts, "boot.id")
    refused = _refused(replies.get(_APPLY)) or _failed(run)
    outputs = tuple(
        _output(replies, number, one.invocation, refused) for number, one in enumerate(asked, start=_FIRST_LOAD)
    )
    return Came(outputs, release, boot_id)


def _fact(reply: Reply | None, name: str) -> str | None:
    told = (reply.ok or {}).get("facts", {}).get(name, {}) if reply is not None else {}
    value = told.get("value") if isinstance(told, dict) else None
    return value if isinstance(value, str) else None


def _refused(reply: Reply | None) -> str | None:
    """Return why the settings are not in force; None if they are, or if there are no settings."""
    if reply is None:
        return None
    if reply.error is not None:
        return f"the agent refused the arm's settings ({reply.error.kind}): {reply.error.message}"
    said = refusal_of(decode_reply("apply", reply.ok or {}, Applied))
    return None if said is None else f"the arm's settings are not in force: {said}"


def _failed(run: GuestRun) -> str | None:
    """Return why the guest or its run failed; None if neither failed."""
    if run.failure is not None:
        return f"the guest failed: {run.failure}"
    ended = run.ended
    if ended is None or ended.status == 0:
        return None
    said = run.stderr[-_SHOWN_BYTES:].decode(errors="replace").strip()
    how = ended.unstarted or f"status {status_of(ended)}"
    return f"the agent ended with {how}{': ' if said else ''}{said}"


def _output(replies: Mapping[int, Reply], number: int, invocation: Invocation, refused: str | None) -> RawOutput:
    """Return the output of a guest's run in the form of an executor on a machine."""
    reply = replies.get(number)
    if refused is not None:
        return RawOutput(failed=refused)
    if reply is None:
        return RawOutput(failed="the agent did not answer")
    if reply.error is not None:
        hint = f"; {reply.error.hint}" if reply.error.hint else ""
        return RawOutput(failed=f"the agent failed ({reply.error.kind}): {reply.error.message}{hint}")
    answer = reply.ok or {}
    return load_output(answer) if invocation.load is not None else output_of(replies, number, answer, invocation)
