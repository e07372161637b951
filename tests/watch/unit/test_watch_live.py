# SPDX-License-Identifier: Apache-2.0
"""What is to be seen of a watch while it goes on."""

from __future__ import annotations

import pytest

from ktrial.recordings.watching import MachineView
from ktrial.watch.diagnosis.symptoms import Happening, Symptom
from ktrial.watch.record.live import SHOWN, LiveWatch
from tests.support.written_recordings import HEAD, START_NS, block, events, layout, samples

PERIOD_NS = HEAD["period_ns"]["wakeup"]
LATE = {"wakeup.late": {"unit": "s", "per_unit": 10**9, "kind": "level"}}
SYMPTOMS = {
    "direct-reclaim": Symptom(
        id="direct-reclaim",
        name="direct reclaim",
        what="",
        lag_s=0.02,
        happening=(Happening(events=("direct-reclaim",), least_s=0.001),),
        no_remedy="none",
    ),
    "device-latency": Symptom(
        id="device-latency",
        name="slow block device",
        what="",
        happening=(Happening(events=("block-io",), least_s=0.005),),
        no_remedy="none",
    ),
}


def seen(second: int, lost: int | None = 0, **more: int) -> MachineView:
    columns = {"memory.MemAvailable": 1 << 30, "pressure.memory.some": second * 400_000, "vmstat.pgscan_direct": 0}
    columns |= {name.replace("_DOT_", "."): value for name, value in more.items()}
    return MachineView(
        at_ns=START_NS + second * 10**9,
        started_ns=START_NS,
        cpu_ns=second * 5_000_000,
        bytes=second * 1000,
        lost=lost,
        columns=columns,
        events=(),
    )


def wake_ups(count: int, late: dict[int, int]) -> bytes:
    times = [START_NS + place * PERIOD_NS for place in range(count)]
    return layout(3, "wakeup", LATE) + samples(3, times, [[late.get(place, 1000) for place in range(count)]])


def watch(*told: dict[str, object], late: dict[int, int], lost: int | None = 0) -> LiveWatch:
    """Five seconds with these events and late wake-ups."""
    live = LiveWatch(SYMPTOMS, program=True)
    live.handed(b"ktrial.recording/1\n" + block("H", HEAD))
    for second in range(1, 6):
        live.seen(seen(second, lost))
    live.handed(wake_ups(300, late) + (events(*told) if told else b""))
    return live


def at(place: int, **more: object) -> dict[str, object]:
    return {"begin_ns": START_NS + place * PERIOD_NS + 1_000_000, "pid": 7, "thread": "Main Thread", **more}


def test_a_stutter_is_shown_with_the_event_that_overlaps_it_longest() -> None:
    reclaim = at(100, kind="direct-reclaim", length_ns=60_000_000)
    short = at(100, kind="block-io", length_ns=6_000_000, device="vda")
    far = at(200, kind="block-io", length_ns=900_000_000, device="vda")
    moment = watch(short, reclaim, far, late={101: 80_000_000}).moment(0.1)
    assert moment is not None
    assert moment.tracks[-1].why_not == "ktrial cannot distinguish threads here", "the agent tells no delays"
    assert moment.stutters == 1
    (late,) = moment.last
    assert (late.cause, late.shown_by) == ("direct reclaim", "direct-reclaim 60.0 ms of Main Thread")
    assert late.took_s == pytest.approx(0.08 + PERIOD_NS / 1e9)
    assert moment.events == 3
    assert moment.head_cost == pytest.approx(0.02)


def test_an_event_of_the_frame_thread_goes_before_a_longer_one_of_others() -> None:
    others = at(100, kind="block-io", length_ns=70_000_000, device="vda")
    own = at(100, kind="direct-reclaim", length_ns=9_000_000, victim=True)
    moment = watch(others, own, late={101: 80_000_000}).moment(0.0)
    assert moment is not None
    assert moment.last[0].cause == "direct reclaim"


def test_a_frame_that_is_told_before_the_events_waits_for_them() -> None:
    live = LiveWatch(SYMPTOMS, program=True, frames_told=True)
    live.handed(b"ktrial.recording/1\n" + block("H", HEAD))
    late_ends_ns = START_NS + 101 * PERIOD_NS + 80_000_000
    ends_s = [(START_NS + place * PERIOD_NS) / 1e9 for place in range(1, 101)] + [late_ends_ns / 1e9]
    live.seen(seen(1))
    ends_s += [ends_s[-1] + 0.016 * after for after in range(1, 101)]
    live.frames(ends_s, [0.016] * 100 + [0.08] + [0.016] * 100)
    live.seen(seen(2))
    waiting = live.moment(0.0)
    assert waiting is not None
    assert [one.cause for one in waiting.last] == ["pending"]
    live.handed(events(at(101, kind="direct-reclaim", length_ns=60_000_000)))
    told = live.moment(0.0)
    assert told is not None
    assert [one.cause for one in told.last] == ["direct reclaim"]


def test_without_an_event_pressure_stands_for_it_or_it_is_said_that_nothing_does() -> None:
    moment = watch(late={101: 80_000_000}).moment(0.0)
    assert moment is not None
    assert (moment.last[0].cause, moment.last[0].shown_by) == ("pressure on memory", "40% of that second")
    live = LiveWatch(SYMPTOMS, program=False)
    for second in range(1, 6):
        live.seen(seen(second, None, pressure_DOT_memory_DOT_some=0))
    live.handed(b"ktrial.recording/1\n" + block("H", HEAD) + wake_ups(300, {101: 80_000_000}))
    untraced = live.moment(0.0)
    assert untraced is not None
    assert untraced.last[0].cause == "unknown"
    assert [track.why_not for track in untraced.tracks if track.name == "slow I/O"] == ["events are not traced"]


def test_slow_requests_are_known_up_to_the_last_blocks() -> None:
    live = watch(*(at(60 + place, kind="block-io", length_ns=6_000_000) for place in range(3)), late={})
    live.seen(seen(6))
    moment = live.moment(0.0)
    assert moment is not None
    slow = next(track for track in moment.tracks if track.name == "slow I/O")
    assert slow.values == (3.0, 0.0, 0.0, 0.0, None)


def test_phases_are_told_by_what_came_so_far() -> None:
    live = LiveWatch(SYMPTOMS, program=False)
    scanned = 0
    for second in range(1, 901):
        scanned += 100 + second % 7 if second < 500 else 90_000 + second % 11
        live.seen(seen(second, vmstat_DOT_pgscan_kswapd=scanned, vmstat_DOT_pgfault=second * 500 + scanned // 3))
    moment = live.moment(0.0)
    assert moment is not None
    assert moment.phase == "ramp-up"
    assert moment.phase_since_s == pytest.approx(500, abs=30)


def test_every_column_that_is_shown_is_asked_for() -> None:
    assert {"pressure.cpu.some", "memory.MemAvailable", "trace.run-delay.time", "vmstat.pgscan_direct"} <= set(SHOWN)
    assert LiveWatch(SYMPTOMS, program=False).moment(0.0) is None
