# SPDX-License-Identifier: Apache-2.0
"""Events that show a cause only taken together."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from ktrial.recordings.model import Event
from ktrial.watch.diagnosis.causes import at_work
from ktrial.watch.diagnosis.symptoms import Happening, Symptom
from tests.support.recordings import recording

KIND = "direct-reclaim"


def reclaims(begin_s: float, count: int, pause_s: float, pid: int = 7) -> list[Event]:
    """Forty microseconds each."""
    return [
        Event(kind=KIND, source=f"trace.{KIND}", begin_s=begin_s + at * (4e-5 + pause_s), duration_s=4e-5, pid=pid)
        for at in range(count)
    ]


def found(events: Sequence[Event], together_s: float | None) -> list[tuple[float, float]]:
    happening = Happening(events=(KIND,), least_s=0.001, together_s=together_s)
    symptom = Symptom(id="x", name="x", what="x", happening=(happening,), no_remedy="none")
    made = msgspec.structs.replace(recording(1, None), events=tuple(sorted(events, key=lambda event: event.begin_s)))
    return [(event.begin_s, round(event.duration_s or 0.0, 9)) for event in at_work(symptom, made).events]


def test_short_reclaims_of_one_thread_right_after_one_another_are_one() -> None:
    many = reclaims(10.0, 100, 2e-4)
    assert found(many, 0.001) == [(10.0, 0.004)]
    assert found(many, None) == []


def test_those_of_several_threads_or_with_pauses_are_not() -> None:
    several = [event for pid in range(20) for event in reclaims(10.0 + pid * 1e-5, 20, 2e-4, pid)]
    assert found([*several, *reclaims(20.0, 100, 0.01)], 0.001) == []
    twice = [*reclaims(10.0, 50, 2e-4), *reclaims(12.0, 50, 2e-4)]
    assert [begin_s for begin_s, _ in found(twice, 0.001)] == [10.0, 12.0]


def test_frames_on_an_uncertain_clock_have_that_much_more_reach() -> None:
    made = msgspec.structs.replace(recording(1, None), events=tuple(reclaims(10.0, 1, 0.0)))
    assert made.frames is not None
    off = msgspec.structs.replace(made, frames=msgspec.structs.replace(made.frames, clock_error_s=0.25))
    happening = Happening(events=(KIND,), least_s=1e-5)
    symptom = Symptom(id="x", name="x", what="x", happening=(happening,), no_remedy="none")
    exact, far = at_work(symptom, made).activity, at_work(symptom, off).activity
    assert exact is not None
    assert far is not None
    assert far.begins_s[0] == pytest.approx(exact.begins_s[0] - 0.25)
    assert far.ends_s[0] == pytest.approx(exact.ends_s[0] + 0.25)


@pytest.mark.parametrize(
    "others, frame_thread, alone",
    [
        (10, True, False),  # now and then: whoever waits may be what the frames wait for
        (600, True, True),  # nearly always: it tells nothing of the frames
        (600, False, False),  # nobody knows which thread draws
    ],
)
def test_where_some_thread_always_waits_the_frame_thread_counts(others: int, frame_thread: bool, alone: bool) -> None:
    def wait(begin_s: float, pid: int, *, victim: bool) -> Event:
        told = victim if frame_thread else None
        return Event(kind=KIND, source=f"trace.{KIND}", begin_s=begin_s, duration_s=0.3, pid=pid, victim=told)

    events = [*(wait(at / 2, 8, victim=False) for at in range(others)), wait(0.7, 7, victim=True)]
    made = msgspec.structs.replace(recording(1, None), events=tuple(sorted(events, key=lambda event: event.begin_s)))
    happening = Happening(events=(KIND,), least_s=0.002, victims_above=0.5)
    symptom = Symptom(id="x", name="x", what="x", happening=(happening,), no_remedy="none")
    told = [event.begin_s for event in at_work(symptom, made).events]
    assert 0.7 in told
    assert len(told) == (1 if alone else others + 1)
