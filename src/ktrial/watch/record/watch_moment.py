# SPDX-License-Identifier: Apache-2.0
"""A watch at one moment: its quantities over time, the phase, and the latest stutters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ktrial.judge.model.stutter import NEIGHBOURS, usual
from ktrial.recordings.frames.statistics import is_stutter


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity for each second, the newest last; None if unknown. `why_not` is set if all seconds are unknown."""

    name: str
    unit: Literal["share", "pages", "requests", "delay"]
    values: tuple[float | None, ...]
    why_not: str | None = None


class LateOne(msgspec.Struct, frozen=True, kw_only=True):
    """A stutter, its likely cause, and the evidence."""

    at_s: float
    took_s: float
    cause: str
    shown_by: str = ""


class WatchMoment(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a watch now. Later data may change `phase`."""

    length_s: float
    tracks: tuple[Track, ...]
    phase: str | None = None
    phase_since_s: float = 0.0
    frames: int = 0
    frame_kind: str = "wake-up"
    stutters: int = 0
    last: tuple[LateOne, ...] = ()
    available_bytes: float | None = None
    events: int = 0
    lost: int | None = None
    bytes: int = 0
    cost: float = 0.0
    head_cost: float = 0.0


class LateFrames:
    """Stutters in a stream of frames; each frame is judged once the frames after it are known."""

    def __init__(self) -> None:
        self._ends_s: list[float] = []
        self._durations_s: list[float] = []
        self._judged = 0
        self.frames = 0
        self.count = 0

    def feed(self, ends_s: Sequence[float], durations_s: Sequence[float]) -> list[tuple[float, float]]:
        """Add frames. Return the start and end of each further stutter that can be recognised now."""
        self._ends_s += ends_s
        self._durations_s += durations_s
        self.frames += len(ends_s)
        stop = len(self._ends_s) - NEIGHBOURS
        if stop <= self._judged:
            return []
        around_s = usual(self._durations_s)
        places = range(self._judged, stop)
        late = [place for place in places if is_stutter(self._durations_s[place], around_s[place])]
        found = [(self._ends_s[place] - self._durations_s[place], self._ends_s[place]) for place in late]
        dropped = max(0, stop - NEIGHBOURS)
        self._ends_s, self._durations_s = self._ends_s[dropped:], self._durations_s[dropped:]
        self._judged = stop - dropped
        self.count += len(found)
        return found
