# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.guest_tools import GuestRun, GuestStart, ProgramEnded, Shape
from ktrial.bench.suite import Task
from ktrial.machine.facts import FactBook
from ktrial.trial.guests.guest_visit import GuestTask, came_of
from tests.support.machine import step_told, transaction_told

RUN = GuestRun(
    shape=Shape(mode="exact", memory_bytes=1 << 29, cpus=1),
    emulator="QEMU",
    begun=GuestStart(
        release="6.12", version="#1", architecture="x86_64", command_line="", uptime_s=1.0, cpus=1, memory_bytes=1
    ),
    ended=ProgramEnded(status=0),
    stdout=b"",
    stderr=b"",
    console=b"",
    wall_s=1.0,
)
SPIN = all_benchmarks()["agent-spin"]
OWN = GuestTask(Task(label="spin", benchmark=SPIN, parameters={}), SPIN.invocation({}, FactBook({})))
FACTS = {"id": 1, "ok": {"facts": {"boot.id": {"value": "b"}}}}
APPLIED = {"id": 2, "ok": {"transaction": 1, "state": "applied", "steps": []}}
GOOD = {"id": 3, "ok": {"load": "spin", "wall_ns": 5}}


def came(*replies: dict[str, Any], **more: Any) -> list[str | None]:
    """Why each of two runs failed."""
    said = b"".join(msgspec.json.encode(one) + b"\n" for one in replies)
    run = msgspec.structs.replace(RUN, stdout=said, **more)
    found = came_of(run, (OWN, OWN))
    assert (found.kernel_release, len(found.outputs)) == ("6.12", 2)
    return [one.failed for one in found.outputs]


def test_a_good_visit_has_an_output_for_each_run_and_knows_its_boot() -> None:
    assert came(FACTS, APPLIED, GOOD, {**GOOD, "id": 4}) == [None, None]
    said = b"".join(msgspec.json.encode(one) + b"\n" for one in (FACTS, GOOD))
    found = came_of(msgspec.structs.replace(RUN, stdout=said), (OWN,))
    assert (found.boot_id, found.outputs[0].wall_ns) == ("b", 5)
    assert msgspec.json.decode(found.outputs[0].stdout) == GOOD["ok"]


@pytest.mark.parametrize(
    "replies, more, told",
    [
        ([FACTS, GOOD], {}, "the agent did not answer"),
        (
            [FACTS, GOOD, {"id": 4, "error": {"kind": "bad-request", "message": "no"}}],
            {},
            "the agent failed (bad-request): no",
        ),
        (
            [FACTS, {"id": 2, "error": {"kind": "conflict", "message": "stale"}}, GOOD],
            {},
            "the agent refused the arm's settings (conflict): stale",
        ),
        (
            [
                FACTS,
                {
                    "id": 2,
                    "ok": transaction_told(state="rolled-back", steps=[step_told(outcome="failed", message="EINVAL")]),
                },
            ],
            {},
            "the arm's settings are not in force: /p: EINVAL",
        ),
        ([FACTS], {"failure": "the time limit of 5 s passed"}, "the guest failed: the time limit"),
        ([FACTS], {"ended": ProgramEnded(status=1), "stderr": b"ktrial-agent: x"}, "status 1: ktrial-agent: x"),
        ([FACTS, {"id": None, "ok": {}}], {}, "a reply with a number"),
    ],
)
def test_what_went_wrong_is_told_of_the_runs_that_it_cost(
    replies: list[dict[str, Any]], more: dict[str, Any], told: str
) -> None:
    failed = came(*replies, **more)
    assert failed[1] is not None
    assert told in failed[1]
