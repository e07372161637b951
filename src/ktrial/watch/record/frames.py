# SPDX-License-Identifier: Apache-2.0
"""Reads frames from a log that grows during a recording, and stores them beside the recording as they arrive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ktrial.bench.run.tail import LOOK_S
from ktrial.kit.errors import BadInput
from ktrial.recordings.frames.lines import FrameLine, FramePattern, FrameStream
from ktrial.recordings.ktrial_blocks import head_of
from ktrial.recordings.ktrial_frames import HEADER, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.recordings.watching import MachineView

FRAMES = "frames.csv"


class Looks(Protocol):
    """A display of a running watch."""

    def seen(self, seen: MachineView) -> None: ...

    def handed(self, data: bytes) -> None: ...

    def ended(self) -> None: ...


class TellsFrames(Looks, Protocol):
    """A display of a watch and its frames."""

    def frames(self, frames: Sequence[tuple[int, float]]) -> None:
        """Show frames, each with its end on the monotonic clock and its duration in seconds."""


class Tail(Protocol):
    """The lines of a growing or finished log."""

    #: Lines that arrived too fast, or were too long.
    lost: int

    def take(self) -> list[FrameLine]:
        """Return the lines since the last call."""

    def stop(self) -> None:
        """Stop reading. `take` still returns the lines that were read before."""


class KeptFrames:
    """Reads frames from the lines of `tail` once a second, stores them at once, and shows them on `shows`."""

    def __init__(self, tail: Tail, pattern: FramePattern, told_by: str, folder: Path, shows: TellsFrames) -> None:
        self.stream = FrameStream(pattern, told_by)
        self._tail = tail
        self._file = folder / FRAMES
        self._shows = shows
        self._unix_at_zero_ns: int | None = None
        self._waiting: list[tuple[int, float]] = []

    def seen(self, seen: MachineView) -> None:
        self._take()
        self._shows.seen(seen)

    def handed(self, data: bytes) -> None:
        # The first blocks contain the clock's zero.
        if self._unix_at_zero_ns is None:
            self._unix_at_zero_ns = head_of(data).unix_at_zero_ns
        self._shows.handed(data)

    def ended(self) -> None:
        self.stop()
        self._shows.ended()

    def stop(self) -> None:
        self._tail.stop()
        self._take()

    @property
    def lost(self) -> int:
        return self._tail.lost

    @property
    def error_s(self) -> float:
        """Uncertainty of the ends of frames, in seconds."""
        return 0.0 if self.stream.pattern.tells_end else LOOK_S

    def _take(self) -> None:
        found = self.stream.feed(self._tail.take())
        self._shows.frames(found)
        self._waiting += found
        if self._waiting and self._unix_at_zero_ns is not None:
            self._append(rows(self._waiting, self._unix_at_zero_ns, self.error_s))
            self._waiting.clear()

    def _append(self, text: str) -> None:
        try:
            with self._file.open("a") as file:
                file.write(text if file.tell() else f"{HEADER}\n{text}")
        except OSError as error:
            raise BadInput(
                f"cannot write {self._file}: {error.strerror}", hint="free some space, or make the folder writable"
            ) from None
