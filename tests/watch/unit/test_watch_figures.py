# SPDX-License-Identifier: Apache-2.0
"""Figures of recordings, on one whose numbers can be counted by hand."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import nan

import msgspec
import pytest

from ktrial.recordings.figures import WATCH_OUTCOMES, WHOLE, wanted_series, watch_figures
from ktrial.recordings.model import Event, Frames, Gap, Recording, Series, SeriesKind, Source

TIMES = array("d", (float(second) for second in range(101)))


def series(name: str, values: list[float], kind: SeriesKind = "counter") -> Series:
    return Series(name=name, source="samples", unit="count", kind=kind, times_s=TIMES, values=array("d", values))


def frames() -> Frames:
    """A hundred seconds at ten a second, of which those at 20 s, 50 s and 80 s took half a second."""
    ends, durations = [], []
    now = 0.0
    while now < 100:
        took = 0.5 if int(round(now, 3) * 10) in {200, 500, 800} else 0.1
        now = round(now + took, 6)
        ends.append(now)
        durations.append(took)
    return Frames(kind="frame", source="frames", ends_s=array("d", ends), durations_s=array("d", durations))


def event(kind: str, begin_s: float, took_s: float, pid: int = 7, victim: bool | None = None) -> Event:
    return Event(kind=kind, source="trace", begin_s=begin_s, duration_s=took_s, pid=pid, victim=victim)


RECORDING = Recording(
    name="r",
    begin_s=0.0,
    end_s=100.0,
    sources=tuple(Source(name=name, state="active") for name in ("samples", "frames", "trace")),
    series={
        one.name: one
        for one in (
            series("vmstat.allocstall_normal", [float(second) for second in range(101)]),
            series("vmstat.allocstall_movable", [nan, *[5.0] * 100]),
            series("disks.vda.writes", [10.0 * second for second in range(101)]),
            series("disks.vda.write_time", [0.02 * second for second in range(101)]),
            series("disks.vda.written", [4096.0 * second for second in range(101)]),
            series("memory.Dirty", [400e6, *[500e6] * 99, 600e6], "gauge"),
            series("disks.dm-0.writes", [1e6 * second for second in range(101)]),
        )
    },
    events=(
        event("direct-reclaim", 10.0, 0.2, pid=7, victim=True),
        event("block-io", 15.0, 0.006),
        event("direct-reclaim", 30.0, 0.3, pid=8, victim=False),
        event("block-io", 90.0, 0.009),
    ),
    frames=frames(),
    machine={"process": 7},
)


def values(**change: object) -> Mapping[str, float]:
    found = watch_figures(msgspec.structs.replace(RECORDING, **change))
    return {one.outcome: one.value for one in found.measurements}


def test_every_figure_of_the_whole() -> None:
    assert values() == pytest.approx(
        {
            "stutter-rate": 0.03,
            "late-share": 3 * 0.4 / 100,
            "allocation-stalls": 1.0,
            "frame-reclaim": 0.002,
            "slow-io": 0.02,
            "write-latency": 0.002,
            "write-latency-max": 0.002,
            "written": 409_600.0,
            "dirty-mean": 500e6,
            "slow-frame-share": 1.0,
        }
    )


def test_writes_that_took_no_time_that_is_counted_have_no_latency() -> None:
    still = {
        name: msgspec.structs.replace(one, values=array("d", [0.0] * len(one.values)))
        if name.endswith(".write_time")
        else one
        for name, one in RECORDING.series.items()
    }
    found = watch_figures(msgspec.structs.replace(RECORDING, series=still))
    assert [one.why for one in found.left_out if one.outcome == "write-latency"] == [
        "1000 writes took less than the kernel's resolution of a millisecond"
    ]


def test_one_slow_moment_of_a_device_is_the_largest_write_latency() -> None:
    times = [0.02 * second + (0.4 if second >= 60 else 0) for second in range(101)]
    slow = series("disks.vda.write_time", times)
    found = watch_figures(msgspec.structs.replace(RECORDING, series={**RECORDING.series, slow.name: slow}))
    told = {one.outcome: one.value for one in found.measurements}
    assert told["write-latency-max"] == pytest.approx(0.42 / 10)
    before = watch_figures(
        msgspec.structs.replace(RECORDING, series={**RECORDING.series, slow.name: slow}), [(0.0, 50.0)]
    )
    assert {one.outcome: one.value for one in before.measurements}["write-latency-max"] == pytest.approx(0.002)


@pytest.mark.parametrize("below_fps, slow", [(9.0, 3), (11.0, 988), (1.5, 0)])
def test_slow_frames_are_those_below_a_rate(below_fps: float, slow: int) -> None:
    found = watch_figures(RECORDING, below_fps=below_fps)
    share = next(one for one in found.measurements if one.outcome == "slow-frame-share")
    assert share.value == pytest.approx(slow / 988)


def test_of_stretches_only_what_lies_in_them_counts() -> None:
    found = watch_figures(RECORDING, [(0.0, 25.0), (75.0, 100.0)], prefix="steady.")
    told = {one.outcome: one.value for one in found.measurements}
    assert told["steady.stutter-rate"] == pytest.approx(2 / 50)
    assert told["steady.allocation-stalls"] == pytest.approx(1.0)
    assert told["steady.slow-io"] == pytest.approx(2 / 50)
    assert told["steady.written"] == pytest.approx(50 * 4096)
    assert set(told) <= {one.name for one in WATCH_OUTCOMES}


def test_a_limit_takes_the_place_of_what_stands_out() -> None:
    found = watch_figures(RECORDING, limit_s=0.05)
    told = {one.outcome: one for one in found.measurements}
    assert told["stutter-rate"].value == pytest.approx(len(frames().ends_s) / 100)
    assert "an hour" in told["stutter-rate"].original


def test_the_frame_thread_may_be_told_afterwards() -> None:
    found = watch_figures(RECORDING, frame_thread=8)
    assert next(one.value for one in found.measurements if one.outcome == "frame-reclaim") == pytest.approx(0.003)


def test_a_stutter_of_a_suspend_is_none() -> None:
    gap = Gap(kind="suspend", begin_s=49.9, end_s=50.6, why="the machine was suspended")
    assert values(gaps=(gap,))["stutter-rate"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    "change, missing, why",
    [
        ({"frames": None}, "stutter-rate", "no frames or wake-ups"),
        ({"series": {}}, "allocation-stalls", "lacks vmstat.allocstall"),
        ({"series": {}}, "written", "no block device"),
        ({"machine": {}}, "frame-reclaim", "no program was watched"),
        ({"length": 0}, "late-share", "no length"),
    ],
)
def test_what_cannot_be_told_has_a_reason_and_no_number(change: dict[str, object], missing: str, why: str) -> None:
    if "length" in change:
        change = {"end_s": 0.0}
    found = watch_figures(msgspec.structs.replace(RECORDING, **change))
    assert missing not in {one.outcome for one in found.measurements}
    assert why in next(one.why for one in found.left_out if one.outcome == missing)


def test_events_that_were_lost_or_not_traced_are_not_counted() -> None:
    lost = (*RECORDING.sources[:2], Source(name="trace", state="active", lost=3))
    found = watch_figures(msgspec.structs.replace(RECORDING, sources=lost))
    assert {one.outcome: one.why for one in found.left_out} == dict.fromkeys(
        ("frame-reclaim", "slow-io"), "3 events were lost"
    )
    untraced = (*RECORDING.sources[:2], Source(name="trace", state="absent", why="tracing needs root"))
    found = watch_figures(msgspec.structs.replace(RECORDING, sources=untraced, events=()))
    assert {one.why for one in found.left_out} == {"events were not traced (tracing needs root)"}


def test_in_a_pid_namespace_no_thread_is_taken_for_the_frame_thread() -> None:
    apart = (*RECORDING.sources, Source(name="trace.threads", state="absent", why="another PID namespace"))
    found = watch_figures(msgspec.structs.replace(RECORDING, sources=apart), frame_thread=8)
    assert {one.outcome: one.why for one in found.left_out} == {
        "frame-reclaim": "threads were not distinguished (another PID namespace)"
    }


def test_a_counter_that_fell_tells_nothing() -> None:
    fell = series("vmstat.allocstall_normal", [5.0] * 50 + [1.0] * 51)
    assert "allocation-stalls" not in values(series={fell.name: fell})


def test_growth_a_second_is_summed_up() -> None:
    rate = series("vmstat.allocstall_normal", [3.0] * 101, "rate")
    assert values(series={rate.name: rate})["allocation-stalls"] == pytest.approx(3.0)


def test_there_is_one_outcome_for_each_figure_and_phase_and_the_series_that_it_needs() -> None:
    assert len(WATCH_OUTCOMES) == 4 * len(WHOLE)
    assert len({one.name for one in WATCH_OUTCOMES}) == len(WATCH_OUTCOMES)
    assert sum(one.headline for one in WATCH_OUTCOMES) == 1
    assert [name for name in RECORDING.series if not wanted_series(name)] == []
    assert not wanted_series("disks.vda.reads")
