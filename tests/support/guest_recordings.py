# SPDX-License-Identifier: Apache-2.0
"""Recordings by the agent in a guest: its answers are part of the program's output, and are read here."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence

import msgspec

from ktrial.bench.guest_tools import Job, Shape
from ktrial.cli.app_kernels import Kernels
from ktrial.guests.agreement import settle_s
from ktrial.guests.boot import BootLimits
from ktrial.guests.modules import take_modules
from ktrial.guests.programs import bring_for
from ktrial.kit.json_bytes import read_bytes
from ktrial.recordings.ktrial import read_recording
from ktrial.recordings.model import Frames, Recording, Source
from ktrial.tuning.catalog.loader import load_catalog
from tests.guests.system.kernels import KERNELS, fetch


def recorded_in_guest(
    script: str, shape: Shape, limit_s: float, tools: Sequence[str] = (), modules: Sequence[str] = ()
) -> tuple[Recording, str, str]:
    """Return the recording of a script, its output before an empty line, and the agent's answers after the line."""
    printed, answers = run_in_guest(script, shape, limit_s, tools, modules)
    chunks = [json.loads(line).get("chunk") for line in answers.splitlines()]
    recording = read_recording(b"".join(read_bytes(chunk) for chunk in chunks if chunk), "guest")
    return recording, printed, answers


def with_frames(recording: Recording, lines: str, started_ns: int) -> Recording:
    """Return the recording with the frames that a program in the guest reported: ends and durations in nanoseconds."""
    rows = [tuple(map(int, line.split())) for line in lines.splitlines()]
    inside = [((end_ns - started_ns) / 1e9, took_ns / 1e9) for end_ns, took_ns in rows]
    inside = [(end_s, took_s) for end_s, took_s in inside if 0 <= end_s <= recording.length_s]
    frames = Frames(
        kind="frame",
        source="frames",
        ends_s=array("d", (end_s for end_s, _ in inside)),
        durations_s=array("d", (took_s for _, took_s in inside)),
    )
    sources = (*recording.sources, Source(name="frames", state="active", seen=len(inside)))
    return msgspec.structs.replace(recording, frames=frames, sources=sources)


def run_in_guest(
    script: str, shape: Shape, limit_s: float, tools: Sequence[str] = (), modules: Sequence[str] = ()
) -> tuple[str, str]:
    """Return the output of a busybox script before an empty line, and after it.

    There is only one boot, even of an exact guest. Over hours, two boots drift apart because of idle moments in which
    the emulator's threads race (docs/decisions/0033), and these tests only need the recording.
    """
    fetch(KERNELS[0])
    kernels = Kernels(print, load_catalog)
    found = kernels.images.find(str(KERNELS[0].tree))
    guests = kernels.guests_for(found)
    brought, started = bring_for(("/bin/busybox", "sh", "-c", script), ("busybox", *tools), guests.architecture)
    loaded = take_modules(tuple(modules), found.image_path)
    brought.files.update(loaded)
    assert started is not None
    job = Job(programs=(started,), modules=tuple(loaded), settle_s=settle_s(shape.mode))
    run = guests.boot(found, job, brought, shape, BootLimits(limit_s))
    assert (run.failure, run.exit_status) == (None, 0), run.stderr
    printed, _, answers = run.stdout.decode().partition("\n\n")
    return printed, answers
