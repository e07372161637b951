# SPDX-License-Identifier: Apache-2.0
"""Events that an agent traces in a watch of its own."""

from __future__ import annotations

import base64
import queue
import threading
import time
from typing import Any, cast

import pytest

from ktrial.agent.session import AgentSession, Progress
from ktrial.kit.errors import AgentError, BadInput
from ktrial.kit.json_bytes import Base64
from ktrial.live.model import LiveMetric, Stretch, StretchReading
from ktrial.live.sources.events import EventsSource, find_process
from ktrial.live.sources.web import NotRead
from ktrial.machine.reading import Reading
from tests.support.live import START_MS, StillClock, world
from tests.support.machine import FakeMachine
from tests.support.written_recordings import HEAD, START_NS, block, events


class FakeWatch:
    """A session whose watch reports what a test puts."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.lines: queue.Queue[Progress | dict[str, Any] | AgentError] = queue.Queue()
        self.is_open = True
        self.calls = self.taken = 0

    def is_waiting(self) -> bool:
        return self.calls > self.taken and self.lines.empty()

    def send(self, do: str, **fields: Any) -> None:
        assert do == "watch"
        self.asked = fields

    def receive_begun(self, do: str) -> None: ...

    def receive_next(self, do: str) -> Progress | dict[str, Any]:
        self.calls += 1
        line = self.lines.get(timeout=20)
        self.taken += 1
        if isinstance(line, AgentError):
            raise line
        return line

    def hang_up(self) -> None:
        self.lines.put({})

    def close(self) -> None:
        self.is_open = False


def seen(lost: int | None = 0, **columns: int) -> Progress:
    named = {
        f"trace.{name.replace('_', '-')}.{end}": value for name, value in columns.items() for end in ("count", "time")
    }
    view: dict[str, Any] = {
        "at_ns": 1,
        "started_ns": 0,
        "cpu_ns": 0,
        "bytes": 0,
        "lost": lost,
        "columns": named,
        "events": [],
    }
    return Progress(seen=view)


class Traced:
    def __init__(self, source: str, first: Progress, **files: str) -> None:
        self.clock, self.watch = StillClock(), FakeWatch()
        there = {path.replace("_", "/"): text for path, text in files.items()}
        session = cast("AgentSession", self.watch)
        self.world = world(self.clock, machine=FakeMachine(there, is_root=False), open_root=lambda: session)
        self.source = EventsSource(LiveMetric("m", "lower", f"events:{source}"), self.world)
        self.watch.lines.put(first)
        self.source.begin()

    def polls(self, *lines: Progress | AgentError) -> list[float]:
        found = []
        for line in lines:
            self.clock.pass_s(1)
            self.watch.lines.put(line)
            self.wait()
            found += [sample.value for sample in self.source.poll()]
        return found

    def wait(self) -> None:
        """Wait until the thread asks for another line, or has ended."""
        deadline = time.monotonic() + 10
        while not self.watch.is_waiting() and any(one.name == "events" for one in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def over(self, end_s: float) -> StretchReading:
        return self.source.over(Stretch(START_MS, START_MS + round(end_s * 1000)))


def test_the_time_of_events_is_a_rate() -> None:
    one = Traced("run-delay?of=7", seen(run_delay=5))
    assert one.watch.asked["process"] == 7
    assert one.watch.asked["events"] == ["run-delay"]
    assert one.polls(seen(run_delay=500_000_005), seen(run_delay=500_000_005)) == [pytest.approx(0.5), 0.0]
    assert one.over(3).value == pytest.approx(0.25)
    one.source.end()
    assert not one.watch.is_open


def test_a_request_has_a_mean_time() -> None:
    one = Traced("block", seen(block_io=0))
    assert one.polls(seen(block_io=4), seen(block_io=4)) == [pytest.approx(1e-9)]
    assert one.over(3).value == pytest.approx(1e-9)
    one.source.end()


def test_only_events_of_the_program_count_if_one_is_named() -> None:
    one = Traced("reclaim?of=7", seen(direct_reclaim=10**9))
    told = [
        {"kind": "direct-reclaim", "begin_ns": START_NS, "length_ns": 250_000_000, "pid": 7, "watched": True},
        {"kind": "direct-reclaim", "begin_ns": START_NS, "length_ns": 999_000_000, "pid": 8, "watched": False},
    ]
    data = b"ktrial.recording/1\n" + block("H", HEAD) + events(*told)
    one.watch.lines.put(Progress(chunk=Base64(base64.b64encode(data).decode())))
    assert one.polls(seen(direct_reclaim=3 * 10**9)) == [0.25]
    one.source.end()


def test_lost_events_and_lost_agents_are_missing() -> None:
    one = Traced("reclaim", seen(direct_reclaim=0))
    assert one.polls(seen(direct_reclaim=0), seen(7, direct_reclaim=0)) == [0.0]
    assert "events were lost" in (one.over(3).why or "")
    one.polls(AgentError("lost", "lost the agent"))
    one.clock.pass_s(5)
    one.source.poll()
    assert (one.over(8).why or "").endswith("lost the agent")
    one.source.end()


def test_without_root_or_a_tracer_it_is_refused() -> None:
    metric = LiveMetric("m", "lower", "events:block")
    with pytest.raises(BadInput, match="only root can trace events"):
        EventsSource(metric, world(StillClock())).begin()
    with pytest.raises(BadInput, match="events are not traced"):
        Traced("block", seen(None))
    assert not any(one.name == "events" for one in threading.enumerate())


def test_a_process_is_found_by_its_name() -> None:
    files: dict[str, str | Reading] = {}
    for pid, name, parent in ((10, "pg", 1), (11, "pg", 10), (12, "app", 10), (13, "two", 1), (14, "two", 1)):
        files |= {f"/proc/{pid}/comm": f"{name}\n", f"/proc/{pid}/stat": f"{pid} ({name}) S {parent} 1\n"}
    machine = FakeMachine(files, is_root=False)
    assert [find_process(machine, of) for of in ("pg", "app", "99")] == [10, 12, 99]
    with pytest.raises(NotRead, match="no process is called none"):
        find_process(machine, "none")
    with pytest.raises(NotRead, match="2 processes are called two: 13, 14"):
        find_process(machine, "two")
