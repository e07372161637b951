# SPDX-License-Identifier: Apache-2.0
"""Reads all sources of a live trial, each at its own rate, and notices events that make a period void."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Protocol

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.live.model import LiveMetric, MetricSource, Sample
from ktrial.live.sources.world import named_outcome
from ktrial.machine.ports import Clock
from ktrial.machine.watch_run import suspended_s

#: A jump of the wall clock by at least this many milliseconds is a step, not an adjustment of its speed.
_STEP_MS = 500
#: A watched stretch is void if a metric gave no value for this share of the stretch.
MOST_SILENT = 0.5
#: The last value of a source is too old after this many intervals of its polling.
_STALE_POLLS = 4
_LEAST_STALE_S = 5.0


class LiveClock(Clock, Protocol):
    """A clock that also measures how long the machine was suspended."""

    def slept_s(self) -> float: ...


class WatchedMetric:
    """A metric with its open source, and its samples since the last `forget`."""

    def __init__(self, metric: LiveMetric, source: MetricSource, *, covariate: bool = False) -> None:
        self.metric = metric
        self.source = source
        self.covariate = covariate
        self.outcome = source.outcome
        self.samples: list[Sample] = []
        self.due_ns = 0

    @property
    def factor(self) -> float:
        """The factor from the unit in the metric's name to the unit of its samples, such as 0.001 for `latency_ms`."""
        return named_outcome(self.metric)[1]

    def silent_s(self, begin_ms: int, end_ms: int) -> float:
        """Return the longest time without a sample in this stretch, in seconds."""
        times = [begin_ms, *(one.at_ms for one in self.samples if begin_ms <= one.at_ms < end_ms), end_ms]
        return max(after - before for before, after in itertools.pairwise(times)) / 1000

    def is_fresh(self, now_ms: int) -> bool:
        """Return whether the last sample is recent."""
        oldest_s = max(_LEAST_STALE_S, _STALE_POLLS * self.source.poll_s)
        return bool(self.samples) and now_ms - self.samples[-1].at_ms <= 1000 * oldest_s


class LivePoll:
    """Reads all sources of a trial. Call `look` about once a second, or more often."""

    def __init__(self, metrics: Sequence[WatchedMetric], clock: LiveClock) -> None:
        self.metrics = metrics
        self._clock = clock
        self._offset_ms = 0
        self._slept_s = 0.0

    def begin(self) -> None:
        """Read every source once. Raise an error for a source that can never be read."""
        for one in self.metrics:
            one.source.begin()
        self.note_clocks()

    def end(self) -> None:
        """Close every source, even if one fails."""
        with contextlib.ExitStack() as stack:
            for one in self.metrics:
                stack.callback(one.source.end)

    def look(self) -> Mapping[str, Sequence[Sample]]:
        """Read the sources that are due; return the new samples by metric name."""
        found: dict[str, Sequence[Sample]] = {}
        for one in self.metrics:
            now_ns = self._clock.monotonic_ns()
            if now_ns < one.due_ns:
                continue
            one.due_ns = now_ns + round(1e9 * one.source.poll_s)
            if samples := one.source.poll():
                one.samples += samples
                found[one.metric.name] = samples
        return found

    @property
    def nap_s(self) -> float:
        """Seconds until the next source is due, at most one."""
        now_ns = self._clock.monotonic_ns()
        return min(1.0, max(0.01, min((one.due_ns for one in self.metrics), default=now_ns) / 1e9 - now_ns / 1e9))

    def forget(self, before_ms: int) -> None:
        """Drop samples older than `before_ms`, but keep at least the latest sample of each metric."""
        for one in self.metrics:
            one.samples = [sample for sample in one.samples if sample.at_ms >= before_ms] or one.samples[-1:]

    def note_clocks(self) -> None:
        """Store the current times of the clocks; `disturbed` compares later times with them."""
        self._offset_ms = self._clock.unix_ms() - self._clock.monotonic_ns() // 1_000_000
        self._slept_s = self._clock.slept_s()

    def disturbed(self) -> str | None:
        """Return what happened to the clocks since `note_clocks`: a suspend or a step; None if neither."""
        slept = suspended_s(self._slept_s, self._clock.slept_s())
        if slept:
            return f"the machine slept for {slept:.1f} s"
        step_ms = self._clock.unix_ms() - self._clock.monotonic_ns() // 1_000_000 - self._offset_ms
        if abs(step_ms) >= _STEP_MS:
            return f"the clock stepped by {step_ms / 1000:+.1f} s"
        return None


def metric_named(name: str, metrics: Sequence[WatchedMetric]) -> WatchedMetric:
    """Return the metric with this name, with or without its unit. Raise UnknownName if there is none."""
    for one in metrics:
        if name in {one.metric.name, one.outcome.name}:
            return one
    known = [one.metric.name for one in metrics]
    raise UnknownName("metric", name, known, hint=f"use one of: {', '.join(known)}")


def refuse_slow(metrics: Sequence[WatchedMetric], period_s: float) -> None:
    """Raise BadInput for a source that is read less than twice in a period."""
    for one in metrics:
        if 2 * one.source.poll_s > period_s:
            raise BadInput(
                f"ktrial reads {one.metric.name} every {one.source.poll_s:g} s, less than twice in a period of "
                f"{period_s:g} s",
                hint=f"use --period {max(60.0, 4 * one.source.poll_s):g}s or more, or a shorter --poll",
            )
