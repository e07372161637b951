# SPDX-License-Identifier: Apache-2.0
"""Read what Android stores about frames: `dumpsys gfxinfo PACKAGE framestats` and `dumpsys SurfaceFlinger --latency`.

gfxinfo has the last 120 frames of each window, as a table between lines `---PROFILEDATA---`. Several dumps may follow
each other; a frame that is in two of them counts once. All times are nanoseconds of the clock that never steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import ended_lines, unreadable, whole

_TABLE = "---PROFILEDATA---"
_NEEDED = ("Flags", "IntendedVsync", "FrameCompleted")
_INTERVAL = "FrameInterval"
_RENDERED = re.compile(r"Total frames rendered: (\d{1,12})", re.ASCII)
#: A frame that has not ended yet, or has no time, has one of these.
_OPEN = frozenset((0, 2**63 - 1))
#: No frame takes longer; such a time means that a value is wrong.
_LONGEST_NS = 600 * 10**9


class DrawnFrames(msgspec.Struct, frozen=True):
    """Frames of an app in the order in which the app completed them.

    `times_s` say how long each frame took, from when it was due to begin until it was complete at `ends_s`. `flagged`
    counts frames that Android marks as unusual, such as the first of a window; ktrial leaves them out. `rendered` is
    how many frames Android counted since its statistics were reset, None if Android does not report it. `interval_s` is
    the time between two refreshes of the screen.
    """

    times_s: tuple[float, ...]
    ends_s: tuple[float, ...]
    flagged: int
    rendered: int | None
    interval_s: float | None


class ShownFrames(msgspec.Struct, frozen=True):
    """The times at which frames of a layer were shown, and the time between two refreshes of the screen."""

    shown_s: tuple[float, ...]
    refresh_s: float


def is_framestats(head: bytes) -> bool:
    return f"\n{_TABLE}".encode() in head and b"Flags,IntendedVsync," in head.replace(b"FrameTimelineVsyncId,", b"")


def read_framestats(data: bytes, source: str = "framestats") -> DrawnFrames:
    """Return the frames of all tables. Raise BadRun if Android flags all frames, UnreadableOutput for other text."""
    table = _FrameTable(source)
    columns: tuple[str, ...] | None = None
    inside = False
    rendered: int | None = None
    for line, text in ended_lines(data, source):
        if text.strip() == _TABLE:
            inside, columns = not inside, None
        elif not inside:
            found = _RENDERED.match(text.strip())
            rendered = rendered if found is None else int(found[1])
        elif columns is None:
            columns = _columns(text, source, line)
        else:
            table.add(_row(text, columns, source, line), line, text)
    if inside:
        raise unreadable(
            source, None, "", f"complete output of dumpsys: the line {_TABLE} that ends a table is missing"
        )
    if not table.frames and not table.flagged:
        raise unreadable(source, None, "", "frames of an app: its tables have no frame")
    if not table.frames:
        raise BadRun(
            f"{source}: Android marks every frame as unusual, such as the first of a window",
            hint="measure for longer while the window changes",
        )
    ordered = sorted(table.frames.items(), key=lambda frame: frame[1])
    return DrawnFrames(
        times_s=tuple((end - begin) / 1e9 for begin, end in ordered),
        ends_s=tuple(end / 1e9 for _, end in ordered),
        flagged=len(table.flagged - table.frames.keys()),
        rendered=rendered,
        interval_s=min(table.intervals) / 1e9 if table.intervals else None,
    )


class _FrameTable:
    """The frames of all tables so far: when each was due to begin, and when it was complete."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.frames: dict[int, int] = {}
        self.flagged: set[int] = set()
        self.intervals: set[int] = set()

    def add(self, row: Mapping[str, int], line: int, text: str) -> None:
        begin, end = row["IntendedVsync"], row["FrameCompleted"]
        if row["Flags"] != 0:
            self.flagged.add(begin)
        elif not _OPEN & {begin, end}:
            if not begin < end < begin + _LONGEST_NS:
                limit_s = _LONGEST_NS // 10**9
                raise unreadable(self._source, line, text, f"a frame that ends within {limit_s} s after it begins")
            self.frames[begin] = end
        if row.get(_INTERVAL, 0) > 0:
            self.intervals.add(row[_INTERVAL])


def _columns(text: str, source: str, line: int) -> tuple[str, ...]:
    columns = tuple(text.strip().rstrip(",").split(","))
    if not set(_NEEDED) <= set(columns) or len(set(columns)) != len(columns):
        raise unreadable(source, line, text, f"a header with the columns {', '.join(_NEEDED)}")
    return columns


def _row(text: str, columns: tuple[str, ...], source: str, line: int) -> Mapping[str, int]:
    cells = text.strip().rstrip(",").split(",")
    if len(cells) != len(columns):
        raise unreadable(source, line, text, f"a frame with {len(columns)} values")
    needed = (*_NEEDED, _INTERVAL)
    return {
        name: whole(cell, source, line, f"nanoseconds in {name}")
        for name, cell in zip(columns, cells, strict=True)
        if name in needed
    }


def is_latency(head: bytes) -> bool:
    lines = head[:4096].decode("ascii", "replace").split("\n")
    return (
        len(lines) > 2
        and lines[0].strip().isdecimal()
        and all(re.fullmatch(r"\d+\t\d+\t\d+", line.strip("\r ")) for line in lines[1:-1] if line.strip())
    )


def read_latency(data: bytes, source: str = "latency") -> ShownFrames:
    """Return when the frames of a layer were shown.

    Raise UnreadableOutput for other text, and for fewer than two frames.
    """
    refresh_ns: int | None = None
    shown: set[int] = set()
    for line, text in ended_lines(data, source):
        cells = text.split()
        if refresh_ns is None:
            refresh_ns = whole(text, source, line, "nanoseconds between two refreshes")
            if not 0 < refresh_ns < 10**9:
                raise unreadable(source, line, text, "a time between two refreshes, above 0 and below 1 s")
        elif cells:
            if len(cells) != 3:
                raise unreadable(source, line, text, "a frame with 3 values")
            moments = [whole(cell, source, line, "nanoseconds") for cell in cells]
            if not _OPEN & set(moments):
                shown.add(moments[1])
    if refresh_ns is None or len(shown) < 2:
        raise unreadable(source, None, "", "frames of a layer: it has shown fewer than two")
    ordered = sorted(shown)
    if ordered[-1] - ordered[0] > _LONGEST_NS * len(ordered):
        raise unreadable(source, None, str(ordered[-1]), "a moment near those of the other frames")
    return ShownFrames(shown_s=tuple(at / 1e9 for at in ordered), refresh_s=refresh_ns / 1e9)
