# SPDX-License-Identifier: Apache-2.0
"""Parses rates and limits for `ktrial watch`, chooses its folder, and prints its lines and events."""

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
    from ktrial.cli.hosts import Host
    from ktrial.recordings.watching import MachineView, TracedEvent

#: File name of a recording in its folder.
RECORDING = "recording.ktr"
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:Hz)?")


def rates(words: Sequence[str]) -> dict[str, float]:
    """Return the rate of each source in Hz, from words such as `vmstat_all=50Hz`. Raise BadInput for other text."""
    rate_of = {}
    for word in words:
        source, equals, rate = word.partition("=")
        match = _RATE.fullmatch(rate)
        if not equals or match is None:
            raise BadInput(f"--rate: expected SOURCE=HZ, got {word!r}", hint="for example  --rate cpu=50Hz")
        rate_of[source] = float(match[1])
    return rate_of


def least(words: Sequence[str]) -> dict[str, float]:
    """Return how long an event must last to be recorded, in seconds, by kind or by kind and device.

    The words are like `block-io=10ms` or, for one device, `block-io:vda=2ms`. Raise BadInput for other text.
    """
    limits = {}
    for word in words:
        kind, equals, length = word.partition("=")
        if not equals:
            raise BadInput(f"--above: expected KIND=TIME, got {word!r}", hint="for example  --above block-io=10ms")
        limits[kind] = short_seconds(length, "--above")
    return limits


def short_seconds(text: str, option: str) -> float:
    """Return `500us`, `10ms` or another duration in seconds."""
    for suffix, factor in (("ms", 1e-3), ("us", 1e-6)):
        number = text.removesuffix(suffix)
        if number != text:
            match = _RATE.fullmatch(number)
            if match is None:
                break
            return float(number) * factor
    return seconds(text, option)


def new_folder(wanted: Path | None, words: Sequence[str] | None, pid: int | None, *, here: bool = True) -> Path:
    """Return the wanted folder. By default, return a new path named after the time.

    The default is on a disk that is not watched, if possible. If `here` is false, ktrial watches another host,
    and any disk of this machine is suitable.
    """
    if wanted is not None:
        return wanted
    default = state_folder() / "recordings"
    place = recording_place(default, paths_of(words, pid)) if here else default
    return place / time.strftime("%Y-%m-%dT%H-%M-%S")


def refuse_on_host(host: Host | None, frames_from: Path | None, wanted: Mapping[str, float], *, ends: bool) -> None:
    """Raise BadInput for options that would record this machine instead of the host, or make the watch endless.

    `ends` is true if the watch ends with a program or after a time.
    """
    if host is None:
        return
    if frames_from is not None:
        raise BadInput(
            f"cannot combine --frames-from with --host {host.word}, which has another clock",
            hint="use --frame-loop, which draws frames on that host",
        )
    if wanted.get("nvidia"):
        raise BadInput(
            f"--rate nvidia={wanted['nvidia']:g}: ktrial reads NVIDIA cards of this machine only, not of {host.word}",
            hint="leave out --rate nvidia",
        )
    if host.is_exact and not ends:
        raise BadInput(f"--host {host.word}: Ctrl-C cannot end a watch in an exact guest", hint="add --for 1m")


def untraced(why: str) -> str:
    """Return the warning that tracing failed.

    ktrial prints the warning at the start, when the user can still fix the cause.
    """
    return clean(f"not tracing events: {why}") + "\n"


class WatchShown:
    """Prints lines for people, or JSON for programs, during a watch.

    Each line contains the events since the previous line, every event exactly once.
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
