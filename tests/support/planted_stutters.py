# SPDX-License-Identifier: Apache-2.0
"""Causes of stutters planted on this machine: sets them up, delays the frames, and reads the result."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from ktrial.cli.shared import diagnose as diagnosing
from ktrial.recordings.model import Recording, Series
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.watch.diagnosis.diagnose import diagnose
from ktrial.watch.diagnosis.model import Diagnosis
from ktrial.watch.diagnosis.symptoms import load_symptoms
from tests.support import stutter_programs
from tests.support.watching import run

PROGRAM = (sys.executable, "-I", "-S", stutter_programs.__file__)
SECONDS = 24
PATTERN = r"frame (?P<at>[\d.]+) (?P<ms>[\d.]+)"
_CGROUPS = "/sys/fs/cgroup"


@contextmanager
def beside(*words: str, group: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Yield a program that runs during the block."""
    environment = os.environ if group is None else {**os.environ, "GROUP": str(group)}
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def file_system(folder: Path, mebibytes: int) -> Iterator[tuple[Path, str]]:
    """Yield an ext4 file system in memory: its mount point and its device."""
    image = Path("/dev/shm") / f"ktrial-{os.getpid()}-{folder.name}.img"
    folder.mkdir()
    with ExitStack() as undo:
        undo.callback(image.unlink, missing_ok=True)
        with image.open("wb") as made:
            made.truncate(mebibytes << 20)
        _do("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
        device = undo.enter_context(loop(image))
        _do("mount", device, str(folder))
        undo.callback(_do, "umount", str(folder))
        yield folder, device


@contextmanager
def loop(image: Path) -> Iterator[str]:
    """Yield a loop device over a file."""
    device = _do("losetup", "-f", "--show", str(image))
    try:
        yield device
    finally:
        _do("losetup", "-d", device)


@contextmanager
def slow_to_write(device: str, bytes_a_second: int, may_wait: int) -> Iterator[None]:
    """Slow down writes to a device, with limited memory for waiting writes; other devices are not affected."""
    number = Path(f"/sys/class/block/{Path(device).name}/dev").read_text().strip()
    speed = Path(_CGROUPS) / "blkio/blkio.throttle.write_bps_device"
    waiting = Path("/sys/class/bdi") / number
    speed.write_text(f"{number} {bytes_a_second}")
    try:
        (waiting / "max_bytes").write_text(str(may_wait))
        (waiting / "strict_limit").write_text("1")
        yield
    finally:
        (waiting / "strict_limit").write_text("0")
        (waiting / "max_ratio").write_text("100")
        speed.write_text(f"{number} 0")


@contextmanager
def memory_group(mebibytes: int) -> Iterator[Path]:
    """Yield a control group with this much memory, of either version."""
    first = Path(_CGROUPS) / "memory"
    folder = (first if first.is_dir() else Path(_CGROUPS)) / f"ktrial-{os.getpid()}"
    folder.mkdir()
    limit = "memory.limit_in_bytes" if first.is_dir() else "memory.max"
    try:
        (folder / limit).write_text(str(mebibytes << 20))
        yield folder
    finally:
        folder.rmdir()


def watched(folder: Path, *words: str, seconds: int = SECONDS, group: Path | None = None) -> Recording:
    """Return the recording of `ktrial watch` on the program with frames."""
    pipe = folder / "frames.pipe"
    os.mkfifo(pipe)
    environment = {} if group is None else {"GROUP": str(group)}
    told = ("--frames-from", str(pipe), "--pattern", PATTERN)
    program = (*PROGRAM, "frames", str(pipe), str(seconds), *words)
    done = run(folder / "recording", *told, "--", *program, **environment)
    assert done.returncode == 0, done.stderr
    return diagnosing.recording(folder / "recording", None, None, None, None)


def diagnosed(recording: Recording, limit_s: float | None = None) -> Diagnosis:
    """Return the diagnosis with the table of causes."""
    return diagnose(recording, load_symptoms(load_catalog()), limit_s)


def shuffled(recording: Recording, seed: int) -> Recording:
    """Return the same events at other times, with each source's samples rotated by a time of its own."""
    drawn = random.Random(seed)
    length_s = recording.length_s
    replace = msgspec.structs.replace
    events = [
        replace(event, begin_s=drawn.uniform(0, max(length_s - (event.duration_s or 0.0), 0.0)))
        for event in recording.events
    ]
    shares = {source.name: drawn.uniform(0.1, 0.9) for source in recording.sources}
    series = {name: _turned(one, shares[one.source]) for name, one in recording.series.items()}
    return replace(recording, events=tuple(sorted(events, key=lambda event: event.begin_s)), series=series)


def _turned(series: Series, share: float) -> Series:
    """Return the series rotated: the growth, or the levels, begin later, and the end continues at the start."""
    cut = int(len(series.values) * share)
    if series.kind != "counter":
        return msgspec.structs.replace(series, values=series.values[cut:] + series.values[:cut])
    steps = [after - before for before, after in zip(series.values, series.values[1:], strict=False)]
    values = array("d", series.values[:1])
    for step in steps[cut:] + steps[:cut]:
        values.append(values[-1] + step)
    return msgspec.structs.replace(series, values=values)


def named(found: Diagnosis) -> Sequence[str]:
    """Return the ids of the named causes."""
    return [cause.id for cause in found.named]


def told(found: Diagnosis) -> str:
    """Return the text to show on a failure."""
    causes = [
        f"{cause.id}: {cause.standing}, {cause.overlapping} of {found.stutters}, {cause.expected:.1f} by chance,"
        f" p {cause.p}, at work {cause.active_share:.1%}"
        for cause in found.causes
        if cause.active_share
    ]
    return "\n".join([f"{found.stutters} stutters in {found.length_s:.1f} s, named {named(found)}", *causes])


def _do(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout.strip()
