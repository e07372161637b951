# SPDX-License-Identifier: Apache-2.0
"""Sources that are read at intervals: times of readings, gaps, steps of clocks, and growing counters."""

from __future__ import annotations

import itertools
import statistics
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from ktrial.kit.errors import AgentError, BadInput
from ktrial.kit.outcome import Outcome
from ktrial.live.model import LiveMetric, Sample, Stretch, StretchReading
from ktrial.live.sources.web import NotRead
from ktrial.live.sources.world import LiveWorld, refuse_short_period
from ktrial.machine.ports import Machine

T = TypeVar("T")
#: Number of readings in memory; older ones are dropped.
MOST_READINGS = 500_000
#: The clocks have made a step if they differ by more than these milliseconds, and this share of the time between two
#: looks.
_STEP_MS, _STEP_SHARE = 250.0, 0.002
#: A stretch has a gap if nothing was read for this many intervals and milliseconds.
_GAP_POLLS, _GAP_MS = 2.5, 500.0
_MOST_FAILURES = 1000
#: Factors between units, and the largest ratio of a value that still counts as near a factor.
_UNIT_FACTORS = tuple(1000.0**power for power in (1, 2, 3, -1, -2, -3))
_UNIT_NEAR = 1.25
_BASELINE = 50


class Timeline(Generic[T]):
    """Readings in order of time. When their sizes add up to more than `most`, `add` drops the oldest half."""

    def __init__(self, most: int = MOST_READINGS) -> None:
        self._most = most
        self._size = 0
        self._times: list[int] = []
        self._items: list[tuple[T, int]] = []
        #: Readings before this time are lost.
        self.since_ms: int | None = None

    def add(self, at_ms: int, item: T, size: int = 1) -> None:
        """Append a reading. Drop stored readings with the same or a later time, because the clock was set back."""
        self._drop(bisect_left(self._times, at_ms), len(self._times))
        self._times.append(at_ms)
        self._items.append((item, size))
        self._size += size
        if self._size > self._most:
            dropped = 0
            while self._size > self._most // 2 and dropped < len(self._times) - 1:
                self._size -= self._items[dropped][1]
                dropped += 1
            del self._times[:dropped], self._items[:dropped]
            self.since_ms = self._times[0]

    def _drop(self, begin: int, end: int) -> None:
        self._size -= sum(size for _, size in self._items[begin:end])
        del self._times[begin:end], self._items[begin:end]

    def inside(self, stretch: Stretch) -> tuple[Sequence[int], Sequence[T]]:
        begin, end = bisect_left(self._times, stretch.begin_ms), bisect_left(self._times, stretch.end_ms)
        return self._times[begin:end], [item for item, _ in self._items[begin:end]]

    def last(self) -> tuple[int, T] | None:
        return (self._times[-1], self._items[-1][0]) if self._times else None


class ClockSteps:
    """Records when the wall clock jumped against the monotonic clock, and by how much."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None
        self._steps: list[tuple[int, int, float]] = []

    def note(self, unix_ms: int, monotonic_ns: int) -> None:
        now_ms = monotonic_ns / 1e6
        if self._last is not None:
            unix_before, before_ms = self._last
            step_ms = (unix_ms - unix_before) - (now_ms - before_ms)
            if abs(step_ms) > max(_STEP_MS, _STEP_SHARE * (now_ms - before_ms)):
                self._steps.append((min(unix_before, unix_ms), max(unix_before, unix_ms), step_ms))
        self._last = (unix_ms, now_ms)

    def why_void(self, stretch: Stretch) -> str | None:
        for begin_ms, end_ms, step_ms in self._steps:
            if begin_ms < stretch.end_ms and end_ms >= stretch.begin_ms:
                way = "forward" if step_ms > 0 else "back"
                return f"the clock was set {way} by {abs(step_ms) / 1000:.1f} s, or the machine slept"
        return None


class PolledSource(ABC):
    """Implements the part of `live.model.MetricSource` that all polled sources have in common."""

    #: Seconds between two readings.
    poll_s: float

    def __init__(self, metric: LiveMetric, outcome: Outcome, world: LiveWorld, poll_s: float) -> None:
        self.metric = metric
        self._outcome = outcome
        self._world = world
        self.poll_s = poll_s
        self._clocks = ClockSteps()
        self._failures: Timeline[str] = Timeline(_MOST_FAILURES)

    @property
    def outcome(self) -> Outcome:
        return self._outcome

    def begin(self) -> None:
        """Read the metric once. Raise BadInput or Refused, with the next step, if it can never be read."""
        self._look_at_clocks()
        try:
            self._begin()
        except NotRead as error:
            raise BadInput(
                f"cannot read --metric {self.metric.source!r}: {error.message}",
                hint=error.hint or "check that the source is running, and that --metric names it correctly",
            ) from None
        except BadInput as error:
            if error.message.startswith("--metric"):
                raise
            raise BadInput(f"--metric {self.metric.source!r}: {error.message}", hint=error.hint) from None
        refuse_short_period(self.metric, self.poll_s, self._world.period_s)

    def poll(self) -> Sequence[Sample]:
        """Read again; return the samples since the last call."""
        self._look_at_clocks()
        try:
            return self._poll()
        except (NotRead, AgentError, BadInput) as error:
            self._failures.add(self._world.clock.unix_ms(), error.message)
            return ()

    def over(self, stretch: Stretch) -> StretchReading:
        """Return the reading for a stretch of time that has ended."""
        self._look_at_clocks()
        why = self._clocks.why_void(stretch)
        if why is not None:
            return missing(why)
        try:
            return self._over(stretch)
        except (NotRead, AgentError, BadInput) as error:
            return missing(error.message)

    def end(self) -> None:  # noqa: B027 (most sources hold nothing)
        """Release the source's resources."""

    def _look_at_clocks(self) -> None:
        clock = self._world.clock
        self._clocks.note(clock.unix_ms(), clock.monotonic_ns())

    @abstractmethod
    def _begin(self) -> None:
        """Read the metric once. Raise NotRead if that fails, BadInput if it can never be read."""

    @abstractmethod
    def _poll(self) -> Sequence[Sample]:
        """Read again. Raise NotRead if there is nothing to read."""

    @abstractmethod
    def _over(self, stretch: Stretch) -> StretchReading:
        """Return the value of a stretch without a step of the clock. Raise NotRead if there is no value."""

    def covered(self, stretch: Stretch, readings: Timeline[T], least: int) -> tuple[Sequence[int], Sequence[T]]:
        """Return the readings inside the stretch. Raise NotRead if there are too few, or if a gap is too long."""
        times, items = readings.inside(stretch)
        if readings.since_ms is not None and readings.since_ms > stretch.begin_ms:
            raise NotRead(
                "the readings from the beginning of the period are no longer stored", hint="use a shorter --period"
            )
        why = why_gap(times, stretch, self.poll_s)
        if why is None and len(times) < least:
            why = f"fewer than {least} readings"
        if why is not None:
            reasons = self._failures.inside(stretch)[1]
            raise NotRead(f"{why}: {reasons[-1]}" if reasons else why, hint="check that the source is running")
        return times, items


def why_gap(times_ms: Sequence[int], stretch: Stretch, every_s: float) -> str | None:
    """Return why readings at these times do not cover a stretch; None if they do."""
    if not times_ms:
        return "nothing was read"
    edges = (stretch.begin_ms, *times_ms, stretch.end_ms)
    longest_ms = max(after - before for before, after in itertools.pairwise(edges))
    if longest_ms > _GAP_POLLS * every_s * 1000 + _GAP_MS:
        return f"nothing was read for {longest_ms / 1000:.1f} s of {stretch.seconds:.1f} s"
    return None


def missing(why: str, *, version: str | None = None) -> StretchReading:
    return StretchReading(value=None, why=why, version=version)


class CounterValues(NamedTuple):
    """Counters that were read together. A new `epoch` means that the counters restarted."""

    values: Mapping[str, float]
    epoch: str = ""


def growth(readings: Sequence[CounterValues], *, together: bool) -> dict[str, float]:
    """Return the growth of each counter. A counter that fell has restarted; with `together`, all others have too."""
    found: dict[str, float] = {}
    for before, after in itertools.pairwise(readings):
        fell = {name for name, value in after.values.items() if value < before.values.get(name, 0)}
        is_new = after.epoch != before.epoch or (together and bool(fell))
        for name, value in after.values.items():
            begin = 0.0 if is_new or name in fell else before.values.get(name, 0.0)
            found[name] = found.get(name, 0.0) + value - begin
    return found


class CounterSource(PolledSource):
    """Reads how fast the sum of some counters grows, such as seconds of CPU time per second."""

    def __init__(
        self,
        metric: LiveMetric,
        outcome: Outcome,
        world: LiveWorld,
        read: Callable[[Machine], CounterValues],
        *,
        poll_s: float = 1.0,
    ) -> None:
        super().__init__(metric, outcome, world, poll_s)
        self._read = read
        self._readings: Timeline[CounterValues] = Timeline()

    def _begin(self) -> None:
        self._poll()

    def _poll(self) -> Sequence[Sample]:
        before = self._readings.last()
        begin_ms = self._world.clock.unix_ms()
        counts = self._read(self._world.machine())
        at_ms = (begin_ms + self._world.clock.unix_ms()) // 2
        self._readings.add(at_ms, counts)
        if before is None or at_ms <= before[0] or at_ms - before[0] > _GAP_POLLS * self.poll_s * 1000 + _GAP_MS:
            return ()
        return (Sample(at_ms, self.rate([before[1], counts], at_ms - before[0])),)

    def _over(self, stretch: Stretch) -> StretchReading:
        times, readings = self.covered(stretch, self._readings, 2)
        return StretchReading(value=self.rate(readings, times[-1] - times[0]), samples=len(times))

    def rate(self, readings: Sequence[CounterValues], length_ms: int) -> float:
        """Return how much the sum of the counters grows per second. Raise NotRead if this rate is unknown."""
        return sum(growth(readings, together=False).values()) / (length_ms / 1000)


class UnitGuard:
    """Finds values whose unit changed when their process restarted."""

    def __init__(self) -> None:
        self._unit: str | None = None
        self._started_s: float | None = None
        self._has_restarted = False
        self._values: list[float] = []

    def why_changed(self, value: float, started_s: float | None, unit: str | None = None) -> str | None:
        """Return why the value cannot be compared with earlier ones; otherwise store it and return None."""
        if unit is not None and self._unit is not None and unit != self._unit:
            return f"its unit changed from {self._unit} to {unit}"
        self._unit = unit if unit is not None else self._unit
        if started_s is not None:
            self._has_restarted |= self._started_s is not None and started_s > self._started_s + 1
            self._started_s = started_s
        if self._has_restarted and self._values and value > 0:
            usual = statistics.median(self._values)
            factor = next((one for one in _UNIT_FACTORS if usual > 0 and is_near(value, usual * one)), None)
            if factor is not None:
                how = f"{factor:,.0f} times" if factor > 1 else f"1/{1 / factor:,.0f} of"
                return f"the value is {how} the usual one since the process restarted: its unit seems to have changed"
        self._has_restarted = False
        self._values = [*self._values[1 - _BASELINE :], value]
        return None


def is_near(value: float, other: float) -> bool:
    return other / _UNIT_NEAR <= value <= other * _UNIT_NEAR
