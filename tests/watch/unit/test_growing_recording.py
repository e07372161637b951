# SPDX-License-Identifier: Apache-2.0
"""A recording while it is written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import UnreadableOutput
from ktrial.recordings.growing import GrowingRecording
from tests.support.written_recordings import HEAD, START_NS, block, events, layout, samples

LATE = {"wakeup.late": {"unit": "s", "per_unit": 10**9, "kind": "level"}}
FIRST = b"ktrial.recording/1\n" + block("H", HEAD)
PERIOD_NS = HEAD["period_ns"]["wakeup"]


def test_each_piece_gives_what_came_with_it_and_nothing_twice() -> None:
    growing = GrowingRecording()
    assert growing.feed(FIRST).events == ()
    assert growing.started_ns == START_NS
    one = growing.feed(
        layout(3, "wakeup", LATE)
        + samples(3, [START_NS, START_NS + PERIOD_NS], [[1000, 40_000_000]])
        + events({"kind": "kswapd", "begin_ns": START_NS, "length_ns": 7})
    )
    assert one.ends_ns == (START_NS + 1000, START_NS + PERIOD_NS + 40_000_000)
    assert one.durations_ns == (PERIOD_NS + 1000, PERIOD_NS + 40_000_000)
    assert [event.kind for event in one.events] == ["kswapd"]
    two = growing.feed(samples(3, [START_NS + 2 * PERIOD_NS], [[-(2**63)]]))
    assert (two.ends_ns, two.events) == ((), ())


def test_what_is_not_as_agreed_is_refused_with_words() -> None:
    growing = GrowingRecording()
    with pytest.raises(UnreadableOutput, match="do not match the columns"):
        growing.feed(FIRST + samples(3, [START_NS], [[1]]))


@settings(max_examples=50, deadline=None)
@given(at=st.integers(0, 400), by=st.integers(1, 255))
def test_a_changed_byte_is_told_or_changes_nothing_that_crashes(at: int, by: int) -> None:
    data = bytearray(FIRST + layout(3, "wakeup", LATE) + samples(3, [START_NS], [[5]]))
    data[at % len(data)] = (data[at % len(data)] + by) % 256
    try:
        GrowingRecording().feed(bytes(data))
    except UnreadableOutput as error:
        assert "recording" in error.message
