# SPDX-License-Identifier: Apache-2.0
"""Ends a live trial at once when a sample passes a hard limit or a guard trips."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ktrial.bench.record import RunRecord
from ktrial.kit.errors import LimitPassed
from ktrial.kit.units import three_digits
from ktrial.live.model import Sample
from ktrial.live.period import PERIOD_FILE, SeenPeriod, read_period
from ktrial.live.sampling import WatchedMetric
from ktrial.trial.run.loop import Standing

_RESTORED = "remove the cause, or start a trial with looser limits; all settings have been restored"


class GuardTrip(Protocol):
    """The reason why a guard tripped."""

    @property
    def sentence(self) -> str: ...


class SampleGuard(Protocol):
    """Checks every sample of the arms for harm."""

    def begin_period(self, arm: str) -> None: ...

    def take(self, metric: str, arm: str, samples: Sequence[Sample], *, settling: bool = False) -> GuardTrip | None: ...

    def end_block(self) -> GuardTrip | None: ...

    def drop_block(self) -> None: ...


class PastPeriod(NamedTuple):
    """A stored period of a resumed trial.

    `is_void` means that the period made its block void, `is_last` that it is the last of its block.
    """

    block: int
    arm: str
    seen: SeenPeriod
    is_void: bool
    is_last: bool


def past_periods(standing: Standing, raw_of: Callable[[RunRecord], bytes]) -> Iterator[PastPeriod]:
    """Yield the stored periods of a trial; `raw_of` returns the observations of the sources in a period."""
    for record in standing.records:
        assert record.trial is not None, "a period of this trial"
        block, arm = record.round, record.trial.arm
        is_last = record.position == len(standing.drawn[block].order)
        seen = read_period({PERIOD_FILE: raw_of(record)})
        yield PastPeriod(block, arm, seen, is_void=bool(record.void), is_last=is_last)


class Watchdog:
    """Checks every sample. `limits` maps metrics to limits in base units; `guard` watches the metrics `guarded`."""

    def __init__(
        self,
        metrics: Sequence[WatchedMetric],
        limits: Mapping[str, float],
        guard: SampleGuard | None = None,
        guarded: Sequence[str] = (),
    ) -> None:
        self._metrics = metrics
        self._limits = limits
        self._guard = guard
        self._guarded = tuple(guarded)

    def begin_period(self, arm: str) -> None:
        if self._guard is not None:
            self._guard.begin_period(arm)

    def take_up(self, past: Iterable[PastPeriod]) -> None:
        """Let the guards check the periods from before an interruption. Raise LimitPassed if these show harm."""
        block: int | None = None
        for one in past:
            if block is not None and block != one.block:
                self.drop_block()  # the block was interrupted
            self.begin_period(one.arm)
            self._guards(
                one.arm, {name: seen.samples for name, seen in one.seen.metrics.items()}, one.seen.begin_unix_ms
            )
            block = None if one.is_void or one.is_last else one.block
            if one.is_void:
                self.drop_block()
            elif one.is_last:
                self.end_block()
        if block is not None:
            self.drop_block()

    def check(self, arm: str, found: Mapping[str, Sequence[Sample]], settled_ms: float = 0) -> None:
        """Raise LimitPassed if one of the new samples ends the trial.

        Samples until `settled_ms` belong to a washout.
        """
        for one in self._metrics:
            self._check_limit(one, found.get(one.metric.name, ()))
        self._guards(arm, found, settled_ms)

    def _guards(self, arm: str, found: Mapping[str, Sequence[Sample]], settled_ms: float) -> None:
        for name in self._guarded if self._guard is not None else ():
            for settling in (True, False):
                samples = [one for one in found.get(name, ()) if (one.at_ms <= settled_ms) == settling]
                if samples and self._guard is not None:
                    _refuse_trip(self._guard.take(name, arm, samples, settling=settling))

    def end_block(self) -> None:
        """Raise LimitPassed if the blocks so far show a slow loss."""
        if self._guard is not None:
            _refuse_trip(self._guard.end_block())

    def drop_block(self) -> None:
        if self._guard is not None:
            self._guard.drop_block()

    def _check_limit(self, one: WatchedMetric, new: Sequence[Sample]) -> None:
        limit = self._limits.get(one.metric.name)
        if limit is None:
            return
        is_lower = one.outcome.direction == "lower"
        over = [sample.value for sample in new if (sample.value > limit if is_lower else sample.value < limit)]
        if over:
            value, bound = three_digits(over[0] / one.factor), f"{limit / one.factor:.12g}"
            raise LimitPassed(f"{one.metric.name} is {value} (limit {bound})", hint=_RESTORED)


def _refuse_trip(trip: GuardTrip | None) -> None:
    if trip is not None:
        raise LimitPassed(trip.sentence, hint=_RESTORED)
