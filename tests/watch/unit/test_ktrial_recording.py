# SPDX-License-Identifier: Apache-2.0
"""Own recordings: whole, cut anywhere, damaged, with clocks that step and threads that come and go."""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import UnreadableOutput
from ktrial.recordings.ktrial import is_recording, read_recording
from ktrial.recordings.model import GroupLimits, Served, Source
from tests.support.written_recordings import HEAD, START_NS, TAIL, block, events, layout, recording, samples

US = {"unit": "s", "per_unit": 1_000_000, "kind": "counter", "bits": 64}
NS = {"unit": "s", "per_unit": 1_000_000_000, "kind": "level"}
COUNT = {"unit": "count", "per_unit": 1, "kind": "level"}
MISSING = -(2**63)
STEP = 100_000_000
PRESSURE = (
    layout(0, "pressure", {"pressure.memory.some": US, "pressure.io.some": US}),
    samples(0, [START_NS, START_NS + STEP], [[1_000_000, 1_500_000], [MISSING, 7_000_000]]),
    samples(0, [START_NS + 2 * STEP], [[2_000_000], [8_000_000]]),
)
RECLAIM = {
    "kind": "direct-reclaim",
    "begin_ns": START_NS + STEP,
    "length_ns": 5_000_000,
    "cpu": 1,
    "pid": 42,
    "thread": "Main Thread",
    "victim": True,
    "watched": True,
    "amount": 32,
    "detail": "order 0",
}
WHOLE = recording(*PRESSURE, events(RECLAIM))


def test_a_whole_recording_gives_back_what_was_written() -> None:
    found = read_recording(WHOLE, "a.ktr")
    some = found.series["pressure.memory.some"]
    assert (list(some.times_s), list(some.values)) == ([0.0, 0.1, 0.2], [1.0, 1.5, 2.0])
    first, *rest = found.series["pressure.io.some"].values
    assert isnan(first)
    assert rest == [7.0, 8.0]
    (event,) = found.events
    assert (event.begin_s, event.duration_s, event.thread, event.victim) == (0.1, 0.005, "Main Thread", True)
    assert (found.ended, found.length_s, found.unix_at_zero_s) == ("whole", 2.0, 1_700_000_005.0)
    assert found.clock_error_s == pytest.approx(2e-6)
    assert found.source("pressure").achieved_hz == 1.5  # type: ignore[union-attr]
    assert found.source("gpu").why == HEAD["absent"]["gpu"]  # type: ignore[union-attr]
    assert [check.agree for check in found.checks] == [True]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_one_that_is_cut_off_is_read_up_to_the_cut(share: float) -> None:
    found = read_recording(WHOLE[: int(len(WHOLE) * share)], "a.ktr")
    assert found.ended == "cut-off"
    assert [gap.kind for gap in found.gaps] == ["cut-off"]
    assert "cut off" in found.notes[0]


def test_one_whose_end_was_never_written_has_all_that_was() -> None:
    found = read_recording(recording(*PRESSURE, events(RECLAIM), tail=None), "a.ktr")
    assert (found.ended, found.length_s, len(found.events)) == ("cut-off", 0.2, 1)


def test_a_flipped_bit_ends_what_is_believed() -> None:
    at = WHOLE.index(PRESSURE[2]) + 12
    damaged = WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :]
    found = read_recording(damaged, "a.ktr")
    assert list(found.series["pressure.memory.some"].values) == [1.0, 1.5]
    assert "checksum" in found.notes[0]


def test_a_source_that_gives_nothing_more_has_failed_and_says_why() -> None:
    gone = {"/proc/pressure/io": {"at_ns": START_NS + STEP, "why": "No such device"}}
    lost = samples(0, [START_NS + 3 * STEP], [[MISSING], [MISSING]])
    half = samples(0, [START_NS + 3 * STEP], [[MISSING], [9_000_000]])

    def source(last: bytes, **report: object) -> Source:
        tail = {**TAIL, "sources": {"pressure": {"taken": 4, **report}}}
        found = read_recording(recording(*PRESSURE, last, tail=tail), "a.ktr").source("pressure")
        assert found is not None
        return found

    failed = source(lost, gone=gone, failures=1)
    assert (failed.state, failed.why) == ("failed", "/proc/pressure/io: No such device")
    assert source(lost, failures=3).why == "3 reads failed"
    assert source(half, gone=gone).state == source(lost).state == "active"


def test_suspending_and_a_stepped_clock_are_gaps() -> None:
    second = 1_000_000_000
    clocks = layout(1, "clocks", {"clocks.suspended": NS, "clocks.unix": NS})
    rows = samples(
        1,
        [START_NS + at * second for at in range(4)],
        [[0, 30 * second, 30 * second, 30 * second], [0, 30 * second, 30 * second, 33 * second]],
    )
    found = read_recording(recording(clocks, rows), "a.ktr")
    assert [(gap.kind, gap.begin_s) for gap in found.gaps] == [("suspend", 0.0), ("clock-step", 2.0)]


def test_threads_that_come_and_go_keep_their_own_moments() -> None:
    found = read_recording(
        recording(
            layout(2, "threads", {"threads.7.state": COUNT}),
            samples(2, [START_NS], [[82]]),
            layout(2, "threads", {"threads.7.state": COUNT, "threads.8.state": COUNT}),
            samples(2, [START_NS + STEP], [[83], [82]]),
        ),
        "a.ktr",
    )
    assert list(found.series["threads.7.state"].values) == [82, 83]
    assert list(found.series["threads.8.state"].times_s) == [0.1]


def test_groups_and_who_served_interrupts_are_told() -> None:
    group = "/user.slice/a.scope"
    head = {**HEAD, "groups": [{"path": group, "memory.high": "1048576"}], "process": 7, "frame_thread": 9}
    tail = {**TAIL, "interrupts": {"24": {"label": "virtio0", "cpus": {"1": 40}}}}
    column = {**COUNT, "label": group}
    whole = recording(
        layout(2, "cgroup", {"cgroup.memory": column}), samples(2, [START_NS], [[82]]), head=head, tail=tail
    )
    found = read_recording(whole, "a.ktr")
    assert found.groups == (GroupLimits(path=group, memory_high="1048576"),)
    assert found.interrupts == {"24": Served(label="virtio0", cpus={"1": 40})}
    assert found.series["cgroup.memory"].label == group
    assert (found.machine["process"], found.machine["frame_thread"]) == (7, 9)
    cut = read_recording(recording(head=HEAD, tail=None), "b.ktr")
    assert (cut.groups, cut.interrupts) == ((), None)


def test_wake_ups_are_frames_of_their_period_and_lateness() -> None:
    wakeup = layout(3, "wakeup", {"wakeup.late": NS})
    rows = samples(3, [START_NS, START_NS + 16_666_667], [[50_000, 20_000_000]])
    frames = read_recording(recording(wakeup, rows), "a.ktr").frames
    assert frames is not None
    assert frames.kind == "wake-up"
    assert [round(one, 6) for one in frames.durations_s] == [0.016717, 0.036667]


def test_only_wanted_series_are_read() -> None:
    found = read_recording(WHOLE, "a.ktr", lambda name: name.endswith("io.some"))
    assert list(found.series) == ["pressure.io.some"]


def test_what_is_none_is_refused() -> None:
    assert not is_recording(b"time,value\n")
    for data in (b"", b"time,value\n", b"ktrial.recording/1\n", b"ktrial.recording/1\nrubbish"):
        with pytest.raises(UnreadableOutput):
            read_recording(data, "a.ktr")
    with pytest.raises(UnreadableOutput, match="a consistent recording"):
        read_recording(recording(*PRESSURE, head={**HEAD, "absent": {"pressure": "two of them"}}), "a.ktr")


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=80), st.sampled_from("HLSUET"), st.integers(0, 400))
def test_any_bytes_are_read_or_refused(content: bytes, holds: str, at: int) -> None:
    for data in (recording(block(holds, content)), WHOLE[:at] + content + WHOLE[at:]):
        try:
            found = read_recording(data, "a.ktr")
        except UnreadableOutput:
            continue
        assert found.end_s >= found.begin_s
