# SPDX-License-Identifier: Apache-2.0
"""Read frame logs of MangoHud: the CSV of every release that writes `frametime`, if it has one row per frame.

ktrial finds columns by name. `frametime` was whole microseconds up to 0.6 and is milliseconds since; its inverse `fps`
shows which. `elapsed` is nanoseconds since logging began. With an interval (`log_interval`, default 100 ms) each row is
a sample: the log lacks the frames between two rows, so there are no frame statistics. In such a log `elapsed` does not
advance by the row's own frame time.

The first row is never used: its frame began before the log. (Some programs give their first frame the time since the
machine started.) A last line without a newline is incomplete and is left out.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import decode_output, number, unreadable, whole
from ktrial.recordings.frames.statistics import FrameSamples

FrameUnit = Literal["ms", "us"]

PER_FRAME = "record again with log_interval=0; `ktrial frames -- COMMAND` sets it"
_SUMMARY = "0.1% Min FPS,"
_SYSTEM = "os,cpu,gpu,"
_NEEDED = ("fps", "frametime", "elapsed")
#: The header is within this many lines from the start.
_HEAD_LINES = 50
_PER_SECOND: Mapping[FrameUnit, float] = {"ms": 1e3, "us": 1e6}
#: fps times frametime of the middle row may be off by this factor; ms and us are 1000 apart.
_UNIT_FACTOR = 2.0
#: A row belongs to one frame when `elapsed` moved on by its frame time, within 2 % and 50 us.
_ROW_SHARE, _ROW_S = 0.02, 50e-6
#: At least this share of rows must belong to one frame each, and all frame times together must match the logged time to
#: within 1 %.
_ROWS, _TOTAL = 0.95, 0.01


class MangoHudLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log with one row per frame. `system` is empty if a value contains a comma; `system_row` is the unparsed row.

    `frame_times_s` are in the order of the frames, without the first row.
    """

    version: str | None
    system: Mapping[str, str]
    system_row: str | None
    columns: tuple[str, ...]
    frame_time_unit: FrameUnit
    frame_times_s: tuple[float, ...]
    cut_off: bool = False


class SampledLog(BadRun):
    """Raised for a log that holds samples of the frame rate instead of frames."""

    def __init__(self, message: str, samples: FrameSamples) -> None:
        super().__init__(message, hint=PER_FRAME)
        self.samples = samples


class _Row(msgspec.Struct, frozen=True):
    line: int
    fps: float
    frame_time: float
    elapsed_ns: int


class _Head(msgspec.Struct, frozen=True):
    """The part of a log before its rows, which begin after line `end`."""

    version: str | None
    system: Mapping[str, str]
    system_row: str | None
    columns: tuple[str, ...]
    end: int


def is_mangohud(data: bytes) -> bool:
    """Return whether MangoHud wrote the file, as a log or a summary."""
    begin = data[:4096].decode("utf-8", "replace").lstrip("\ufeff").replace("\r\n", "\n")
    return begin.startswith((_SYSTEM, _SUMMARY, "v1\n", "fps,"))


def read_mangohud(data: bytes, source: str = "capture.csv") -> MangoHudLog:
    """Read a log with one row per frame. Raise SampledLog for samples, BadRun for a summary and other files."""
    lines = decode_output(data, source).lstrip("\ufeff").split("\n")
    cut_off = bool(lines.pop())
    lines = [line.removesuffix("\r") for line in lines]
    if (lines or [""])[0].startswith(_SUMMARY) or data.startswith(_SUMMARY.encode()):
        raise BadRun(
            f"{source}: this is MangoHud's summary, which has no frames",
            hint="give the file of the same name without _summary",
        )
    head = _head(lines, source)
    rows = _rows(lines, head, source)
    if len(rows) < 2:
        raise unreadable(source, None, "", "a log of frames: it has fewer than two rows")
    unit = _unit(rows, source)
    if (why := _why_sampled(rows, unit)) is not None:
        raise SampledLog(f"{source}: {why}", _samples(rows, head))
    return MangoHudLog(
        version=head.version,
        system=head.system,
        system_row=head.system_row,
        columns=head.columns,
        frame_time_unit=unit,
        frame_times_s=tuple(row.frame_time / _PER_SECOND[unit] for row in rows[1:]),
        cut_off=cut_off,
    )


def _head(lines: Sequence[str], source: str) -> _Head:
    fields_of = [tuple(field.strip() for field in line.split(",")) for line in lines[:_HEAD_LINES]]
    at = next((index for index, fields in enumerate(fields_of) if "fps" in fields[:2]), None)
    if at is None:
        raise unreadable(
            source, 1, lines[0] if lines else "", "a log of MangoHud: no line names the columns fps and frametime"
        )
    begin = next((index for index in range(at) if lines[index].startswith(_SYSTEM)), at)
    values = [line for line in lines[begin + 1 : at] if not line.startswith("---")]
    row = "\n".join(values) if values else None
    found = row.split(",") if row is not None else []
    return _Head(
        version=lines[1].strip() if lines[0] == "v1" else None,
        system=dict(zip(fields_of[begin], found, strict=True)) if len(found) == len(fields_of[begin]) else {},
        system_row=row,
        columns=_columns(fields_of[at], at + 1, source),
        end=at + 1,
    )


def _columns(fields: tuple[str, ...], line: int, source: str) -> tuple[str, ...]:
    double = sorted({field for field in fields if fields.count(field) > 1})
    if double:
        raise unreadable(source, line, ",".join(fields), f"a header whose columns differ: {double[0]} appears twice")
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        raise BadRun(
            f"{source}:{line}: the log has no column {' and no column '.join(missing)}",
            hint="record again with MangoHud 0.6.2 or later",
        )
    return fields


def _rows(lines: Sequence[str], head: _Head, source: str) -> list[_Row]:
    places = [head.columns.index(name) for name in _NEEDED]
    width = len(head.columns)
    rows: list[_Row] = []
    for line, text in enumerate(lines[head.end :], head.end + 1):
        fields = text.split(",")
        if len(fields) != width or fields == list(head.columns):
            raise _wrong_row(fields, head, line, text, source)
        fps, frame_time, elapsed = (fields[place] for place in places)
        row = _Row(
            line,
            number(fps, source, line, "frames per second"),
            number(frame_time, source, line, "a frame time"),
            whole(elapsed, source, line, "elapsed nanoseconds"),
        )
        if row.frame_time == 0 or row.fps == 0:
            raise unreadable(source, line, text, "a row of a frame: its frame time or fps is 0")
        if rows and row.elapsed_ns < rows[-1].elapsed_ns:
            raise unreadable(source, line, text, "later than the row before: elapsed goes backwards")
        rows.append(row)
    return rows


def _wrong_row(fields: Sequence[str], head: _Head, line: int, text: str, source: str) -> BadRun:
    width = len(head.columns)
    if text.startswith((_SYSTEM, "v1")) or "fps" in fields:
        return BadRun(
            f"{source}:{line}: a second log begins here",
            hint=f"split the file before line {line}: each log has its own statistics",
        )
    if len(fields) > width:
        return BadRun(
            f"{source}:{line}: {len(fields)} values for {width} columns, probably because of decimal commas",
            hint="record again with LC_ALL=C in the program's environment",
        )
    return unreadable(source, line, text, f"a row of {width} values: it has {len(fields)}")


def _unit(rows: Sequence[_Row], source: str) -> FrameUnit:
    """Derive the unit from the median of fps times frametime. Raise BadRun if it fits neither unit."""
    product = statistics.median(row.fps * row.frame_time for row in rows[1:])
    for unit, per_second in _PER_SECOND.items():
        if per_second / _UNIT_FACTOR <= product <= per_second * _UNIT_FACTOR:
            return unit
    raise BadRun(
        f"{source}: cannot determine the unit of frametime, because fps times frametime is mostly {product:.0f}; "
        "expected 1000 (milliseconds) or 1000000 (microseconds)",
        hint="record again with MangoHud 0.6.2 or later",
    )


def _why_sampled(rows: Sequence[_Row], unit: FrameUnit) -> str | None:
    """Return why the rows are samples; None if each row is one frame and none is missing."""
    passed_s = [(row.elapsed_ns - before.elapsed_ns) / 1e9 for before, row in itertools.pairwise(rows)]
    frames_s = [row.frame_time / _PER_SECOND[unit] for row in rows[1:]]
    fitting = sum(
        abs(passed - frame) <= _ROW_SHARE * frame + _ROW_S for passed, frame in zip(passed_s, frames_s, strict=True)
    )
    total_s, logged_s = sum(frames_s), (rows[-1].elapsed_ns - rows[0].elapsed_ns) / 1e9
    # A row's clock may be read a little before or after its frame's.
    if fitting >= _ROWS * len(frames_s) and abs(total_s - logged_s) <= _TOTAL * logged_s + _ROW_S:
        return None
    return (
        f"sampled, not one row per frame: elapsed advanced by the row's own frame time in only {fitting} of "
        f"{len(frames_s)} rows, and the log has {total_s:.1f} s of frames in {logged_s:.1f} s; "
        "samples have no frame statistics"
    )


def _samples(rows: Sequence[_Row], head: _Head) -> FrameSamples:
    """Return the frame rates, each for the time since the previous row. The first row has none."""
    stood_s = [(row.elapsed_ns - before.elapsed_ns) / 1e9 for before, row in itertools.pairwise(rows)]
    kept = [(row.fps, stood) for row, stood in zip(rows[1:], stood_s, strict=True) if stood]
    return FrameSamples(
        made_by="MangoHud",
        version=head.version,
        fps=tuple(fps for fps, _ in kept),
        stood_s=tuple(stood for _, stood in kept),
        attributes=head.system,
        notes=(f"for lows and stutters, {PER_FRAME}",),
    )
