# SPDX-License-Identifier: Apache-2.0
"""Phases of a recording, separated by changes in the level of reclaim, allocation and faults."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np

from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.change_points import change_points

#: A recording is cut into this many stretches of equal length, and changes are sought between them.
_STRETCHES = 60
#: A steady state needs a recording of at least this many seconds, and a last phase of at least this share of it.
SHORTEST_S = 600.0
_STEADY_SHARE = 0.2


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase with one level of activity.

    `level` is the mean distance of the log rates from their average, in standard deviations.
    """

    name: Literal["warm-up", "ramp-up", "steady state", "whole"]
    begin_s: float
    end_s: float
    level: float


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Phases in order of time, and the rates that show them. If there is no steady state, `doubt` says why."""

    phases: tuple[Phase, ...]
    told_by: tuple[str, ...]
    doubt: str | None = None


def find_phases(rates: Sequence[tuple[str, Array, Array]], begin_s: float, end_s: float) -> Phases:
    """Return the phases of a recording.

    Each rate is a name, the times, and for each time the growth per second since the time before it (NaN if unknown).
    """
    edges = np.linspace(begin_s, end_s, _STRETCHES + 1)
    rows, names = [], []
    for name, times_s, values in rates:
        row = _by_stretch(times_s, values, edges)
        if row is not None:
            rows.append(row)
            names.append(name)
    if not rows:
        silent = "cannot find phases: no rate of reclaim, allocation or faults varies"
        return Phases(phases=(_whole(begin_s, end_s),), told_by=(), doubt=silent)
    activity = np.mean(rows, axis=0)
    cuts = [point.place for point in change_points(activity)]
    bounds = [0, *cuts, _STRETCHES]
    levels = [float(np.mean(activity[start:stop])) for start, stop in pairwise(bounds)]
    doubt: str | None = None
    if end_s - begin_s < SHORTEST_S:
        doubt = f"{end_s - begin_s:.0f} s are too short to show a steady state (minimum {SHORTEST_S / 60:.0f} minutes)"
    elif cuts and (bounds[-1] - bounds[-2] < _STEADY_SHARE * _STRETCHES or levels[-1] > min(levels[:-1])):
        doubt = "the recording ends before a steady state"
    steady = doubt is None
    phases = [
        Phase(
            name=_name(place, len(levels), steady=steady),
            begin_s=float(edges[bounds[place]]),
            end_s=float(edges[bounds[place + 1]]),
            level=level,
        )
        for place, level in enumerate(levels)
    ]
    return Phases(phases=tuple(phases), told_by=tuple(names), doubt=doubt)


def _name(place: int, count: int, *, steady: bool) -> Literal["warm-up", "ramp-up", "steady state", "whole"]:
    if count == 1:
        return "steady state" if steady else "whole"
    if place == count - 1 and steady:
        return "steady state"
    return "warm-up" if place == 0 else "ramp-up"


def _whole(begin_s: float, end_s: float) -> Phase:
    return Phase(name="whole", begin_s=begin_s, end_s=end_s, level=0.0)


def _by_stretch(times_s: Array, values: Array, edges: Array) -> Array | None:
    """Return the distance of each stretch's log rate from the average of all stretches, in standard deviations.

    Return None if a stretch has no rate, or if all rates are equal.
    """
    known = np.isfinite(values)
    times, logs = times_s[known], np.log1p(np.maximum(values[known], 0))
    places = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(places, minlength=len(edges) - 1)
    if np.any(counts == 0):
        return None
    means = np.bincount(places, weights=logs, minlength=len(edges) - 1) / counts
    spread = float(np.std(means))
    return np.asarray((means - means.mean()) / spread) if spread > 1e-9 else None
