# SPDX-License-Identifier: Apache-2.0
"""A guest of 1 GiB is recorded by the agent in it, and diagnosed here: what is planted is named, and nothing else.

The guests are exact: their time counts instructions, so that no other work on this machine holds up their frames.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from ktrial.bench.guest_tools import Shape
from ktrial.recordings.model import Recording
from tests.support.guest_recordings import recorded_in_guest, with_frames
from tests.support.planted_stutters import diagnosed, named, shuffled, told

pytestmark = [pytest.mark.xdist_group("guest"), pytest.mark.timeout(900)]
SUPPORT = Path(__file__).parents[1] / "support"
SOURCES = ("stutter_program", "nvme_target")
SECONDS = 40
#: What the guest runs: what is set up, the frames, who holds them up, and the agent.
SCRIPT = """
{before}
{program} frames {frames} > /tmp/frames &
frames=$!
{beside}
sleep 5
(echo '{{"id":1,"do":"watch","limit_s":{seconds},"process":'$frames'}}'; sleep {limit}) |
    ktrial-agent serve --role root > /tmp/told
cat /tmp/frames; echo; cat /tmp/told
"""
#: A file system in memory, for which little may wait to be written, and which takes 2 MiB a second. A throttle lets the
#: requests of a tenth of a second through at once, and the device works them off one by one: at 8 MiB a second the last
#: of twenty took over 5 ms, a slow device.
SLOW_TO_WRITE = """
truncate -s 160M /tmp/image && mkfs.ext4 -q /tmp/image && mkdir /tmp/m && mount -o loop /tmp/image /tmp/m || exit 3
echo 64 > /sys/block/loop0/queue/max_sectors_kb
echo 1048576 > /proc/sys/vm/dirty_bytes; echo 524288 > /proc/sys/vm/dirty_background_bytes
mkdir /tmp/b && mount -t cgroup -o blkio none /tmp/b || exit 4
echo 7:0 2097152 > /tmp/b/blkio.throttle.write_bps_device || exit 4
"""
#: dm-delay passes requests on as they are, it has none of its own to be seen: so a loop device lies above it.
DELAYED = """
truncate -s 16M /tmp/image && losetup /dev/loop0 /tmp/image || exit 3
dmsetup --noudevsync create slow --table "0 32768 delay /dev/loop0 0 0" || exit 4
/usr/sbin/losetup --direct-io=on /dev/loop1 /dev/dm-0 || exit 5
"""
#: Now and then requests are delayed by 150 ms.
DELAYS = """
delayed_by() {
    echo "0 32768 delay /dev/loop0 0 $1" | dmsetup --noudevsync reload slow
    dmsetup --noudevsync suspend slow; dmsetup --noudevsync resume slow
}
(while :; do usleep $((1000000 + RANDOM * 30)); delayed_by 150; usleep 100000; delayed_by 0; done) &
"""
#: Pages of programs are compressed, which takes time, and kswapd begins late.
SWAP = """
echo 1G > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null && swapon /dev/zram0 || exit 3
echo 2048 > /proc/sys/vm/min_free_kbytes
"""
#: A drive that sleeps as the kernel tells it to: after 100 ms, and then it needs 9.5 ms for a request.
SLEEPER = """
ifconfig lo up && {sleeper} || exit 3
where=transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=nqn.2026-01.test:sleeper
echo $where,nr_io_queues=1 > /dev/nvme-fabrics || exit 4
for try in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/nvme0n1 ] || sleep 1; done
"""
#: What is proposed against it.
AWAKE = "echo 0 > /sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us || exit 5\n"


class Plant(NamedTuple):
    """What must be named; what is set up, what the frames do, who holds them up, how long it is watched, what is late.

    A hog takes memory every three seconds: of 40 seconds chance can tell too little.
    """

    cause: str | None
    before: str
    frames: str
    beside: str
    seconds: int = SECONDS
    limit_s: float | None = None


PLANTED = {
    "sleeps": Plant(None, "", "sleeps", ""),
    "higher_priority": Plant("scheduler-delay", "", "cpu", "{program} spin &"),
    "slow_device": Plant("device-latency", DELAYED, "device /dev/loop1", DELAYS),
    "dirty_pages": Plant("dirty-throttling", SLOW_TO_WRITE, "file /tmp/m/log", "{program} write /tmp/m/much 2 &"),
    "memory_hog": Plant("direct-reclaim", SWAP, "memory 4", "{program} hog 720 155 &", 90),
    "drive_asleep": Plant("nvme-power-exit", SLEEPER, "reads /dev/nvme0n1", "", limit_s=0.055),
    "drive_awake": Plant(None, SLEEPER + AWAKE, "reads_and_sleeps /dev/nvme0n1", "", limit_s=0.055),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recording]:
    """Each is recorded once."""
    folder = tmp_path_factory.mktemp("program")
    program, sleeper = (folder / source for source in SOURCES)
    for made in (program, sleeper):
        source = SUPPORT / f"{made.name}.c"
        subprocess.run(["cc", "-O2", "-static", "-o", str(made), str(source)], check=True)
    return cache(lambda name: record(program, sleeper, PLANTED[name]))


def record(program: Path, sleeper: Path, plant: Plant) -> Recording:
    """What the agent in the guest has recorded, with the frames that the program told."""
    script = SCRIPT.format(
        before=plant.before.replace("{sleeper}", sleeper.name),
        program=program.name,
        frames=plant.frames,
        beside=plant.beside.replace("{program}", program.name),
        seconds=plant.seconds,
        limit=plant.seconds + 10,
    )
    shape = Shape(mode="exact", memory_bytes=1 << 30, cpus=1)
    tools = ("mkfs.ext4", "dmsetup", "losetup", str(program), str(sleeper))
    modules = ("loop", "ext4", "dm-delay", "zram", "nvme-tcp")
    recording, lines, answers = recorded_in_guest(script, shape, 800, tools, modules)
    started = re.search(r"\"started_ns\":\s*(\d+)", answers)
    assert started is not None, answers[-500:]
    return with_frames(recording, lines, int(started[1]))


@pytest.mark.parametrize("name", PLANTED)
def test_a_cause_planted_in_a_guest_is_named_alone(name: str, recorded: Callable[[str], Recording]) -> None:
    wanted, limit_s = PLANTED[name].cause, PLANTED[name].limit_s
    recording = recorded(name)
    found = diagnosed(recording, limit_s)
    assert found.stutters >= 5, told(found)
    assert named(found) == ([] if wanted is None else [wanted]), told(found)
    moved = [named(diagnosed(shuffled(recording, seed), limit_s)) for seed in range(10)]
    assert sum(map(bool, moved)) <= 3, moved
