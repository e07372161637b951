# SPDX-License-Identifier: Apache-2.0
"""Which records the runs of a log rest on, and what they contradict."""

from __future__ import annotations

from msgspec.structs import replace

from ktrial.bench.record import Exit, RunRecord
from ktrial.judge.model.log import Event, RunEnded
from ktrial.trial.run.records import contradicted, visits_of
from tests.support.records import run_record
from tests.support.trials import protocol

HASH = "0" * 64


def record(run: int, tool: str, block: int | None, arm: str, value: float = 1.0) -> RunRecord:
    return run_record(run, arm, block, {"time": value}, tool=tool)


def event(run: int, block: int | None, arm: str, **values: float) -> RunEnded:
    return RunEnded(run=run, block=block, arm=arm, measurements={f"{tool}.time": one for tool, one in values.items()})


def two_tools() -> tuple[list[Event], list[RunRecord]]:
    """A warm-up, a visit that was broken off after its first benchmark and made again, and one of the other arm."""
    records = [
        record(1, "a", None, "control"),
        record(2, "b", None, "control"),
        record(3, "a", 1, "control", 9.0),
        record(4, "a", 1, "control", 2.0),
        record(5, "b", 1, "control", 3.0),
        record(6, "a", 1, "case", 4.0),
        record(7, "b", 1, "case", 5.0),
    ]
    log: list[Event] = [
        protocol(),
        event(2, None, "control", a=1.0, b=1.0),
        event(5, 1, "control", a=2.0, b=3.0),
        event(7, 1, "case", a=4.0, b=5.0),
    ]
    return log, records


def test_each_benchmark_of_a_visit_has_its_record() -> None:
    log, records = two_tools()
    found = visits_of(log, records)
    assert {run: {tool: one.run for tool, one in visit.items()} for run, visit in found.items()} == {
        2: {"a": 1, "b": 2},
        5: {"a": 4, "b": 5},
        7: {"a": 6, "b": 7},
    }
    assert not list(contradicted(log, records, HASH))


def test_every_benchmark_of_a_visit_is_held_against_the_log() -> None:
    log, records = two_tools()
    records[3] = record(4, "a", 1, "control", 2.5)
    assert list(contradicted(log, records, HASH)) == [(5, "the log has a.time = 2.0, its record 2.5")]


def test_a_run_without_its_record_is_named() -> None:
    log, records = two_tools()
    assert [run for run, _ in contradicted(log, records[:-1], HASH)] == [7]


def test_a_run_of_another_arm_is_no_record_of_this_one() -> None:
    log, records = two_tools()
    records[5:] = [record(6, "a", 1, "control", 4.0), record(7, "b", 1, "control", 5.0)]
    assert [run for run, _ in contradicted(log, records, HASH)] == [7]


def test_an_interrupted_run_is_no_record() -> None:
    log, records = two_tools()
    records[6] = replace(records[6], exit=Exit(interrupted=True))
    assert [run for run, _ in contradicted(log, records, HASH)] == [7]


def test_a_failure_that_only_one_of_both_knows_is_named() -> None:
    log, records = two_tools()
    records[6] = replace(records[6], measurements=(), failure="exit status 1")
    reason = "the log says: the run is good; the record says: exit status 1"
    assert list(contradicted(log, records, HASH)) == [(7, reason)]


def test_runs_bear_the_hash_of_their_protocol() -> None:
    log, records = two_tools()
    told = list(contradicted(log, records, "f" * 64))
    assert {run for run, _ in told} == {1, 2, 4, 5, 6, 7}
    assert all(words.startswith("it was made for another protocol: 0000") for _, words in told)
