# SPDX-License-Identifier: Apache-2.0
"""Carries out the pilot of a live trial: switches between control and arm a few times, and watches everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ktrial.kit.errors import BadRun
from ktrial.live.model import Sample
from ktrial.live.pilot import FEWEST_SAMPLES, PilotSwitch
from ktrial.live.sampling import LiveClock, LivePoll
from ktrial.live.watchdog import Watchdog
from ktrial.trial.arms.arms import Arms

#: Number of parts of a pilot that switches; each arm comes into force at least three times.
_PARTS = 8
#: A part of a pilot that switches has at least this many samples and seconds. A pilot that does not switch is a single,
#: longer part.
_PART_SAMPLES, _LEAST_PART_S = 16, 20.0
_CALM_SAMPLES, _LEAST_CALM_S = 2 * FEWEST_SAMPLES, 60.0


class PilotCourse(NamedTuple):
    """The arms that a pilot puts in force one after the other, and for how many seconds each."""

    arms: tuple[str, ...]
    part_s: float

    @property
    def length_s(self) -> float:
        return self.part_s * len(self.arms)

    @property
    def switches(self) -> int:
        return len(self.arms) - 1


class PilotSeen(NamedTuple):
    """The observations of a pilot: all samples by metric, the samples of the control alone, and the switches."""

    samples: Mapping[str, Sequence[Sample]]
    control: Mapping[str, Sequence[Sample]]
    switches: tuple[PilotSwitch, ...]


def pilot_course(control: str, arm: str, every_s: float, *, switches: bool) -> PilotCourse:
    """Return the course of a pilot whose primary metric is read every `every_s` seconds."""
    if not switches:
        return PilotCourse((control,), max(_LEAST_CALM_S, _CALM_SAMPLES * every_s))
    return PilotCourse((control, arm) * (_PARTS // 2), max(_LEAST_PART_S, _PART_SAMPLES * every_s))


class PilotRun:
    """Runs a pilot with active limits and guards, and restores everything when the pilot ends for any reason."""

    def __init__(
        self, poll: LivePoll, arms: Arms, clock: LiveClock, watchdog: Watchdog, note: Callable[[str], None]
    ) -> None:
        self._poll = poll
        self._arms = arms
        self._clock = clock
        self._watchdog = watchdog
        self._note = note

    def run(self, course: PilotCourse) -> PilotSeen:
        control = course.arms[0]
        samples: dict[str, list[Sample]] = {one.metric.name: [] for one in self._poll.metrics}
        calm: dict[str, list[Sample]] = {name: [] for name in samples}
        switches: list[PilotSwitch] = []
        try:
            self._poll.begin()
            for arm in course.arms:
                self._enter(arm)
                switches.append(PilotSwitch(self._clock.unix_ms(), arm))
                self._part(arm, course.part_s, [samples, *([calm] if arm == control else [])])
        finally:
            try:
                self._arms.leave()
                self._note("restored: the pilot is over")
            finally:
                self._poll.end()
        return PilotSeen(samples, calm, tuple(switches))

    def _enter(self, arm: str) -> None:
        drifts = self._arms.enter(arm) or self._arms.drifted()
        if drifts:
            raise BadRun(
                f"something else changed this machine during the pilot: {self._arms.told(drifts[0])}",
                hint="stop the program that changes the value",
            )
        self._note(f"pilot: arm {arm} is in force")
        self._watchdog.begin_period(arm)

    def _part(self, arm: str, seconds: float, kept: Sequence[dict[str, list[Sample]]]) -> None:
        end_ns = self._clock.monotonic_ns() + round(1e9 * seconds)
        while (left_ns := end_ns - self._clock.monotonic_ns()) > 0:
            found = self._poll.look()
            self._watchdog.check(arm, found)
            for metric, new in found.items():
                for one in kept:
                    one[metric] += new
            self._clock.sleep(min(self._poll.nap_s, left_ns / 1e9))
