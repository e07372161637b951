# SPDX-License-Identifier: Apache-2.0
"""A program with frames, and programs that delay it at times: `python -I -S stutter_programs.py ROLE WORDS...`.

It needs only the standard library, so that it can run where ktrial is not installed.
"""

from __future__ import annotations

import fcntl
import itertools
import mmap
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

PERIOD_S = 0.02
STALL_S = 0.08
#: Seconds that a hog works, and seconds from one start to the next.
HOG_S, HOG_EVERY_S = 4.0, 30.0
_FREEZE, _THAW = 0xC0045877, 0xC0045878
_MADV_NOHUGEPAGE = 15
_PAGE = 4096
_LOG = 32 << 20


def at_random_times(seconds: float, seed: int = 7) -> Iterator[None]:
    """Yield at moments without a rhythm."""
    drawn = random.Random(seed)
    end_s = time.monotonic() + seconds
    while (wait_s := drawn.uniform(0.7, 2.1)) and time.monotonic() + wait_s < end_s:
        time.sleep(wait_s)
        yield


def ahead_of_others() -> None:
    """Run at a real-time priority, so that other programs on the machine do not delay this one."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))


def frames(log: str, seconds: str, work: str, *words: str) -> None:
    """Make frames, and write a line `frame <end on the monotonic clock> <length in ms>` to `log` for each."""
    do = WORK[work](*words)
    lines = os.open(log, os.O_WRONLY)
    begin_s = last_s = due_s = time.monotonic()
    while last_s - begin_s < float(seconds):
        due_s = max(due_s + PERIOD_S, last_s)
        time.sleep(max(due_s - time.monotonic(), 0.0))
        do()
        now_s = time.monotonic()
        os.write(lines, b"frame %.6f %.6f\n" % (now_s, 1e3 * (now_s - last_s)))
        last_s = now_s


def _sleeps() -> Callable[[], None]:
    ahead_of_others()
    drawn = random.Random(7)
    return lambda: time.sleep(STALL_S if drawn.random() < PERIOD_S / 1.4 else 0.0)


def _on_a_cpu(cpu: str) -> Callable[[], None]:
    os.sched_setaffinity(0, {int(cpu)})
    return lambda: None


def _writes_a_device(device: str) -> Callable[[], None]:
    ahead_of_others()
    file = os.open(device, os.O_WRONLY | os.O_DIRECT)
    block = mmap.mmap(-1, _PAGE)
    return lambda: _all(os.pwrite(file, block, 0))


def _writes_a_file(name: str) -> Callable[[], None]:
    # This is not a real-time priority, at which the kernel allows more dirty pages than usual.
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    block = bytes(16 * _PAGE)
    places = itertools.cycle(range(0, _LOG, len(block)))
    # The place changes: only clean pages count as dirtied, and the kernel delays only programs that dirty pages.
    return lambda: _all(os.pwrite(file, block, next(places)))


def _wants_memory(mebibytes: str, cpu: str) -> Callable[[], None]:
    ahead_of_others()
    os.sched_setaffinity(0, {int(cpu)})
    wanted = int(mebibytes) << 20

    def fresh() -> None:
        block = mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):
            block.madvise(_MADV_NOHUGEPAGE)
        for at in range(0, wanted, _PAGE):
            block[at] = 1
        block.close()

    return fresh


def _all(count: int) -> None:
    assert count > 0


WORK: dict[str, Callable[..., Callable[[], None]]] = {
    "sleeps": _sleeps,
    "cpu": _on_a_cpu,
    "device": _writes_a_device,
    "file": _writes_a_file,
    "memory": _wants_memory,
}


def spin(seconds: str, cpu: str) -> None:
    """Take a CPU from all other programs."""
    os.sched_setaffinity(0, {int(cpu)})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    for _ in at_random_times(float(seconds)):
        end_s = time.monotonic() + STALL_S
        while time.monotonic() < end_s:
            pass


def freeze(seconds: str, folder: str) -> None:
    """Freeze a file system, so that it takes no writes."""
    place = os.open(folder, os.O_RDONLY)
    ahead_of_others()
    for _ in at_random_times(float(seconds)):
        fcntl.ioctl(place, _FREEZE, 0)
        try:
            time.sleep(STALL_S)
        finally:
            fcntl.ioctl(place, _THAW, 0)


def write(seconds: str, name: str, mebibytes: str) -> None:
    """Write many bytes at once."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    block = bytes(1 << 20)
    for _ in at_random_times(float(seconds)):
        for at in range(int(mebibytes)):
            os.pwrite(file, block, at << 20)


def touch(seconds: str, name: str, mebibytes: str, cpu: str) -> None:
    """Use all pages of a mapped file repeatedly for a while.

    This needs a CPU of its own: on a kernel without preemption, others wait while the kernel frees memory of the group.
    """
    os.sched_setaffinity(0, {int(cpu)})
    size = int(mebibytes) << 20
    with Path(name).open("w+b") as made:
        made.truncate(size)
        mapped = mmap.mmap(made.fileno(), size)
    for _ in at_random_times(float(seconds)):
        end_s = time.monotonic() + 2 * STALL_S
        while time.monotonic() < end_s:
            for at in range(0, size, _PAGE):
                mapped[at]


def hog(seconds: str, cpu: str, name: str, mebibytes: str) -> None:
    """Take memory and write a file for some seconds, then use the CPU, and release everything, at long intervals."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    end_s = time.monotonic() + float(seconds)
    while time.monotonic() + HOG_EVERY_S < end_s:
        time.sleep(HOG_EVERY_S - HOG_S)
        held = []
        for at in range(int(mebibytes)):
            held.append(os.urandom(1 << 20))
            os.pwrite(file, held[-1], at << 20)
            time.sleep(HOG_S / int(mebibytes))
        os.fdatasync(file)
        for _ in range(3):
            _take(cpu, STALL_S)
            time.sleep(0.2)


def _take(cpu: str, seconds: float) -> None:
    if not (child := os.fork()):
        os.sched_setaffinity(0, {int(cpu)})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            pass
        os._exit(0)
    os.waitpid(child, 0)


def grow(seconds: str, mebibytes_a_second: str) -> None:
    """Take a little more memory all the time."""
    held = []
    for _ in range(int(seconds)):
        held.append(os.urandom(int(mebibytes_a_second) << 20))
        time.sleep(1)


ROLES: dict[str, Callable[..., None]] = {
    "frames": frames,
    "spin": spin,
    "freeze": freeze,
    "write": write,
    "touch": touch,
    "hog": hog,
    "grow": grow,
}

if __name__ == "__main__":
    if group := os.environ.get("GROUP"):
        Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    ROLES[sys.argv[1]](*sys.argv[2:])
