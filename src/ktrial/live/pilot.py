# SPDX-License-Identifier: Apache-2.0
"""The plan of a live trial from a pilot: washout, length of a period, number of blocks, and the time they take.

The pilot is live work that was watched while the control was in force, or while control and arm were switched a few
times. ktrial reads only the noise and the time after switches from the pilot, never which arm is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ktrial.judge.planning import affordable_cap, block_sd, blocks_to_detect, smallest_effect
from ktrial.judge.sequential import Array
from ktrial.judge.stats.covariate import regress_differences
from ktrial.judge.stats.critical import LOOKS
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Direction
from ktrial.kit.units import three_digits
from ktrial.live.guard import typical_gap_s
from ktrial.live.model import Sample
from ktrial.live.pace import slot_seconds

#: Lengths of periods that are tried, in seconds.
LENGTHS_S = (10, 20, 30, 60, 120, 180, 300, 600, 900, 1_200, 1_800, 3_600)
#: A period has at least this many samples; a pilot has at least this many.
_FEWEST_IN_PERIOD, FEWEST_SAMPLES = 5, 60
#: A period is read if this share of its samples is there; fewer samples make it look noisier, never quieter.
_LEAST_PRESENT = 0.2
#: A length is tried if the pilot holds so many pairs of periods. The noise of longer ones is not guessed from shorter:
#: a load that comes and goes makes it grow again.
_FEWEST_PAIRS = 6
#: Covariates never explain more than all but this share of the pairs' freedom.
_LEAST_KEPT = 0.1
#: The time after a switch is cut into slices; the last ones are taken as settled.
_SLICES, _SETTLED_SLICES = 12, 4
#: A slice moves if it lies this many standard errors and this share of the effect to detect off the settled level.
_MOVES_Z, _MOVES_SHARE = 3.5, 0.1
_FEWEST_SWITCHES = 3
#: Without switches, the washout is as long as samples are correlated, but no longer than this.
_MOST_ASSUMED_S = 60.0
#: Of trials up to so many times as long as the shortest, the one with the longest periods is taken.
_HARDLY_MORE = 1.1
#: Autocorrelation below this is none.
_NO_MEMORY = 0.05


class PilotSwitch(NamedTuple):
    """An arm, and the time at which it came into force."""

    at_ms: int
    arm: str


class LengthTried(msgspec.Struct, frozen=True, kw_only=True):
    """A possible length of the period, with the sd of a block's difference, the blocks needed, and how long they take.

    `cap` is null if the trial may not have so many blocks.
    """

    period_s: float
    sd: float
    needed: int
    cap: int | None
    duration_s: float


class LivePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan of periods. `can_detect` is false if `cap` blocks cannot find the effect.

    `smallest_effect` is the smallest effect that `cap` blocks can find. `washout_measured` is false if the pilot had
    too few switches, or if the work had not settled before the next switch. Neighbouring samples have the correlation
    `lag1`, and samples more than `memory_s` apart have hardly any. `sd` is the standard deviation of a block's
    difference.
    """

    period_s: float
    washout_s: float
    washout_measured: bool
    cap: int
    needed: int
    sd: float
    smallest_effect: float
    can_detect: bool
    duration_s: float
    lag1: float
    memory_s: float
    tried: tuple[LengthTried, ...]
    why: tuple[str, ...]


class LiveWish(msgspec.Struct, frozen=True, kw_only=True):
    """What effect a live trial must find, and what it may cost.

    `summary` says how a period's value is computed from samples. `longest_s` is the time that the user allows.
    """

    direction: Direction
    detect: float = 0.05
    arms: int = 2
    comparisons: int = 1
    budget: int = LOOKS[-1]
    summary: Literal["mean", "median"] = "mean"
    least_washout_s: float = 1.0
    least_period_s: float = 0.0
    longest_s: float | None = None


class _Series(NamedTuple):
    """Samples in the order of time: seconds since the first, and logarithms in which larger is better.

    The sign is -1 if lower values are better.
    """

    times: Array
    scores: Array
    every_s: float
    sign: float

    @property
    def length_s(self) -> float:
        return float(self.times[-1] - self.times[0]) + self.every_s


class _Washout(NamedTuple):
    washout_s: float
    measured: bool
    why: str


def plan_live(
    samples: Sequence[Sample],
    wish: LiveWish,
    switches: Sequence[PilotSwitch] = (),
    covariates: Mapping[str, Sequence[Sample]] = {},
) -> LivePlan:
    """Return the plan of a live trial. Raise BadInput if the samples of the pilot do not allow a plan.

    With covariates, the trial compares periods as if the covariates were equal. Only the variation
    that the covariates do not explain is noise.
    """
    series = _series(samples, wish)
    begin_s = samples[0].at_ms / 1000
    cuts = [(switch.at_ms / 1000 - begin_s, switch.arm) for switch in switches]
    _, memory_s = _memory(_without_effects(series, cuts, 0.0))
    washout = _washout(series, cuts, wish, memory_s)
    calm = _without_effects(series, cuts, washout.washout_s)
    lag1, memory_s = _memory(calm)
    rivals = [_rival(series, begin_s, row) for row in covariates.values()]
    tried = tuple(_tried(calm, washout.washout_s, wish, rivals))
    if not tried:
        needed_s = _FEWEST_PAIRS * (2 * _shortest(calm, washout.washout_s, wish) + washout.washout_s)
        raise BadInput(
            f"cannot plan periods: the pilot lasted {_time_text(series.length_s)} but must last {_time_text(needed_s)}",
            hint="add --period, for example  --period 5min",
        )
    best, cap, can_detect = _best(tried, washout.washout_s, wish)
    duration_s = _duration_s(cap, wish, washout.washout_s, best.period_s)
    found = smallest_effect(best.sd, cap)
    read = (
        f"the pilot has {len(samples)} samples, one every {three_digits(series.every_s)} s; neighbours are correlated "
        f"by {lag1:.2f}, and samples more than {three_digits(memory_s)} s apart hardly are"
    )
    cost = (
        f"{_blocks_text(best, cap, found, wish, can_detect=can_detect)}; {cap} blocks of {wish.arms} periods of "
        f"{three_digits(washout.washout_s)} + {three_digits(best.period_s)} s take at most {_time_text(duration_s)}"
    )
    why = (read, washout.why, *_why_length(best, tried, tuple(covariates)), cost)
    return LivePlan(
        period_s=best.period_s,
        washout_s=washout.washout_s,
        washout_measured=washout.measured,
        cap=cap,
        needed=best.needed,
        sd=best.sd,
        smallest_effect=found,
        can_detect=can_detect,
        duration_s=duration_s,
        lag1=lag1,
        memory_s=memory_s,
        tried=tried,
        why=why,
    )


def _series(samples: Sequence[Sample], wish: LiveWish) -> _Series:
    known = [sample for sample in samples if math.isfinite(sample.value)]
    if len(known) < FEWEST_SAMPLES:
        raise BadInput(
            f"the pilot read the primary metric {len(known)} times, too few to plan a trial (minimum {FEWEST_SAMPLES})",
            hint="add --period, for example  --period 5min",
        )
    values = np.array([sample.value for sample in known])
    if (values <= 0).any():
        raise BadInput(
            "cannot plan a trial: the primary outcome has values of zero or below",
            hint="choose another --primary, or a longer --poll if the value is zero only at times",
        )
    times = np.array([sample.at_ms for sample in known]) / 1000
    if (np.diff(times) < 0).any():
        raise BadInput(
            "cannot plan a trial: the samples of the pilot are not in chronological order",
            hint="run the command again while no program changes the clock",
        )
    every_s = typical_gap_s(known)
    if every_s == 0:
        raise BadInput(
            "cannot plan a trial: most samples of the pilot have the same time as another sample",
            hint="add --period, for example  --period 5min",
        )
    sign = 1.0 if wish.direction == "higher" else -1.0
    return _Series(times - samples[0].at_ms / 1000, sign * np.log(values), every_s, sign)


def _parts(series: _Series, cuts: Sequence[tuple[float, str]]) -> Iterator[tuple[str, float, float]]:
    """Yield which arm was in force, from when until when, in seconds since the first sample."""
    if not cuts:
        yield "", 0.0, series.length_s
        return
    ends = [*(at for at, _ in cuts[1:]), series.length_s]
    for (at, arm), end in zip(cuts, ends, strict=True):
        yield arm, at, end


def _without_effects(series: _Series, cuts: Sequence[tuple[float, str]], washout_s: float) -> _Series:
    """Return the series without washouts, and with the median of each arm taken away."""
    kept = np.zeros(len(series.times), dtype=bool)
    scores = series.scores.copy()
    arms: dict[str, list[NDArray[np.intp]]] = {}
    for arm, begin, end in _parts(series, cuts):
        dropped = washout_s if cuts else 0.0
        inside = (series.times >= begin + dropped) & (series.times < end)
        kept |= inside
        arms.setdefault(arm, []).append(np.flatnonzero(inside))
    for places in arms.values():
        together = np.concatenate(places)
        if len(together):
            scores[together] -= np.median(series.scores[together])
    if kept.sum() < FEWEST_SAMPLES:
        raise BadInput(
            f"cannot plan a trial: only {int(kept.sum())} samples of the pilot lie outside the washouts "
            f"(minimum {FEWEST_SAMPLES})",
            hint="add --period, for example  --period 5min",
        )
    return _Series(series.times[kept], scores[kept], series.every_s, series.sign)


def _memory(series: _Series) -> tuple[float, float]:
    """Return the correlation of neighbours, and after how many seconds samples are no longer correlated."""
    centred = series.scores - series.scores.mean()
    total = float(centred @ centred)
    if total <= 0:
        return 0.0, series.every_s
    lags = range(1, max(2, len(centred) // 4))
    found = [float(centred[lag:] @ centred[:-lag]) / total for lag in lags]
    gone = next((lag for lag, value in zip(lags, found, strict=True) if value < _NO_MEMORY), lags[-1])
    return found[0], gone * series.every_s


def _washout(series: _Series, cuts: Sequence[tuple[float, str]], wish: LiveWish, memory_s: float) -> _Washout:
    """Return how long the outcome still moves after a switch, from its mean course over all switches to an arm."""
    parts = _parts(series, cuts) if cuts else ()
    switched = [part for before, part in pairwise(parts) if before[0] != part[0]]
    length = min((end - begin for _, begin, end in switched), default=0.0)
    slice_s = max(length / _SLICES, series.every_s)
    courses: dict[str, list[Array]] = {}
    for arm, begin, _ in switched:
        course = _course(series, begin, slice_s)
        if course is not None:
            courses.setdefault(arm, []).append(course)
    usable = {arm: np.array(rows) for arm, rows in courses.items() if len(rows) >= _FEWEST_SWITCHES}
    if not usable:
        washout_s = max(wish.least_washout_s, min(memory_s, _MOST_ASSUMED_S))
        why = (
            f"the pilot has too few switches to an arm (minimum {_FEWEST_SWITCHES}) to measure the washout; ktrial "
            f"drops {three_digits(washout_s)} s after each switch, as long as samples are correlated (at most "
            f"{_MOST_ASSUMED_S:g} s)"
        )
        return _Washout(washout_s, False, why)
    last = max(_last_moving(rows, wish.detect) for rows in usable.values())
    count = sum(map(len, usable.values()))
    if last < 0:
        washout_s = max(wish.least_washout_s, slice_s)
        why = (
            f"in {count} switches the outcome does not move after the first {three_digits(slice_s)} s; ktrial drops "
            f"{three_digits(washout_s)} s after each"
        )
        return _Washout(washout_s, True, why)
    moves_s = (last + 1) * slice_s
    washout_s = max(wish.least_washout_s, moves_s + slice_s)
    if last == _SLICES - _SETTLED_SLICES - 1:
        why = (
            f"in {count} switches the outcome still moves after {three_digits(moves_s)} s, shortly before the next "
            f"switch; ktrial drops {three_digits(washout_s)} s, which may be too little (make the pilot's periods "
            "longer)"
        )
        return _Washout(washout_s, False, why)
    moves, drops = three_digits(moves_s), three_digits(washout_s)
    why = f"in {count} switches the outcome moves for {moves} s; ktrial drops {drops} s after each"
    return _Washout(washout_s, True, why)


def _course(series: _Series, begin: float, slice_s: float) -> Array | None:
    """Return the mean of each slice after a switch, relative to the last slices; None if a slice is empty."""
    places = np.floor((series.times - begin) / slice_s + 1e-9).astype(np.int64)
    means = [series.scores[places == place] for place in range(_SLICES)]
    if min(map(len, means)) == 0:
        return None
    course = np.array([float(values.mean()) for values in means])
    return np.asarray(course - course[-_SETTLED_SLICES:].mean())


def _last_moving(rows: Array, detect: float) -> int:
    """Return the last slice that lies off the settled level; -1 if none does."""
    tested = rows[:, : _SLICES - _SETTLED_SLICES]
    means = tested.mean(axis=0)
    error = math.sqrt(float(tested.var(axis=0, ddof=1).mean()) / len(rows))
    moving = np.abs(means) > max(_MOVES_Z * error, _MOVES_SHARE * math.log1p(detect))
    return int(np.flatnonzero(moving)[-1]) if moving.any() else -1


def _rival(series: _Series, begin_s: float, samples: Sequence[Sample]) -> _Series:
    known = [sample for sample in samples if math.isfinite(sample.value)]
    times = np.array([sample.at_ms for sample in known]) / 1000 - begin_s
    return series._replace(times=times, scores=np.array([sample.value for sample in known]))


def _tried(calm: _Series, washout_s: float, wish: LiveWish, rivals: Sequence[_Series]) -> Iterator[LengthTried]:
    """Yield each possible length of the period with its noise and cost, the shortest first."""
    least = _shortest(calm, washout_s, wish)
    for period_s in sorted({float(one) for one in LENGTHS_S if one >= least} | {least}):
        differences = _pair_differences(calm, period_s, washout_s, wish.summary, rivals)
        if differences is None:
            return
        sd = block_sd(differences.tolist())
        needed = blocks_to_detect(sd, wish.detect)
        cap = affordable_cap(needed, wish.comparisons)
        cap = cap if cap is None or cap <= wish.budget else None
        yield LengthTried(
            period_s=period_s,
            sd=sd,
            needed=needed,
            cap=cap,
            duration_s=_duration_s(cap or needed, wish, washout_s, period_s),
        )


def _duration_s(blocks: int, wish: LiveWish, washout_s: float, period_s: float) -> float:
    """Return how long this many blocks take, with the time between periods."""
    return blocks * wish.arms * slot_seconds(washout_s + period_s)


def _shortest(calm: _Series, washout_s: float, wish: LiveWish) -> float:
    """Return the shortest period to try: it has enough samples and is at least as long as the washout."""
    return max(wish.least_period_s, _FEWEST_IN_PERIOD * calm.every_s, washout_s)


def _pair_differences(
    calm: _Series, period_s: float, washout_s: float, summary: Literal["mean", "median"], rivals: Sequence[_Series]
) -> Array | None:
    """Return how much neighbouring periods of the pilot differ; None if the pilot holds too few periods."""
    span = 2 * period_s + washout_s
    if calm.length_s < _FEWEST_PAIRS * span:
        return None
    found = []
    # Pairs overlap: that uses all of the pilot, and each pair still has the right spread.
    for begin in (np.arange(0.0, calm.length_s - span + 1e-9, period_s / 2) + calm.times[0]).tolist():
        stretches = [(at, at + period_s) for at in (begin, begin + period_s + washout_s)]
        values = [
            [_summary(calm, *stretch, summary) for stretch in stretches],
            *([_mean(rival, *stretch) for stretch in stretches] for rival in rivals),
        ]
        if all(first is not None and second is not None for first, second in values):
            found.append([float(second or 0.0) - float(first or 0.0) for first, second in values])
    if len(found) < _FEWEST_PAIRS:
        return None
    differences, *apart = np.array(found).T
    fit = regress_differences(differences, np.column_stack(apart)) if apart else None
    if fit is None:
        return np.asarray(differences)
    # Slopes that are fitted to few pairs leave less than the trial's blocks will.
    kept = max(_LEAST_KEPT, 1 - len(apart) * span / calm.length_s)
    return np.asarray((differences - np.column_stack(apart) @ fit.slopes) / math.sqrt(kept))


def _mean(rival: _Series, begin: float, end: float) -> float | None:
    first, last = np.searchsorted(rival.times, (begin - 1e-9, end - 1e-9))
    return float(rival.scores[first:last].mean()) if last > first else None


def _summary(calm: _Series, begin: float, end: float, summary: Literal["mean", "median"]) -> float | None:
    """Return the score of a stretch; None if too many of its samples are missing, or lie in a washout."""
    first, last = np.searchsorted(calm.times, (begin - 1e-9, end - 1e-9))
    inside = calm.scores[first:last]
    if len(inside) < _LEAST_PRESENT * (end - begin) / calm.every_s:
        return None
    if summary == "median":
        return float(np.median(inside))
    # The mean is that of the values, not of their scores.
    return calm.sign * math.log(float(np.exp(calm.sign * inside).mean()))


def _best(tried: Sequence[LengthTried], washout_s: float, wish: LiveWish) -> tuple[LengthTried, int, bool]:
    """Return the length of the shortest trial that finds the effect, and its cap.

    If no trial finds it within budget and time, return the length and cap that find the smallest effect.
    """
    longest_s = math.inf if wish.longest_s is None else wish.longest_s
    able = [one for one in tried if one.cap is not None and one.duration_s <= longest_s]
    if able:
        shortest_s = min(one.duration_s for one in able)
        # Every switch disturbs: for hardly more time, longer periods are better.
        best = max((one for one in able if one.duration_s <= _HARDLY_MORE * shortest_s), key=lambda one: one.period_s)
        assert best.cap is not None
        return best, best.cap, True
    possible = []
    for one in tried:
        fits = [
            cap
            for cap in LOOKS
            if cap <= wish.budget
            and affordable_cap(cap, wish.comparisons) == cap
            and _duration_s(cap, wish, washout_s, one.period_s) <= longest_s
        ]
        if fits:
            possible.append((smallest_effect(one.sd, fits[-1]), one.period_s, one, fits[-1]))
    if not possible:
        least = _duration_s(LOOKS[0], wish, washout_s, tried[0].period_s)
        raise BadInput(
            f"cannot plan a live trial of at most {wish.budget} blocks"
            f"{f' within {_time_text(longest_s)}' if math.isfinite(longest_s) else ''}",
            hint=f"allow at least {_time_text(least)} and {LOOKS[0]} blocks with --for, --budget or --switches",
        )
    _, _, best, cap = min(possible, key=lambda one: one[:2])
    return best, cap, False


def _why_length(best: LengthTried, tried: Sequence[LengthTried], covariates: Sequence[str]) -> Iterator[str]:
    if covariates:
        yield f"periods are judged at equal {' and '.join(covariates)}"
    yield (
        f"neighbouring periods of {three_digits(best.period_s)} s differ by {best.sd:.2%} without any change "
        "(sd, with a quarter added)"
    )
    others = [one for one in tried if one is not best and one.cap is not None]
    if best.cap is not None and others:
        listed = ", ".join(f"{_time_text(one.duration_s)} ({three_digits(one.period_s)} s)" for one in others[:4])
        yield f"other lengths take at most {listed}"


def _blocks_text(best: LengthTried, cap: int, found: float, wish: LiveWish, *, can_detect: bool) -> str:
    if can_detect:
        return f"to find {wish.detect:.1%} in nine of ten trials takes {best.needed} blocks, so the cap is {cap}"
    enough = affordable_cap(best.needed, wish.comparisons)
    more = "a longer pilot can try longer periods"
    if enough is not None and enough > wish.budget:
        more = f"--budget {enough} allows as many, and {more}"
    return (
        f"to find {wish.detect:.1%} would take {best.needed} blocks, more than allowed; {cap} blocks find "
        f"{found:.1%} or more ({more})"
    )


def _time_text(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "any time"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 3_600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
