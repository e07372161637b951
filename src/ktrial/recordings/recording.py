# SPDX-License-Identifier: Apache-2.0
"""What readers of other tools' files share: columns over time become series of one source.

If the kernel has a name for a series (`vmstat.allocstall_normal`), the series gets that name, so that the table of
symptoms applies to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from ktrial.kit.formats.tool_output import unreadable
from ktrial.kit.units import three_digits
from ktrial.recordings.model import Gap, Recording, Series, SeriesKind, Source

#: Up to this share of backward steps, a wall clock counts as usable.
_BACK_SHARE = 0.02
#: Tolerance for tools that state the time since the previous sample in whole seconds.
_TOLD_S = 2.0
#: Factor and extra time beyond the usual step that make a pause.
_PAUSE_TIMES, _PAUSE_S = 5.0, 5.0


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity with a value for each moment; NaN if missing."""

    name: str
    unit: str
    kind: SeriesKind
    values: Sequence[float]


def steadied(
    wall_s: Sequence[float], source: str, lengths_s: Sequence[float] | None = None
) -> tuple[list[float], tuple[Gap, ...]]:
    """Map `wall_s`, times of a wall clock that may have stepped, to a clock that only rises.

    Return the mapped times, and the steps and pauses as gaps. `lengths_s` are the times since the previous sample
    according to the tool. Without `lengths_s`, an interval with a step gets the usual length. Raise UnreadableOutput
    for fewer than two times, or if the clock often fails to advance.
    """
    if len(wall_s) < 2:
        raise unreadable(source, None, "", "a recording: it has fewer than two samples")
    steps = [after - before for before, after in pairwise(wall_s)]
    forward = sorted(step for step in steps if step > 0)
    back = len(steps) - len(forward)
    if back > max(1, _BACK_SHARE * len(steps)) or not forward:
        number = next(place for place, step in enumerate(steps, 2) if not step > 0)
        raise unreadable(source, None, "", f"a usable recording: its clock does not advance at sample {number}")
    usual_s = forward[len(forward) // 2]
    times_s, gaps = [wall_s[0]], []
    for place, step in enumerate(steps):
        told_s = lengths_s[place + 1] if lengths_s is not None and lengths_s[place + 1] > 0 else None
        stepped = step <= 0 or (told_s is not None and abs(step - told_s) > max(_TOLD_S, 0.1 * told_s))
        took_s = (told_s or usual_s) if stepped else step
        begin_s = times_s[-1] - wall_s[0]
        times_s.append(times_s[-1] + took_s)
        end_s = times_s[-1] - wall_s[0]
        if stepped:
            sign = "-" if step < took_s else "+"
            why = f"the wall clock stepped by {sign}{three_digits(abs(step - took_s))} s"
            gaps.append(Gap(kind="clock-step", begin_s=begin_s, end_s=end_s, why=why))
        elif took_s > _PAUSE_TIMES * usual_s + _PAUSE_S:
            took, usual = three_digits(took_s), three_digits(usual_s)
            why = f"no sample for {took} s (usually {usual} s): suspended, stopped, or the clock stepped"
            gaps.append(Gap(kind="missing", begin_s=begin_s, end_s=end_s, why=why))
    return times_s, tuple(gaps)


def recording_of(
    name: str,
    source: str,
    unix_s: Sequence[float] | None,
    times_s: Sequence[float],
    columns: Sequence[Column],
    *,
    notes: Sequence[str] = (),
    machine: Mapping[str, str | int | float] | None = None,
) -> Recording:
    """Return a recording whose clock begins at its first moment; `unix_s` are the calendar times, if known."""
    times_s, gaps = steadied(times_s, name)
    if not columns:
        raise unreadable(name, None, "", "a recording: it has no known column")
    base = times_s[0]
    moments = array("d", (time_s - base for time_s in times_s))
    series = {
        one.name: Series(
            name=one.name,
            source=source,
            unit=one.unit,
            kind=one.kind,
            times_s=moments,
            values=array("d", one.values),
        )
        for one in columns
    }
    steps = sorted(after - before for before, after in pairwise(moments))
    usual_s = steps[len(steps) // 2]
    return Recording(
        name=name,
        begin_s=0.0,
        end_s=moments[-1],
        unix_at_zero_s=None if unix_s is None else unix_s[0],
        sources=(Source(name=source, state="active", achieved_hz=1 / usual_s, seen=len(moments)),),
        series=series,
        gaps=gaps,
        notes=tuple(notes),
        machine=machine or {},
    )
