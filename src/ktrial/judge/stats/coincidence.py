# SPDX-License-Identifier: Apache-2.0
"""Coincidence: which causes overlap stutters more often than by chance.

Chance is simulated by shifting all stutters of a phase by one random time, around the phase as on a circle. The rhythms
of stutters and cause stay intact; only the link between them is broken. Causes are named one by one, the clearest
first; each further cause must explain stutters that the named ones do not. At each step p-values are corrected by Holm
for all causes that are still open.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from ktrial.judge.stats.arrays import Array, Truth
from ktrial.judge.stats.multiplicity import holm

SHIFTS = 1999
#: With more stutters than this, fewer shifts are enough.
_MANY = 2000
_FEW_SHIFTS = 499
_SEED = 20261123
#: A cause that explains fewer stutters than this is not named, whatever chance says.
FEWEST = 3


class Activity(msgspec.Struct, frozen=True):
    """The times at which a cause was active: sorted intervals that do not touch."""

    begins_s: Array
    ends_s: Array


class Coincidence(msgspec.Struct, frozen=True, kw_only=True):
    """Which stutters overlap a cause, and how many would by chance (mean and 95 % quantile).

    `p` covers all stutters. `p_adjusted` covers only stutters that were not yet explained when this cause was named or
    rejected. For a significant cause that is not `named`, `with_cause` is the first named cause that overlaps most of
    its stutters.
    """

    cause: str
    overlapping: tuple[int, ...]
    expected: float
    expected_high: float
    p: float
    p_adjusted: float
    named: bool
    with_cause: str | None = None


def merged(begins_s: Array, ends_s: Array) -> Activity:
    """Return the union of intervals in any order as sorted intervals that do not touch."""
    if len(begins_s) == 0:
        return Activity(np.empty(0), np.empty(0))
    order = np.argsort(begins_s, kind="stable")
    begins, ends = begins_s[order], np.maximum.accumulate(ends_s[order])
    fresh = np.concatenate([[True], begins[1:] > ends[:-1]])
    last = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(begins) - 1]])
    return Activity(begins[fresh], ends[last])


def overlaps(activity: Activity, begins_s: Array, ends_s: Array) -> Truth:
    """Return whether each interval overlaps the activity, as an array of the same shape."""
    if len(activity.begins_s) == 0:
        return np.zeros(begins_s.shape, dtype=bool)
    before_end = np.searchsorted(activity.begins_s, ends_s, side="right")
    reach = np.concatenate([[-np.inf], activity.ends_s])[before_end]
    return np.asarray(reach >= begins_s)


def coincidences(
    activities: Mapping[str, Activity],
    begins_s: Array,
    ends_s: Array,
    phases: Sequence[tuple[float, float]],
    alpha: float = 0.05,
    last: Collection[str] = (),
    makes: Mapping[str, Collection[str]] | None = None,
) -> tuple[Coincidence, ...]:
    """Return each cause that was active at all. The named causes are first, in the order in which they were named.

    Causes in `last` may be consequences of a stutter. They are named only if no other cause is significant. `makes`
    maps a cause to its effects. A significant cause is named before its effects if it overlaps most stutters that the
    effects overlap.
    """
    made_by = {effect: cause for cause, effects in (makes or {}).items() for effect in effects}
    seen = {name: overlaps(one, begins_s, ends_s) for name, one in activities.items() if len(one.begins_s)}
    moved = {name: _by_chance(activities[name], begins_s, ends_s, phases) for name in seen}
    whole = {name: _against(seen[name], moved[name], np.ones(len(begins_s), dtype=bool)) for name in seen}
    open_stutters = np.ones(len(begins_s), dtype=bool)
    taken: dict[str, float] = {}
    left = list(seen)
    adjusted: dict[str, float] = dict.fromkeys(left, 1.0)
    while left:
        now = {name: _against(seen[name], moved[name], open_stutters) for name in left}
        corrected = dict(zip(left, holm([now[name].p for name in left]).tolist(), strict=True))
        adjusted.update(corrected)
        standing = [
            name for name in left if corrected[name] <= alpha and int(np.sum(seen[name] & open_stutters)) >= FEWEST
        ]
        if not standing:
            break
        best = max(standing, key=lambda name: (name not in last, now[name].score))
        behind = made_by.get(best)
        if behind in standing and _mostly(seen[best] & open_stutters, seen[behind]):
            best = behind
        taken[best] = corrected[best]
        open_stutters &= ~seen[best]
        left.remove(best)
    explained = {
        name: next((other for other in taken if whole[name].p <= alpha and _mostly(seen[name], seen[other])), None)
        for name in seen
        if name not in taken
    }
    ordered = [*taken, *sorted(explained, key=lambda name: whole[name].p)]
    return tuple(
        Coincidence(
            cause=name,
            overlapping=tuple(np.flatnonzero(seen[name]).tolist()),
            expected=whole[name].mean,
            expected_high=whole[name].high,
            p=whole[name].p,
            p_adjusted=taken.get(name, adjusted[name]),
            named=name in taken,
            with_cause=explained.get(name),
        )
        for name in ordered
    )


def _mostly(inner: Truth, outer: Truth) -> bool:
    return int(np.sum(inner & outer)) * 2 > int(np.sum(inner))


class _Against(msgspec.Struct, frozen=True):
    p: float
    mean: float
    high: float
    score: float


def _against(seen: Truth, moved: Truth, counted: Truth) -> _Against:
    """Compare the observed number of overlaps with those under the shifts, among the counted stutters."""
    here = int(np.sum(seen & counted))
    chance = np.sum(moved & counted, axis=1)
    spread = float(np.std(chance)) or 0.5
    return _Against(
        p=(1 + int(np.sum(chance >= here))) / (len(chance) + 1),
        mean=float(np.mean(chance)),
        high=float(np.quantile(chance, 0.95)),
        score=(here - float(np.mean(chance))) / spread,
    )


def _by_chance(activity: Activity, begins_s: Array, ends_s: Array, phases: Sequence[tuple[float, float]]) -> Truth:
    """Return for each shift whether each stutter overlaps. Phases rotate separately, all causes by the same shifts."""
    generator = np.random.default_rng(_SEED)
    shifts = SHIFTS if len(begins_s) <= _MANY else _FEW_SHIFTS
    found = np.zeros((shifts, len(begins_s)), dtype=bool)
    # A stutter that began before the recording belongs to the first phase.
    starts = np.array([begin_s for begin_s, _ in phases])
    phase_of = np.clip(np.searchsorted(starts, begins_s, side="right") - 1, 0, len(phases) - 1)
    for number, (begin_s, end_s) in enumerate(phases):
        length_s = end_s - begin_s
        shares = generator.uniform(0, 1, size=shifts)
        inside = np.flatnonzero(phase_of == number)
        if length_s <= 0 or len(inside) == 0:
            continue
        round_twice = _twice(activity, begin_s, end_s)
        begins = (begins_s[inside][np.newaxis] - begin_s + shares[:, np.newaxis] * length_s) % length_s
        found[:, inside] = overlaps(round_twice, begins, begins + (ends_s - begins_s)[inside][np.newaxis])
    return found


def _twice(activity: Activity, begin_s: float, end_s: float) -> Activity:
    """Return the activity within a phase, followed by a copy of itself, so that shifts can wrap around the end."""
    inside = (activity.ends_s >= begin_s) & (activity.begins_s < end_s)
    begins = np.clip(activity.begins_s[inside], begin_s, end_s) - begin_s
    ends = np.clip(activity.ends_s[inside], begin_s, end_s) - begin_s
    length_s = end_s - begin_s
    return merged(np.concatenate([begins, begins + length_s]), np.concatenate([ends, ends + length_s]))
