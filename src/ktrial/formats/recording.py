# SPDX-License-Identifier: Apache-2.0
"""What the readers of other tools' recordings share: columns over time become series of one source.

Names are those of the kernel where it has one (`vmstat.allocstall_normal`), so that the table of symptoms fits all.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from ktrial.domain.recording import Recording, Series, SeriesKind, Source
from ktrial.formats.tool_output import unreadable


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity with a value for each moment; NaN where there was none."""

    name: str
    unit: str
    kind: SeriesKind
    values: Sequence[float]


def check_times(times_s: Sequence[float], source: str) -> None:
    """Refuse fewer than two moments, and moments that do not rise."""
    if len(times_s) < 2:
        raise unreadable(source, None, f"{len(times_s)} moments", "a recording: it needs two moments at least")
    for number, (before, after) in enumerate(pairwise(times_s), start=2):
        if not after > before:
            raise unreadable(source, None, f"moment {number}", "after the one before it: did the clock step?")


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
    """A recording whose clock begins at its first moment; `unix_s` are the same moments of the calendar, if known."""
    check_times(times_s, name)
    if not columns:
        raise unreadable(name, None, "its columns", "a recording: none of them is known")
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
        notes=tuple(notes),
        machine=machine or {},
    )
