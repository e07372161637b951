# SPDX-License-Identifier: Apache-2.0
"""Ends a live trial at once when a sample passes a hard limit or a guard trips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ktrial.kit.errors import LimitPassed
from ktrial.live.model import Sample
from ktrial.live.sampling import WatchedMetric

_RESTORED = "the trial has ended, and all settings have been restored"


class GuardTrip(Protocol):
    """Why a guard trips."""

    @property
    def sentence(self) -> str: ...


class SampleGuard(Protocol):
    """Watches the samples of the arms for harm, at every moment."""

    def begin_period(self, arm: str) -> None: ...

    def take(self, metric: str, arm: str, samples: Sequence[Sample], *, settling: bool = False) -> GuardTrip | None: ...

    def end_block(self) -> GuardTrip | None: ...

    def drop_block(self) -> None: ...


class Watchdog:
    """Looks at every sample. `limits` are in base units by metric; `guarded` metrics are those that `guard` watches."""

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
        self._guarded = frozenset(guarded)

    def begin_period(self, arm: str) -> None:
        if self._guard is not None:
            self._guard.begin_period(arm)

    def check(self, arm: str, found: Mapping[str, Sequence[Sample]], *, settling: bool = False) -> None:
        """Raise LimitPassed if one of the new samples ends the trial."""
        for one in self._metrics:
            new = found.get(one.metric.name, ())
            self._check_limit(one, new)
            if self._guard is not None and one.metric.name in self._guarded and new:
                _refuse_trip(self._guard.take(one.metric.name, arm, new, settling=settling))

    def end_block(self) -> None:
        """Raise LimitPassed if the blocks so far show a loss."""
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
            unit = "" if one.outcome.unit == "score" else f" {one.outcome.unit}"
            raise LimitPassed(f"{one.metric.name} is {over[0]:.4g}{unit} (limit {limit:g}{unit})", hint=_RESTORED)


def _refuse_trip(trip: GuardTrip | None) -> None:
    if trip is not None:
        raise LimitPassed(trip.sentence, hint=_RESTORED)
