# SPDX-License-Identifier: Apache-2.0
"""Limits of a control group deep within others hold a program up in a guest: named, and the proposal is carried out.

The guests are exact: their time counts instructions. In a second boot the agent applies the proposal and reverts it,
and what the proposed trial starts runs in the group.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from ktrial.bench.guest_tools import Shape
from ktrial.recordings.model import Recording
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.plans.resolve import make_plan
from ktrial.tuning.plans.wire import wire_plan
from ktrial.watch.diagnosis.diagnose import diagnose
from ktrial.watch.diagnosis.model import Proposal
from ktrial.watch.diagnosis.proposals import with_proposals
from ktrial.watch.diagnosis.symptoms import load_symptoms
from tests.support.guest_recordings import recorded_in_guest, run_in_guest, with_frames
from tests.support.machine import FakeMachine
from tests.support.planted_stutters import named, told

pytestmark = [pytest.mark.xdist_group("guest"), pytest.mark.timeout(900)]
PROGRAM = Path(__file__).parents[1] / "support" / "stutter_program.c"
SECONDS = 40
GROUP = "user.slice/user-1000.slice/user@1000.service/app.slice/game.scope"
#: Groups within groups, each of which hands its controllers on.
GROUPS = f"""
cd /sys/fs/cgroup
for part in {GROUP.replace("/", " ")}; do
    echo +memory > cgroup.subtree_control && echo +cpu > cgroup.subtree_control && mkdir $part && cd $part || exit 4
done
"""
RECORDED = """
{before}
sh -c 'echo $$ > cgroup.procs; exec {program} frames {frames}' > /tmp/frames &
frames=$!
{beside}
sleep 5
(echo '{{"id":1,"do":"watch","limit_s":{seconds},"process":'$frames'}}'; sleep {limit}) |
    ktrial-agent serve --role root > /tmp/told
cat /tmp/frames; echo; cat /tmp/told
"""
APPLIED = """
echo {old} > {file}
cd /
(echo {apply}; sleep 3; cat {file} > /tmp/then; {started} > /tmp/frames & sleep 3; cat /proc/$!/cgroup > /tmp/where
 kill $!; echo '{revert}'; sleep 3) | ktrial-agent serve --role root > /tmp/told
cat /tmp/then {file} /tmp/where; wc -l < /tmp/frames; echo; cat /tmp/told
"""
#: Pages of programs are compressed, so that a group can be made to hold fewer.
SWAP = """
echo 256M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0 || exit 5
echo 25165824 > memory.{limit}
"""
#: Who runs in the group of the frames.
BESIDE = "sh -c 'echo $$ > cgroup.procs; exec {{program}} {}' &"


class Plant(NamedTuple):
    """What must be named and proposed; what is set up, what the frames do, and who holds them up."""

    cause: str
    knob: str
    before: str
    frames: str
    beside: str


PLANTED = {
    "memory_limit": Plant(
        "memcg-limit",
        "cgroup:memory.high",
        SWAP.format(limit="high"),
        "memory 4",
        BESIDE.format("hog 2 40"),
    ),
    "memory_limit_that_kills": Plant(
        "memcg-limit",
        "cgroup:memory.max",
        SWAP.format(limit="max"),
        "memory 4",
        BESIDE.format("hog 2 40"),
    ),
    "cpu_quota": Plant("cpu-quota", "cgroup:cpu.max", "echo '20000 100000' > cpu.max", "cpu", BESIDE.format("burn")),
}


def record(program: Path, plant: Plant) -> Recording:
    """What the agent in the guest has recorded, with the frames that the program told."""
    script = GROUPS + RECORDED.format(
        before=plant.before,
        program=program.name,
        frames=plant.frames,
        beside=plant.beside.replace("{program}", program.name),
        seconds=SECONDS,
        limit=SECONDS + 10,
    )
    shape = Shape(mode="exact", memory_bytes=1 << 30, cpus=1)
    recording, lines, answers = recorded_in_guest(script, shape, 800, (str(program),), ("zram",))
    started = re.search(r"\"started_ns\":\s*(\d+)", answers)
    assert started is not None, answers[-500:]
    return with_frames(recording, lines, int(started[1]))


def as_left(recording: Recording) -> FakeMachine:
    """The guest as it was: the limits of its groups."""
    files = {}
    for one in recording.groups:
        for name, text in (("memory.high", one.memory_high), ("memory.max", one.memory_max), ("cpu.max", one.cpu_max)):
            if text is not None:
                files[f"/sys/fs/cgroup{one.path}/{name}"] = f"{text}\n"
    facts = {"memory.total": 1 << 30, "memory.page_bytes": 4096, "cpu.threads": 1, "cpu.online": [0]}
    return FakeMachine(files, facts)


@pytest.mark.parametrize("name", PLANTED)
def test_a_limit_of_the_programs_group_is_named_and_its_proposal_holds(name: str, tmp_path: Path) -> None:
    program = tmp_path / "stutters"
    subprocess.run(["cc", "-O2", "-static", "-o", str(program), str(PROGRAM)], check=True)
    plant = PLANTED[name]
    recording = record(program, plant)
    assert recording.groups[0].path == f"/{GROUP}"
    catalog = load_catalog()
    symptoms = load_symptoms(catalog)
    machine = as_left(recording)
    diagnosis = diagnose(recording, symptoms)
    assert named(diagnosis) == [plant.cause], told(diagnosis)
    found, left_out = with_proposals(diagnosis, symptoms, recording, machine, catalog)
    assert [one.knob for one in found.proposals] == [f"{plant.knob}@{GROUP}"], left_out
    carried_out(found.proposals[0], machine, program)


def carried_out(proposal: Proposal, machine: FakeMachine, program: Path) -> None:
    """Another boot: its agent applies the proposal to the group and reverts it; the trial's program runs in there."""
    until = proposal.try_line.index("--")
    options, command = proposal.try_line[3:until], proposal.try_line[until + 1 :]
    plan, _ = make_plan(machine, load_catalog(), (proposal.try_line[2],), allow_dangerous="--yes-dangerous" in options)
    apply = {"id": 2, "do": "apply", "plan": wire_plan(plan, {"kind": "keep"})}
    script = GROUPS + APPLIED.format(
        old=shlex.quote(proposal.now or ""),
        file=f"/sys/fs/cgroup/{GROUP}/{proposal.knob.partition(':')[2].partition('@')[0]}",
        apply=shlex.quote(json.dumps(apply, default=lambda value: value.decode())),
        revert='{"id":3,"do":"revert","select":"all"}',
        started=shlex.join(command),
    )
    shape = Shape(mode="exact", memory_bytes=1 << 29, cpus=1)
    printed, answers = run_in_guest(script, shape, 400, (str(program),))
    then, now, where, frames = printed.splitlines()
    assert (then, now, where) == (proposal.value, proposal.now, f"0::/{GROUP}"), answers
    assert int(frames) > 20, "the program told no frames"
