# SPDX-License-Identifier: Apache-2.0
"""What `ktrial watch` needs beside its options: rates and limits from words, the folder, lines and events."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ktrial.agent.user_folders import state_folder
from ktrial.cli.options import seconds
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput
from ktrial.kit.streams import tell
from ktrial.kit.tables import clean
from ktrial.recordings.growing import GrowingRecording
from ktrial.watch.record.place import paths_of, recording_place
from ktrial.watch.record.text import HEADER, stretch

if TYPE_CHECKING:
    from ktrial.cli.app_guest import GuestHost
    from ktrial.recordings.watching import MachineView, TracedEvent

#: Name of a recording's file within its folder.
RECORDING = "recording.ktr"
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:Hz)?")


def rates(words: Sequence[str]) -> dict[str, float]:
    """`vmstat_all=50Hz` for each source. Raises BadInput."""
    found = {}
    for word in words:
        source, equals, rate = word.partition("=")
        match = _RATE.fullmatch(rate)
        if not equals or match is None:
            raise BadInput(f"--rate {word!r} is not SOURCE=HZ", hint="such as  --rate cpu=50Hz  or  --rate zones=0")
        found[source] = float(match[1])
    return found


def least(words: Sequence[str]) -> dict[str, float]:
    """`block-io=10ms` for each kind, `block-io:vda=2ms` for one device. Raises BadInput."""
    found = {}
    for word in words:
        kind, equals, length = word.partition("=")
        if not equals:
            raise BadInput(f"--above {word!r} is not KIND=TIME", hint="such as  --above block-io=10ms")
        found[kind] = short_seconds(length, "--above")
    return found


def short_seconds(text: str, option: str) -> float:
    """`500us`, `10ms`, or what other times are written as."""
    for suffix, factor in (("ms", 1e-3), ("us", 1e-6)):
        number = text.removesuffix(suffix)
        if number != text:
            match = _RATE.fullmatch(number)
            if match is None:
                break
            return float(number) * factor
    return seconds(text, option)


def new_folder(wanted: Path | None, words: Sequence[str] | None, pid: int | None, *, here: bool = True) -> Path:
    """The folder that is asked for, or a new one named after now, on a disk that is not watched where there is one.

    Where it is not `here` that something is watched, no disk of this machine is.
    """
    if wanted is not None:
        return wanted

    usual = state_folder() / "recordings"
    place = recording_place(usual, paths_of(words, pid)) if here else usual
    return place / time.strftime("%Y-%m-%dT%H-%M-%S")


def refuse_on_host(
    host: GuestHost | None, frames_from: Path | None, wanted: Mapping[str, float], *, ends: bool
) -> None:
    """Raise BadInput for what would bring this machine into the recording of a guest, or would never end there.

    `ends`: with a program, or after a time.
    """
    if host is None:
        return
    if frames_from is not None:
        raise BadInput(
            f"--frames-from {frames_from}: it lies on this machine, whose clock is not that of {host.word}",
            hint="--frame-loop draws frames in the guest",
        )
    if wanted.get("nvidia"):
        raise BadInput(
            f"--rate nvidia={wanted['nvidia']:g}: its cards are in this machine, not in {host.word}",
            hint="leave it out",
        )
    if host.is_exact and not ends:
        raise BadInput(
            f"--host {host.word}: nobody can end a watch while such a guest runs",
            hint="give --for, such as  --for 1m",
        )


def untraced(why: str) -> str:
    """Said at the beginning: after hours it is too late to do something about it."""
    return clean(f"no events are traced: {why}") + "\n"


class WatchShown:
    """Lines for people, or events for programs, while it goes on.

    The events of a line are those that were handed over since the line before: all that are kept, none twice.
    """

    def __init__(self, every_s: float, *, as_json: bool) -> None:
        self._every_ns = every_s * 1e9
        self._as_json = as_json
        self._before: MachineView | None = None
        self._last: MachineView | None = None
        self._events: list[TracedEvent] = []
        self._growing = GrowingRecording()

    def seen(self, seen: MachineView) -> None:
        self._last = seen
        if self._before is None or seen.at_ns - self._before.at_ns >= self._every_ns:
            self._tell(seen)

    def handed(self, data: bytes) -> None:
        first = self._growing.started_ns is None
        self._events += self._growing.feed(data).events
        if first and self._growing.why_untraced is not None and not self._as_json:
            tell(sys.stderr, untraced(self._growing.why_untraced))

    def frames(self, frames: Sequence[tuple[int, float]]) -> None: ...

    def ended(self) -> None:
        if self._events and self._last is not None:
            self._tell(self._last)

    def _tell(self, seen: MachineView) -> None:
        if self._as_json:
            line = {"event": "seen", **msgspec.to_builtins(seen), "events": msgspec.to_builtins(self._events)}
            tell(sys.stdout, plain_json.line(line))
        else:
            if self._before is None:
                tell(sys.stderr, HEADER + "\n")
            tell(sys.stderr, stretch(self._before, seen, self._events))
        self._before, self._events = seen, []
