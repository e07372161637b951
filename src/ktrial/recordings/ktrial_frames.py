# SPDX-License-Identifier: Apache-2.0
"""The file `frames.csv` beside a recording of `ktrial watch`: end and duration of each frame."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from ktrial.kit.formats.tool_output import decode_output, unreadable
from ktrial.recordings.model import Frames, Recording, Source

HEADER = "end_unix_ns,duration_ns,clock_error_ns"
#: Header of old files without a clock error.
_SHORT = "end_unix_ns,duration_ns"
_DIGITS = 19


def is_frames(head: bytes) -> bool:
    return head.startswith((HEADER.encode() + b"\n", _SHORT.encode() + b"\n"))


def rows(frames: Iterable[tuple[int, float]], unix_at_zero_ns: int, clock_error_s: float) -> str:
    """Return a line for each frame: its end and its duration, both in ns.

    A frame of `frames` is its end, in ns after `unix_at_zero_ns`, and its duration in seconds.
    """
    error_ns = round(clock_error_s * 1e9)
    return "".join(
        f"{unix_at_zero_ns + end_ns},{round(duration_s * 1e9)},{error_ns}\n" for end_ns, duration_s in frames
    )


def read_frames(data: bytes, name: str) -> Recording:
    """Return a recording that has only frames. Skip a truncated last row. Raise UnreadableOutput for other files."""
    header, *lines = decode_output(data, name).split("\n")
    if header not in {HEADER, _SHORT}:
        raise unreadable(name, 1, header, f"the header {HEADER}")
    whole = lines[-1] == ""
    told = [_row(line, name, number, header.count(",") + 1) for number, line in enumerate(lines[:-1], 2)]
    if not told:
        raise unreadable(name, None, "", "a list of frames: it has no frame")
    # Rows are in order of arrival; with several threads that is not the order of their ends.
    told.sort()
    begin_ns = told[0][0] - told[0][1]
    ends_s = array("d", ((row[0] - begin_ns) / 1e9 for row in told))
    frames = Frames(
        kind="frame",
        source="frames",
        ends_s=ends_s,
        durations_s=array("d", (row[1] / 1e9 for row in told)),
        clock_error_s=max(row[2] for row in told) / 1e9,
    )
    return Recording(
        name=name,
        begin_s=0.0,
        end_s=ends_s[-1],
        unix_at_zero_s=begin_ns / 1e9,
        ended="whole" if whole else "cut-off",
        sources=(Source(name="frames", state="active", seen=len(told)),),
        frames=frames,
    )


def _row(line: str, name: str, number: int, columns: int) -> tuple[int, int, int]:
    parts = line.split(",")
    if len(parts) != columns or not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in parts):
        raise unreadable(name, number, line, f"a row of {columns} whole numbers of nanoseconds")
    end_ns, took_ns, error_ns = (*map(int, parts), 0)[:3]
    return end_ns, took_ns, error_ns
