# SPDX-License-Identifier: Apache-2.0
"""Watches a machine or a program: the request to the agent, its reports, and the finished recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Protocol

import msgspec

from ktrial.bench.run.ports import Watching
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.finding import Finding
from ktrial.kit.units import show_bytes
from ktrial.recordings.figures import PASSING_ON
from ktrial.recordings.frames.lines import FrameStream, with_frames
from ktrial.recordings.ktrial import read_recording
from ktrial.recordings.model import Recording
from ktrial.recordings.watching import HandedBlocks, MachineView, WatchEnded, doubts
from ktrial.watch.record.live import SHOWN

#: Default limit of a watch: a week.
LONGEST_S = 604_800.0


class WatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to watch, with rates and limits that differ from the defaults."""

    limit_s: float = LONGEST_S
    process: int | None = None
    command: tuple[str, ...] | None = None
    frame_thread: int | None = None
    rates: Mapping[str, float] = {}
    least_s: Mapping[str, float] = {}
    trace: bool = True

    def fields(self) -> dict[str, Any]:
        optional = {"process": self.process, "frame_thread": self.frame_thread, "command": self.command}
        return {
            "limit_s": self.limit_s,
            "sources": dict(self.rates),
            "least_s": dict(self.least_s),
            "trace": self.trace,
            "show": list(SHOWN),
            **{name: value for name, value in optional.items() if value is not None},
        }


class Shows(Protocol):
    """A display of a running watch."""

    def seen(self, seen: MachineView) -> None: ...

    def handed(self, data: bytes) -> None: ...


class WatchedProgram(Protocol):
    """The watched program, if ktrial starts it."""

    def go(self) -> None: ...

    def ended(self) -> int | None:
        """Return the program's exit status; None while it runs or if the status is not known yet."""

    def status(self, ended: WatchEnded) -> int | None:
        """Return the program's exit status after the watch; None if it still runs or the watch ended it."""


def watch(
    watching: Watching,
    wanted: WatchRequest,
    shows: Shows,
    *,
    program: WatchedProgram | None = None,
    on_begun: Callable[[], None] = lambda: None,
) -> tuple[WatchEnded, int | None]:
    """Watch to the end; return how the watch ended, and the program's exit status."""
    ended: WatchEnded | None = None

    def begun() -> None:
        on_begun()
        if program is not None:
            program.go()

    for told in watching.watch(wanted.fields(), begun):
        if isinstance(told, MachineView):
            shows.seen(told)
        elif isinstance(told, HandedBlocks):
            shows.handed(told.data)
        else:
            ended = told
        if program is not None:
            # The agent sees the end of a program only after its exit status has been collected.
            program.ended()
    if ended is None:
        raise KtrialError(
            "cannot complete the recording: the agent did not report how the watch ended", hint="run the watch again"
        )
    return ended, None if program is None else program.status(ended)


def read_back(
    data: bytes, name: str, ended: WatchEnded, frames: FrameStream | None = None, frames_error_s: float = 0.0
) -> tuple[Recording, tuple[Finding, ...]]:
    """Return the written recording, with the frames of a log if there is one, and findings about it.

    Raise BadInput if the recording is incomplete, or if the pattern matches no line of the log.
    """
    recording = read_recording(data, name)
    absent = {source.name: source.why or "" for source in recording.sources if source.state == "absent"}
    findings = list(doubts(ended, absent))
    if recording.ended != "whole":
        raise BadInput(f"{name} is incomplete: {'; '.join(recording.notes)}", hint="run the watch again")
    if frames is not None:
        recording = with_frames(recording, frames.frames(ended.started_ns, frames_error_s))
    return recording, tuple(findings)


def crowded_disk(recording: Recording, disk: str | None, own_bytes: int) -> tuple[Finding, ...]:
    """Return a finding if the recording is on a disk that it watches, although there is another disk."""
    written = {name.split(".")[1]: one.values for name, one in recording.series.items() if _tells_disk(name)}
    if disk not in written or len(written) < 2:
        return ()
    grown = sum(max(0.0, after - before) for before, after in pairwise(written[disk]) if after >= before)
    return (
        Finding(
            kind="crowded-disk",
            level="note",
            sentence=f"the recording is on {disk}, which ktrial watches, and makes up {show_bytes(own_bytes)} of the "
            f"{show_bytes(round(grown))} written to that disk; use -o with a folder on another disk",
        ),
    )


def lost_lines(count: int) -> tuple[Finding, ...]:
    """Return a finding if lines of the frame log were lost."""
    if not count:
        return ()
    return (
        Finding(
            kind="lost-frames",
            level="suspect",
            sentence=f"{count} lines of the frame log arrived too fast to be read: their frames are missing",
        ),
    )


def _tells_disk(name: str) -> bool:
    parts = name.split(".")
    return len(parts) == 3 and parts[0] == "disks" and parts[2] == "written" and not parts[1].startswith(PASSING_ON)
