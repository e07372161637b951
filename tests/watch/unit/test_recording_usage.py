# SPDX-License-Identifier: Apache-2.0
"""Who used memory and disks up, and drives that woke up, out of own recordings."""

from __future__ import annotations

from math import isnan
from typing import Any

import msgspec
import pytest

from ktrial.recordings.ktrial import read_recording
from tests.support.written_recordings import HEAD, START_NS, TAIL, TRACE, block, events, recording

SECOND = 1_000_000_000
STATES = [
    {"id": 0, "operational": True, "entry_latency_us": None, "exit_latency_us": None, "maximum_power_uw": 8_000_000},
    {"id": 4, "operational": False, "entry_latency_us": 500, "exit_latency_us": 9500, "maximum_power_uw": 2500},
]


def look(at: int, *changed: dict[str, Any]) -> dict[str, Any]:
    return {"at_ns": START_NS + at * SECOND, "before_ns": START_NS + (at - 1) * SECOND, "changed": changed}


def used(*looks: dict[str, Any]) -> bytes:
    return block("U", b"\n".join(msgspec.json.encode(one) for one in looks))


def hog(before: int, after: int) -> dict[str, Any]:
    return {"pid": 7, "name": "hog", "memory": [before, after], "read": [0, 0], "written": [before, after]}


def test_who_changed_is_as_before_until_the_look_before_it_is_told_again() -> None:
    group = {"group": "/a.service", "memory": [5, 6], "cache": [1, 2]}
    found = read_recording(
        recording(used(look(2, hog(100, 200), group)), used(look(3, hog(200, 300)), look(9, hog(300, 900)))), "a.ktr"
    )
    process, service = found.usages
    assert (process.name, process.pid, process.cgroup) == ("hog", 7, None)
    assert list(process.times_s) == [1, 2, 3, 8, 9]
    assert list(process.memory_bytes or ()) == [100, 200, 300, 300, 900]
    assert list(process.io_bytes or ()) == [100, 200, 300, 300, 900]
    assert process.cache_bytes is None
    assert (service.name, service.cgroup, list(service.cache_bytes or ())) == ("/a.service", "/a.service", [1, 2])
    assert service.io_bytes is None


def test_what_could_not_be_read_is_not_nothing() -> None:
    first = {"pid": 7, "name": "hog", "memory": [1, 2]}
    found = read_recording(recording(used(look(2, first), look(5, hog(2, 3)))), "a.ktr")
    (process,) = found.usages
    assert [isnan(value) for value in process.io_bytes or ()] == [True, True, False, False]


def request(length_ns: int, idle_ns: int | None) -> dict[str, Any]:
    told = {"kind": "block-io", "begin_ns": START_NS, "length_ns": length_ns, "device": "nvme0n1"}
    return told if idle_ns is None else {**told, "idle_ns": idle_ns}


@pytest.mark.parametrize("apst, count", [(True, 1), (None, 1), (False, 0)])
def test_requests_that_woke_a_drive_up_are_events_of_their_own(apst: bool | None, count: int) -> None:
    head = {**HEAD, "nvme": {"nvme0n1": {"apst": apst, "power_states": STATES}}}
    told = [request(10_300_000, 2 * SECOND), request(10_300_000, None), request(80_000_000, 2 * SECOND)]
    found = read_recording(recording(events(*told), head=head), "a.ktr")
    woken = [event for event in found.events if event.kind == "nvme-exit"]
    assert len(found.events) - len(woken) == 3
    assert [event.detail for event in woken] == ["state 4, 9.5 ms to leave it"] * count
    assert (found.source("trace.nvme-exit") is not None) == (apst is not False)


def test_histograms_and_the_states_beside_them_are_read() -> None:
    devices = {
        "nvme0n1": {
            "requests": 3,
            "bytes": 4096,
            "flushes": 1,
            "histogram": [[1000, 2], [8000, 1]],
            "after_idle": [[8000, 1]],
        }
    }
    head = {**HEAD, "nvme": {"nvme0n1": {"apst": True, "power_states": STATES}}}
    found = read_recording(recording(head=head, tail={**TAIL, "trace": {**TRACE, "devices": devices}}), "a.ktr")
    latencies = found.latencies["nvme0n1"]
    assert [end_s for end_s, _ in latencies.histogram] == pytest.approx([1e-6, 8e-6])
    assert [count for _, count in (*latencies.histogram, *latencies.after_idle)] == [2, 1, 1]
    assert [state.id for state in latencies.states] == [4]


def test_passed_triggers_are_events_of_their_own_source() -> None:
    passed = {"kind": "pressure-memory", "begin_ns": START_NS, "detail": "some task waited for 5 % of 1000 ms"}
    found = read_recording(recording(events(passed)), "a.ktr")
    assert [(event.kind, event.source) for event in found.events] == [("pressure-memory", "triggers")]
    source = found.source("triggers")
    assert source is not None
    assert source.seen == 1
