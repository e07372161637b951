# SPDX-License-Identifier: Apache-2.0
"""Simulated live work: autocorrelated series, and trials that guards watch sample by sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.signal import lfilter

from ktrial.judge.sequential import Array
from ktrial.live.guard import Guard, GuardWatch, Trip
from ktrial.live.model import Sample

GUARDED = "latency"
PILOT_SAMPLES, PERIOD_SAMPLES, BLOCKS = 600, 60, 20


def remembering(generator: np.random.Generator, length: int, memory: float, sd: float, tails: bool = False) -> Array:
    """Return a stationary series whose neighbours have the correlation `memory`.

    With `tails`, its steps have Student's t3 distribution.
    """
    steps = generator.standard_t(3, length) / np.sqrt(3) if tails else generator.normal(0, 1, length)
    steps[1:] *= np.sqrt(1 - memory**2)
    return np.asarray(sd * lfilter([1.0], [1.0, -memory], steps))


def samples_of(values: Sequence[float] | Array, begin: int = 0, every_ms: int = 1_000) -> list[Sample]:
    return [Sample((begin + place) * every_ms, float(value)) for place, value in enumerate(values)]


class WatchedTrial:
    """A trial of control and case on a series whose first part is the pilot.

    `tripped_at` is the number of the case's samples before a guard trips.
    """

    def __init__(self, generator: np.random.Generator, guard: Guard, *, every_ms: int = 1_000) -> None:
        self._generator, self._guard, self._every_ms = generator, guard, every_ms
        self.tripped_at: int | None = None

    def watch(
        self,
        logs: Array,
        effect: float = 0.0,
        *,
        pilot: int = PILOT_SAMPLES,
        period: int = PERIOD_SAMPLES,
        blocks: int = BLOCKS,
    ) -> Trip | None:
        values = np.exp(logs)
        watch = GuardWatch([self._guard], ["control", "case"], "control", blocks=blocks, samples=period)
        watch.learn(GUARDED, samples_of(values[:pilot], every_ms=self._every_ms))
        at, seen = pilot, 0
        for _ in range(blocks):
            for arm in self._generator.permutation(["control", "case"]).tolist():
                watch.begin_period(arm)
                factor = np.exp(effect) if arm == "case" else 1.0
                for value in values[at : at + period] * factor:
                    seen += arm == "case"
                    trip = watch.take(GUARDED, arm, [Sample(at * self._every_ms, float(value))])
                    at += 1
                    if trip is not None:
                        self.tripped_at = seen
                        return trip
            if (trip := watch.end_block()) is not None:
                return trip
        return None
