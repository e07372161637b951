# SPDX-License-Identifier: Apache-2.0
"""A guest of 1 GiB is recorded by the agent in it, and diagnosed here: who writes too much for a slow device is named.

Memory that runs short is planted on this machine (tests/alone): an emulated guest reclaims clean pages within a frame.
"""

from __future__ import annotations

import re
import subprocess
from array import array
from pathlib import Path

import msgspec
import pytest

from ktrial.domain.guest import Shape
from ktrial.domain.recording import Frames, Recording, Source
from tests.support.guest_recordings import recorded_in_guest
from tests.support.planted_stutters import diagnosed, named, shuffled

pytestmark = [pytest.mark.xdist_group("guest"), pytest.mark.timeout(900)]
PROGRAM = Path(__file__).parents[1] / "support" / "stutter_program.c"
SECONDS = 120
#: What the guest runs: a file system in memory, for which little may wait to be written, and which takes 2 MiB a
#: second; the frames, who holds them up, and the agent. A throttle lets the requests of a tenth of a second through at
#: once, and the device works them off one by one: at 8 MiB a second the last of twenty took over 5 ms, a slow device.
SCRIPT = """
truncate -s 160M /tmp/image && mkfs.ext4 -q /tmp/image && mkdir /tmp/m && mount -o loop /tmp/image /tmp/m || exit 3
echo 64 > /sys/block/loop0/queue/max_sectors_kb
echo 1048576 > /proc/sys/vm/dirty_bytes; echo 524288 > /proc/sys/vm/dirty_background_bytes
mkdir /tmp/b && mount -t cgroup -o blkio none /tmp/b || exit 4
echo 7:0 2097152 > /tmp/b/blkio.throttle.write_bps_device || exit 4
{program} frames /tmp/m/log > /tmp/frames &
frames=$!
{program} write /tmp/m/much 2 &
sleep 5
(echo '{{"id":1,"do":"watch","limit_s":{seconds},"process":'$frames'}}'; sleep {limit}) |
    ktrial-agent serve --role root > /tmp/told
cat /tmp/frames; echo; cat /tmp/told
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, linked statically."""
    made = tmp_path_factory.mktemp("program") / "stutters"
    subprocess.run(["cc", "-O2", "-static", "-o", str(made), str(PROGRAM)], check=True)
    return made


def recorded(program: Path) -> Recording:
    """What the agent in the guest has recorded, with the frames that the program told."""
    script = SCRIPT.format(program=program.name, seconds=SECONDS, limit=SECONDS + 10)
    # One CPU: an emulator that runs two in turn leaves one of them in an interrupt for milliseconds.
    shape = Shape(mode="emulated", memory_bytes=1 << 30, cpus=1)
    tools, modules = ("mkfs.ext4", str(program)), ("loop", "ext4")
    recording, lines, answers = recorded_in_guest(script, shape, 800, tools, modules)
    started = re.search(r"\"started_ns\":\s*(\d+)", answers)
    assert started is not None, answers[-500:]
    return _with_frames(recording, lines, int(started[1]))


def _with_frames(recording: Recording, lines: str, started_ns: int) -> Recording:
    rows = [tuple(map(int, line.split())) for line in lines.splitlines()]
    told = [((end_ns - started_ns) / 1e9, took_ns / 1e9) for end_ns, took_ns in rows]
    inside = [(end_s, took_s) for end_s, took_s in told if 0 <= end_s <= recording.length_s]
    frames = Frames(
        kind="frame",
        source="frames",
        ends_s=array("d", (end_s for end_s, _ in inside)),
        durations_s=array("d", (took_s for _, took_s in inside)),
    )
    sources = (*recording.sources, Source(name="frames", state="active", seen=len(inside)))
    return msgspec.structs.replace(recording, frames=frames, sources=sources)


def test_a_writer_that_holds_up_others_is_named_alone(program: Path) -> None:
    recording = recorded(program)
    found = diagnosed(recording)
    assert found.stutters >= 5
    assert named(found) == ["dirty-throttling"]
    assert sum(bool(named(diagnosed(shuffled(recording, seed)))) for seed in range(10)) <= 3
