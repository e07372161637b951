# SPDX-License-Identifier: Apache-2.0
"""Frame times in the lines of any log, found by a regular expression whose named group is the unit."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.recordings.model import Frames, Recording, Source

#: Names of the group that holds the time, and its factor to seconds.
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_RATE = "fps"
#: Name of the group with the end of the frame, in seconds on CLOCK_MONOTONIC.
_END = "at"
#: Longer times are not frames.
_LONGEST_S = 3600.0


class FrameLine(msgspec.Struct, frozen=True):
    """A line of a log, and the time on the monotonic clock when ktrial read the line."""

    at_ns: int
    text: str


class FramePattern:
    """A regular expression that finds a frame's time in a line: one of its groups is `s`, `ms`, `us`, `ns` or `fps`."""

    def __init__(self, text: str, option: str = "--pattern") -> None:
        """Compile the expression given by `option`. Raise BadInput unless it is valid and has one time group."""
        self.option = option
        try:
            self._expression = re.compile(text)
        except re.error as error:
            raise BadInput(
                f"{option} {text!r} is not a regular expression: {error}", hint=r"for example  frame (?P<ms>[\d.]+) ms"
            ) from None
        known = (*_UNITS, _RATE)
        named = [name for name in self._expression.groupindex if name in known]
        if len(named) != 1:
            raise BadInput(
                f"{option} {text!r}: expected one group named like a unit, got {len(named)}",
                hint=r"write a pattern like  frame (?P<ms>[\d.]+) ms  ; units: " + ", ".join(known),
            )
        self._unit = named[0]
        self.text = text

    def duration_s(self, line: str) -> float | None:
        """Return the frame time in a line; None if the line has no time, or an impossible time."""
        match = self._expression.search(line)
        if match is None or match[self._unit] is None:
            return None
        try:
            value = float(match[self._unit].replace(",", "."))
        except ValueError:
            return None
        if self._unit == _RATE:
            return 1 / value if value > 0 else None
        duration_s = value * _UNITS[self._unit]
        return duration_s if 0 <= duration_s <= _LONGEST_S else None

    def end_ns(self, line: FrameLine, file: str, within_ns: int) -> int:
        """Return when the frame of a line ended: the time in the line or, without one, when the line was read.

        Raise BadInput if the time in the line is not shortly before the line was read: the program uses another clock.
        """
        if _END not in self._expression.groupindex:
            return line.at_ns
        match = self._expression.search(line.text)
        try:
            told_ns = round(float(match[_END]) * 1e9) if match is not None else -1
        except (TypeError, ValueError, OverflowError):
            told_ns = -1
        if not max(0, line.at_ns - within_ns) <= told_ns <= line.at_ns:
            raise BadInput(
                f"{file}: the group `{_END}` of {line.text[:60]!r} is not a time shortly before "
                f"{line.at_ns / 1e9:.3f} s (CLOCK_MONOTONIC), when ktrial read the line",
                hint=f"remove the group `{_END}` to use the time when ktrial reads each line",
            )
        return told_ns

    @property
    def tells_end(self) -> bool:
        return _END in self._expression.groupindex


class FrameStream:
    """Extracts frames from the lines of a growing log; `file` is the log's name in errors."""

    def __init__(self, pattern: FramePattern, file: str, within_ns: int = round(_LONGEST_S * 1e9)) -> None:
        self.pattern = pattern
        self._file = file
        self._within_ns = within_ns
        self._told: list[tuple[int, float]] = []
        self._lines = 0
        self._first: str | None = None
        self._wrong: BadInput | None = None

    def feed(self, lines: Sequence[FrameLine]) -> list[tuple[int, float]]:
        """Return the frames of these lines, each with its end on the monotonic clock and its duration in seconds.

        A line with an impossible end ends the stream, and `frames` raises the error.
        """
        found = []
        for line in lines:
            self._lines += 1
            if self._first is None:
                self._first = line.text[:60]
            duration_s = self.pattern.duration_s(line.text)
            if duration_s is None or self._wrong is not None:
                continue
            try:
                found.append((self.pattern.end_ns(line, self._file, self._within_ns), duration_s))
            except BadInput as wrong:
                self._wrong = wrong
        found.sort()
        self._told += found
        return found

    def frames(self, zero_ns: int, clock_error_s: float) -> Frames:
        """Return all frames in order of time, relative to `zero_ns`.

        Raise BadInput if there is no frame, or if a line had an impossible end.
        """
        if self._wrong is not None:
            raise self._wrong
        if not self._lines:
            raise BadInput(
                f"{self._file}: no line was written during the recording",
                hint="make the program write a line for each frame",
            )
        if not self._told:
            raise BadInput(
                f"{self._file}: {self.pattern.option} {self.pattern.text!r} matches none of {self._lines} lines "
                f"written during the recording; the first is {self._first!r}",
                hint=r"correct the pattern, for example  frame (?P<ms>[\d.]+) ms",
            )
        told = sorted(self._told)
        return Frames(
            kind="frame",
            source="frames",
            ends_s=array("d", ((at_ns - zero_ns) / 1e9 for at_ns, _ in told)),
            durations_s=array("d", (duration_s for _, duration_s in told)),
            clock_error_s=0.0 if self.pattern.tells_end else clock_error_s,
        )


def frames_of(
    lines: Sequence[FrameLine],
    pattern: FramePattern,
    zero_ns: int,
    clock_error_s: float,
    file: str,
    *,
    within_ns: int = round(_LONGEST_S * 1e9),
) -> Frames:
    """Return the frames in the lines. Raise BadInput if there is no frame, or if a line has an impossible end."""
    stream = FrameStream(pattern, file, within_ns)
    stream.feed(lines)
    return stream.frames(zero_ns, clock_error_s)


def with_frames(recording: Recording, frames: Frames) -> Recording:
    """Return the recording with `frames` in place of its own frames."""
    source = Source(name=frames.source, state="active", seen=len(frames.ends_s))
    return msgspec.structs.replace(recording, frames=frames, sources=(*recording.sources, source))
