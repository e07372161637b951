# SPDX-License-Identifier: Apache-2.0
"""Guards of a live trial, which check every sample when it arrives: hard limits, surges, and slow losses.

A **limit** is a number that the user stated. It trips when enough consecutive samples are beyond the limit, in any arm.

A **surge** is an e-process on single samples of an arm's period. It counts whether a sample is beyond a level. The
first level is the allowed margin plus six spreads above the control's last period; the others are two, four and eight
times as high. The null hypothesis is a Markov chain, because samples of live work depend on each other. It states how
often a sample is beyond each level, given the number of levels that the previous sample exceeded. ktrial counts this in
the pilot and in all periods of the control. The hypothesis assumes that an arm without effect surges no more
often, and no longer, than these counts show. Excursions that the control never showed are assumed to be rare (one in
ten thousand samples) and short (2 s): a new kind of noise that first appears in an arm's period can trip the guard. A
surge has at least two samples, and 5 s of samples, in one period.

A **slow loss** is an e-process on whole blocks. It assumes nothing about the noise, because chance drew the order in a
block.

Every guard may be checked at any moment. Surges and slow losses share one error rate among all guards and arms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ktrial.judge.sequential import Array
from ktrial.judge.stats import evalue
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Direction
from ktrial.kit.units import three_digits
from ktrial.live.model import Sample

#: The error of all guards together: the chance that one of them trips although no arm has an effect.
GUARD_ALPHA = 0.01
#: A level is the margin plus this many spreads, times one of the factors.
LEVEL_SDS = 6.0
FACTORS = (1.0, 2.0, 4.0, 8.0)
#: With fewer samples of the control, only hard limits are in force.
FEWEST_CONTROL_SAMPLES = 30
#: Assumption about excursions that the control never showed: they begin in 0.1 of 1,000 samples ...
_BEGIN, _BEGIN_OF = 0.1, 1_000.0
#: ... and last about this many seconds; at least this share of excursions continues in the next sample.
_LASTING_S, _LEAST_STAY = 2.0, 0.25
#: A surge lasts at least this many seconds and samples of one period.
_SHORTEST_S, _FEWEST_BEYOND = 5.0, 2
#: Counts are small, so a chance is the upper end of an interval, this many standard errors above the count, and below
#: 1.
_UPPER_Z, _NEVER_SURE = 2.0, 1e-6
#: A harmful arm is beyond the level in at least this share of its samples.
_HARMFUL = 0.8
#: Weights of the three possible starts of a harm: the arm's first period, a later period, any sample.
_FIRST_PERIOD, _LATER_PERIODS, _ANY_SAMPLE = 0.25, 0.25, 0.5
#: Number of the newest control samples that are used for counting.
_MOST_KEPT = 20_000
#: With this many periods, the pilot gives the spread of blocks.
_PROFILE_PERIODS = 5
#: The smallest value of a metric that was always zero.
_NO_VALUE = 1e-12
_MAD = 1.4826


class Guard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric that must not get worse by more than `margin` (a share), nor pass `limit` (in the samples' unit).

    `consecutive` samples in a row beyond the limit trip the guard. Sentences show values in the unit that the metric's
    name states: samples divided by `factor`.
    """

    metric: str
    direction: Direction
    margin: float = 0.10
    limit: float | None = None
    consecutive: int = 2
    factor: float = 1.0


class Trip(msgspec.Struct, frozen=True, kw_only=True):
    """A guard that tripped, with the arm and the reason: `value` is beyond `bound`.

    `by` is `limit`, `surge` or `slow loss`. The bound of a surge is the level in the metric's unit; for a slow loss,
    the bound is the margin and the value is the loss. `evidence` is the e-value; `needed` is the e-value at which a
    guard trips.
    """

    metric: str
    arm: str
    by: Literal["limit", "surge", "slow loss"]
    at_ms: int | None
    value: float
    bound: float
    evidence: float | None = None
    needed: float | None = None
    sentence: str


class GuardWatch:
    """All guards of one trial. Call `learn` with samples of the pilot, then `take` with all others in order of time.

    `blocks` is the cap of the trial, and `samples` is the approximate number of samples in a period.
    """

    def __init__(
        self,
        guards: Sequence[Guard],
        arms: Sequence[str],
        control: str,
        *,
        blocks: int,
        samples: int,
        alpha: float = GUARD_ALPHA,
    ) -> None:
        for guard in guards:
            if guard.consecutive < 1 or not guard.margin >= 0:
                raise BadInput(
                    f"guard of {guard.metric}: expected a margin of 0 or more and at least 1 sample in a row, "
                    f"got {guard.margin:g} and {guard.consecutive}",
                    hint="correct the guard in the protocol",
                )
        self._control = control
        others = [arm for arm in arms if arm != control]
        needed = 2 * max(1, len(guards) * len(others)) / alpha
        self._watched = {guard.metric: _Watched(guard, others, needed, blocks, max(1, samples)) for guard in guards}

    def learn(self, metric: str, samples: Sequence[Sample]) -> None:
        """Learn the usual values from a pilot in which the control was in force."""
        self._watched[metric].learn(samples)

    def is_armed(self, metric: str) -> bool:
        """Return whether the control has enough samples to detect surges; hard limits are always in force."""
        return self._watched[metric].ordinary is not None

    def begin_period(self, arm: str) -> None:
        """Begin a period of an arm; the caller has passed all samples of the previous period."""
        for watched in self._watched.values():
            watched.begin_period(arm)

    def take(self, metric: str, arm: str, samples: Sequence[Sample], *, settling: bool = False) -> Trip | None:
        """Add samples and return the first trip; None if nothing trips. With `settling`, check only hard limits."""
        watched = self._watched[metric]
        for sample in samples:
            if math.isnan(sample.value):
                continue
            trip = watched.over_limit(arm, sample)
            if trip is None and not settling:
                watched.keep(arm, sample)
                trip = watched.surge(arm, sample) if arm != self._control else None
            if trip is not None:
                return trip
        return None

    def end_block(self) -> Trip | None:
        """End a valid block. Return the slow loss that the blocks so far show; None if they show none."""
        trips = [watched.end_block() for watched in self._watched.values()]
        return next((trip for trip in trips if trip is not None), None)

    def drop_block(self) -> None:
        """End a void block."""
        for watched in self._watched.values():
            watched.drop_block()


def typical_gap_s(samples: Sequence[Sample]) -> float:
    """Return the median time between neighbouring samples; the mean time if the median is zero."""
    gaps = np.diff([sample.at_ms for sample in samples]) / 1000
    return float(np.median(gaps)) or float(gaps.mean())


class _Ordinary(NamedTuple):
    """The behaviour of the control's samples, relative to the median of the control's previous period.

    `chances` has a row for each level: how often a sample is beyond the level if the previous sample was beyond none,
    one, two, … levels.
    """

    reference: float
    levels: Sequence[float]
    chances: Sequence[Sequence[float]]
    fewest: int


class _Evidence:
    """The e-process of one guard in one arm. It is a mixture over levels and over the start of the harm."""

    def __init__(self, blocks: int, samples: int) -> None:
        self._wealth = [0.0] * len(FACTORS)
        self._depth = 0
        self._count = [0] * len(FACTORS)
        self._per_period = _LATER_PERIODS / blocks
        self._per_sample = _ANY_SAMPLE / (blocks * samples)
        self._left_of_periods, self._left_of_samples = _LATER_PERIODS, _ANY_SAMPLE
        self._entering: float | None = None

    def begin_period(self) -> None:
        if self._entering is None:
            self._entering = _FIRST_PERIOD
        else:
            # Repeated blocks may exceed the plan; no weight is left for them.
            self._entering = min(self._per_period, self._left_of_periods)
            self._left_of_periods -= self._entering
        self._depth = 0
        self._count = [0] * len(FACTORS)

    def add(self, above: float, ordinary: _Ordinary) -> tuple[float, int | None]:
        """Add a sample; `above` is its distance from the reference, above zero if it is worse.

        Return the evidence, and the highest level that this and enough earlier samples exceed; None if no level fits.
        """
        start = min(self._per_sample, self._left_of_samples)
        self._left_of_samples -= start
        start += self._entering or 0.0
        self._entering = 0.0
        highest, depth = None, 0
        for place, level in enumerate(ordinary.levels):
            now = above > level
            chance = ordinary.chances[place][self._depth]
            harmful = max(_HARMFUL, (1 + chance) / 2)
            self._wealth[place] = (self._wealth[place] + start) * (
                harmful / chance if now else (1 - harmful) / (1 - chance)
            )
            depth += now
            self._count[place] += now
            highest = place if now and self._count[place] >= ordinary.fewest else highest
        self._depth = depth
        return sum(self._wealth) / len(FACTORS), highest


class _Watched:
    """One guard, and everything that is known about its metric."""

    def __init__(self, guard: Guard, arms: Sequence[str], needed: float, blocks: int, samples: int) -> None:
        self._guard, self._needed, self._samples = guard, needed, samples
        self._sign = 1.0 if guard.direction == "lower" else -1.0
        self._floor = 0.0
        self._arm, self._crossed = "", 0
        self.ordinary: _Ordinary | None = None
        self._reference: float | None = None
        self._deviations: list[Array] = []
        self._control: list[float] = []
        self._every_s = math.inf
        self._evidence = {arm: _Evidence(blocks, samples) for arm in arms}
        self._block: dict[str, list[float]] = {}
        self._losses: dict[str, list[float]] = {arm: [] for arm in arms}
        self._profile: tuple[float, ...] | None = None

    def learn(self, samples: Sequence[Sample]) -> None:
        known = [sample for sample in samples if math.isfinite(sample.value)]
        values = np.array([sample.value for sample in known])
        if (values < 0).any():
            raise BadInput(
                f"cannot guard {self._guard.metric}: expected values of 0 or more, got {values.min():g}",
                hint=f"use --limit-metric {self._guard.metric}=NUMBER instead of --guard (in a protocol: limits)",
            )
        if (values == 0).any():
            # Zero has no logarithm, so the smallest value that was seen is added to all values.
            self._floor = float(values[values > 0].min()) if values.any() else _NO_VALUE
        if len(known) > 1:
            self._every_s = typical_gap_s(known) or math.inf
        worse = np.array([self._worse(value) for value in values])
        parts = np.array_split(worse, max(2, len(worse) // self._samples))
        for part in parts:
            self._control = part.tolist()
            self._end_control_period()
        medians = [float(np.median(part)) for part in parts if len(part)]
        if len(medians) >= _PROFILE_PERIODS:
            self._profile = tuple(np.diff(medians).tolist())

    def begin_period(self, arm: str) -> None:
        self._end_control_period()
        if arm in self._evidence:
            self._evidence[arm].begin_period()

    def over_limit(self, arm: str, sample: Sample) -> Trip | None:
        """Return the trip of the hard limit if this sample completes enough samples beyond the limit."""
        limit = self._guard.limit
        if limit is None:
            return None
        if arm != self._arm or self._sign * sample.value <= self._sign * limit:
            self._crossed = 0
        self._arm = arm
        if self._sign * sample.value <= self._sign * limit:
            return None
        self._crossed += 1
        if self._crossed < self._guard.consecutive:
            return None
        samples = "a sample" if self._crossed == 1 else f"{self._crossed} samples in a row"
        beyond = "above" if self._sign > 0 else "below"
        factor = self._guard.factor
        last = f"the limit {limit / factor:g} (the last: {sample.value / factor:g})"
        sentence = f"{self._guard.metric} in {arm}: {samples} {beyond} {last}"
        return self._trip(arm, "limit", sample, limit, sentence)

    def keep(self, arm: str, sample: Sample) -> None:
        worse = self._worse(sample.value)
        self._block.setdefault(arm, []).append(worse)
        if arm not in self._evidence:
            self._control.append(worse)

    def surge(self, arm: str, sample: Sample) -> Trip | None:
        """Return the trip of a surge; None unless the evidence reaches `needed` and enough samples exceed a level."""
        if self.ordinary is None:
            return None
        worse = self._worse(sample.value)
        reference = self.ordinary.reference
        evidence, level = self._evidence[arm].add(worse - reference, self.ordinary)
        if evidence < self._needed or level is None:
            return None
        bound = self._value(reference + self.ordinary.levels[level])
        factor = self._guard.factor
        usual, now = self._value(reference) / factor, sample.value / factor
        sentence = (
            f"{self._guard.metric} in {arm}: {three_digits(now)}, while the control's last period had "
            f"{three_digits(usual)}; more samples lie beyond {three_digits(bound / factor)} than the control explains "
            f"(e-value {three_digits(evidence)}, limit {three_digits(self._needed)})"
        )
        return self._trip(arm, "surge", sample, bound, sentence, evidence)

    def drop_block(self) -> None:
        self._end_control_period()
        self._block = {}

    def end_block(self) -> Trip | None:
        """Return the trip of an arm whose evidence over blocks reaches `needed` with this block; None if none trips."""
        self._end_control_period()
        medians = {arm: float(np.median(values)) for arm, values in self._block.items()}
        self._block = {}
        control = next((medians.pop(arm) for arm in tuple(medians) if arm not in self._evidence), None)
        if control is None:
            return None
        for arm, median in medians.items():
            if not math.isfinite(loss := median - control):
                continue
            self._losses[arm].append(loss)
            found = np.array(self._losses[arm])
            margin = math.log1p(self._guard.margin)
            evidence = evalue.e_value(found, evalue.scales(found, self._profile), margin).above
            if evidence >= self._needed:
                lost = math.expm1(float(np.median(found)))
                sentence = (
                    f"{self._guard.metric} in {arm}: worse by {lost:.1%} over {len(found)} blocks, beyond the allowed "
                    f"{self._guard.margin:.1%} (e-value {three_digits(evidence)}, limit {three_digits(self._needed)})"
                )
                return Trip(
                    metric=self._guard.metric,
                    arm=arm,
                    by="slow loss",
                    at_ms=None,
                    value=lost,
                    bound=self._guard.margin,
                    evidence=evidence,
                    needed=self._needed,
                    sentence=sentence,
                )
        return None

    def _trip(
        self,
        arm: str,
        by: Literal["limit", "surge"],
        sample: Sample,
        bound: float,
        sentence: str,
        evidence: float | None = None,
    ) -> Trip:
        return Trip(
            metric=self._guard.metric,
            arm=arm,
            by=by,
            at_ms=sample.at_ms,
            value=sample.value,
            bound=bound,
            evidence=evidence,
            needed=None if evidence is None else self._needed,
            sentence=sentence,
        )

    def _end_control_period(self) -> None:
        """Count the samples of the control's period relative to the previous one, and make it the new reference."""
        period, self._control = np.array(self._control), []
        if not len(period):
            return
        if self._reference is not None and math.isfinite(self._reference):
            self._deviations.append(period - self._reference)
        self._reference = float(np.median(period))
        kept = sum(map(len, self._deviations))
        while kept - len(self._deviations[0] if self._deviations else ()) > _MOST_KEPT:
            kept -= len(self._deviations.pop(0))
        if kept >= FEWEST_CONTROL_SAMPLES and math.isfinite(self._reference):
            self.ordinary = _ordinary(self._reference, self._deviations, self._guard.margin, self._every_s)

    def _worse(self, value: float) -> float:
        """Return a logarithm that increases as the metric gets worse."""
        # A value below zero counts as zero.
        positive = max(value, 0.0) + self._floor
        return self._sign * (math.log(positive) if positive > 0 else -math.inf)

    def _value(self, worse: float) -> float:
        return math.exp(self._sign * worse) - self._floor


def _ordinary(reference: float, deviations: Sequence[Array], margin: float, every_s: float) -> _Ordinary:
    """Return the levels, and how often a sample of the control exceeds each of them.

    The frequencies depend on how many levels the previous sample exceeded.
    """
    together = np.concatenate(deviations)
    finite = together[np.isfinite(together)]
    spread = _MAD * float(np.median(np.abs(finite))) if len(finite) else 0.0
    levels = (math.log1p(margin) + LEVEL_SDS * spread) * np.array(FACTORS)
    depths = [(period[:, None] > levels).sum(axis=1) for period in deviations]
    now = np.concatenate(depths)
    before = np.concatenate([np.concatenate(([0], depth[:-1])) for depth in depths])
    unseen = max(_LEAST_STAY, math.exp(-every_s / _LASTING_S))
    chances = []
    begins, begun = 0.0, 0
    for place in range(len(FACTORS)):
        goes = now > place
        calm = before < max(place, 1)
        if goes[calm].any():
            begins, begun = _upper(goes[calm]), int(goes[calm].sum())
        else:
            # None of the excursions that began at lower levels reached this level at once.
            lower = begins * _upper(np.zeros(begun, dtype=np.bool_)) if begun else 0.0
            begins = max(lower, _BEGIN / (int(calm.sum()) + _BEGIN_OF))
        # An excursion may rise from the level below.
        below = (before == place) & ~calm
        stays = before > place
        rises, lasts = (_upper(goes[some]) if some.any() else unseen for some in (below, stays))
        chances.append([*[begins] * max(place, 1), *[rises] * (place > 0), *[lasts] * (len(FACTORS) - place)])
    return _Ordinary(
        reference=reference,
        levels=levels.tolist(),
        chances=chances,
        fewest=max(_FEWEST_BEYOND, math.ceil(_SHORTEST_S / every_s)),
    )


def _upper(hits: NDArray[np.bool_]) -> float:
    """Return the upper end of Wilson's interval of a share, which is below 1."""
    trials, share, square = len(hits), float(np.mean(hits)), _UPPER_Z**2
    spread = _UPPER_Z * math.sqrt(trials * share * (1 - share) + square / 4)
    return (trials * share + square / 2 + spread) / (trials + square) * (1 - _NEVER_SURE)
