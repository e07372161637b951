# SPDX-License-Identifier: Apache-2.0
"""`frames.csv` beside a recording of `ktrial watch`: when each frame ended, and how long it took."""

from __future__ import annotations

from array import array

from ktrial.domain.recording import Frames, Recording, Source
from ktrial.formats.tool_output import decoded, unreadable

HEADER = "end_unix_ns,duration_ns,clock_error_ns"
#: That of those who knew of no error.
_SHORT = "end_unix_ns,duration_ns"
_DIGITS = 19


def is_frames(head: bytes) -> bool:
    """Whether it begins as `written` does."""
    return head.startswith((HEADER.encode() + b"\n", _SHORT.encode() + b"\n"))


def written(frames: Frames, unix_at_zero_s: float) -> str:
    """The file of frames whose clock is zero at that second since 1970."""
    zero_ns = round(unix_at_zero_s * 1e9)
    error_ns = round(frames.clock_error_s * 1e9)
    rows = (
        f"{zero_ns + round(end_s * 1e9)},{round(duration_s * 1e9)},{error_ns}\n"
        for end_s, duration_s in zip(frames.ends_s, frames.durations_s, strict=True)
    )
    return f"{HEADER}\n{''.join(rows)}"


def read_frames(data: bytes, name: str) -> Recording:
    """Frames alone. Raises UnreadableOutput; what was cut within its last row is read up to there."""
    header, *lines = decoded(data, name).split("\n")
    if header not in {HEADER, _SHORT}:
        raise unreadable(name, 1, header, f"the header {HEADER}")
    whole = lines[-1] == ""
    rows = [_row(line, name, number, header.count(",") + 1) for number, line in enumerate(lines[:-1], 2)]
    if not rows:
        raise unreadable(name, None, "nothing", "a frame in each line")
    begin_ns = rows[0][0] - rows[0][1]
    ends_s = array("d", ((row[0] - begin_ns) / 1e9 for row in rows))
    try:
        frames = Frames(
            kind="frame",
            source="frames",
            ends_s=ends_s,
            durations_s=array("d", (row[1] / 1e9 for row in rows)),
            clock_error_s=max(row[2] for row in rows) / 1e9,
        )
    except ValueError as error:
        raise unreadable(name, None, str(error), "frames in the order of time") from None
    return Recording(
        name=name,
        begin_s=0.0,
        end_s=ends_s[-1],
        unix_at_zero_s=begin_ns / 1e9,
        ended="whole" if whole else "cut-off",
        sources=(Source(name="frames", state="active", seen=len(rows)),),
        frames=frames,
    )


def _row(line: str, name: str, number: int, columns: int) -> tuple[int, int, int]:
    parts = line.split(",")
    if len(parts) != columns or not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in parts):
        raise unreadable(name, number, line, f"{columns} whole numbers of nanoseconds")
    end_ns, took_ns, error_ns = (*map(int, parts), 0)[:3]
    return end_ns, took_ns, error_ns
