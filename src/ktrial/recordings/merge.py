# SPDX-License-Identifier: Apache-2.0
"""Merges the files of one recording onto one clock."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.recordings.model import Frames, Recording

_DAY_S = 86400.0
#: Zones differ from UTC by whole quarters of an hour.
_ZONE_S = 900.0
_ZONES = range(-48, 57)


def together(name: str, parts: Sequence[Recording]) -> Recording:
    """Merge `parts`, which were read from several files; the clock of the result begins at their first moment.

    A part that has only times of day goes between the beginning and the end of the other parts. Raise BadInput if its
    place is ambiguous, if no part is dated, or if parts contain the same data.
    """
    if len(parts) == 1:
        return msgspec.structs.replace(parts[0], name=name)
    dated = [part for part in parts if part.unix_at_zero_s is not None]
    if not dated:
        raise BadInput(
            "cannot merge the files, because none says when it was recorded",
            file=name,
            hint="give the files one at a time",
        )
    zero_s = min((part.unix_at_zero_s or 0.0) + part.begin_s for part in dated)
    end_s = max((part.unix_at_zero_s or 0.0) + part.end_s for part in dated)
    moved = [moved_by(part, (part.unix_at_zero_s or 0.0) - zero_s) for part in dated]
    for part in parts:
        if part.unix_at_zero_s is None:
            if part.frames is not None:
                raise BadInput(
                    "cannot merge the frames, because their log does not say when it began",
                    file=part.name,
                    hint="give the beginning in seconds since 1970: --frames-began 1760000000.5",
                )
            moved.append(moved_by(part, _place(part, zero_s, end_s) - zero_s))
    _check_names(name, moved)
    frames = _frames(name, [part.frames for part in moved if part.frames is not None])
    return Recording(
        name=name,
        begin_s=min(part.begin_s for part in moved),
        end_s=max(part.end_s for part in moved),
        unix_at_zero_s=zero_s,
        clock_error_s=max(part.clock_error_s for part in moved),
        ended="cut-off" if any(part.ended == "cut-off" for part in moved) else "whole",
        sources=tuple(source for part in moved for source in part.sources),
        series={key: series for part in moved for key, series in part.series.items()},
        events=tuple(sorted((event for part in moved for event in part.events), key=lambda event: event.begin_s)),
        frames=frames,
        usages=tuple(usage for part in moved for usage in part.usages),
        latencies={name: one for part in moved for name, one in part.latencies.items()},
        gaps=tuple(gap for part in moved for gap in part.gaps),
        checks=tuple(check for part in moved for check in part.checks),
        command=next((part.command for part in moved if part.command), ()),
        groups=next((part.groups for part in moved if part.groups), ()),
        interrupts=next((part.interrupts for part in moved if part.interrupts is not None), None),
        labels={key: text for part in moved for key, text in part.labels.items()},
        machine={key: text for part in moved for key, text in part.machine.items()},
        notes=tuple(dict.fromkeys(note for part in moved for note in part.notes)),
    )


def _frames(name: str, found: Sequence[Frames]) -> Frames | None:
    """Return the frames; without frames, the recorder's wake-ups or None. Raise BadInput for several frame logs."""
    told = [one for one in found if one.kind != "wake-up"] or found
    if len(told) > 1:
        raise BadInput(
            "cannot merge the recording, because more than one file contains frames",
            file=name,
            hint="keep one frame log per recording",
        )
    return told[0] if told else None


def _place(part: Recording, begin_s: float, end_s: float) -> float:
    """Return the midnight, as Unix time, that puts the part between `begin_s` and `end_s`.

    Prefer time zones of whole hours. Raise BadInput if no midnight fits, or if several fit.
    """
    inside = []
    first_day = (begin_s // _DAY_S - 1) * _DAY_S
    for midnight_s in (first_day, first_day + _DAY_S, first_day + 2 * _DAY_S):
        for zone in _ZONES:
            zero_s = midnight_s - zone * _ZONE_S
            error_s = part.clock_error_s
            if begin_s - error_s <= zero_s + part.begin_s and zero_s + part.end_s <= end_s + error_s:
                inside.append(zero_s)
    found = sorted(set(inside))
    whole_hours = [zero_s for zero_s in found if zero_s % 3600 == 0] or found
    if len(whole_hours) != 1:
        why = "it is outside the others in every time zone" if not found else f"it fits in {len(found)} time zones"
        raise BadInput(
            f"cannot merge a file that has only times of day, because {why}",
            file=part.name,
            hint="give the file's time zone, for example  --utc-offset +02:00",
        )
    return whole_hours[0]


def with_start(part: Recording, unix_s: float) -> Recording:
    """Date frames whose log does not say when they began. Return any other part unchanged."""
    if part.frames is None or part.unix_at_zero_s is not None:
        return part
    return msgspec.structs.replace(part, unix_at_zero_s=unix_s)


def with_offset(part: Recording, dated: Sequence[Recording], offset_s: float) -> Recording:
    """Date a part that has only times of day, from the UTC offset of its zone and the beginning of the dated parts.

    Without dated parts, return the part unchanged.
    """
    begins = [(one.unix_at_zero_s or 0.0) + one.begin_s for one in dated if one.unix_at_zero_s is not None]
    if not begins:
        return part
    begin_s = min(begins)
    day_s = ((begin_s + offset_s) // _DAY_S) * _DAY_S - offset_s
    after = part.begin_s + day_s >= begin_s - part.clock_error_s
    return msgspec.structs.replace(part, unix_at_zero_s=day_s if after else day_s + _DAY_S)


def _check_names(name: str, parts: Sequence[Recording]) -> None:
    seen: dict[str, str] = {}
    for part in parts:
        for key in (*part.series, *(source.name for source in part.sources)):
            if key in seen and seen[key] != part.name:
                raise BadInput(
                    f"{seen[key]} and {part.name} both contain {key}", file=name, hint="leave out one of the two files"
                )
            seen[key] = part.name


def moved_by(part: Recording, by_s: float) -> Recording:
    """Return the recording on a clock whose zero is `by_s` earlier."""
    if by_s == 0:
        return part
    clocks: dict[int, array[float]] = {}

    def moved(times_s: array[float]) -> array[float]:
        """Return `times_s` moved by `by_s`; series that share an array get the same result."""
        if id(times_s) not in clocks:
            clocks[id(times_s)] = array("d", (time_s + by_s for time_s in times_s))
        return clocks[id(times_s)]

    replace = msgspec.structs.replace

    frames: Frames | None = part.frames and replace(part.frames, ends_s=moved(part.frames.ends_s))
    return replace(
        part,
        begin_s=part.begin_s + by_s,
        end_s=part.end_s + by_s,
        unix_at_zero_s=None if part.unix_at_zero_s is None else part.unix_at_zero_s - by_s,
        series={name: replace(one, times_s=moved(one.times_s)) for name, one in part.series.items()},
        events=tuple(replace(one, begin_s=one.begin_s + by_s) for one in part.events),
        usages=tuple(replace(one, times_s=moved(one.times_s)) for one in part.usages),
        gaps=tuple(replace(one, begin_s=one.begin_s + by_s, end_s=one.end_s + by_s) for one in part.gaps),
        frames=frames,
    )
