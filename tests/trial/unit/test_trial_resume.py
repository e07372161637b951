# SPDX-License-Identifier: Apache-2.0
"""A trial that is cut at any moment and gone on with is the trial that was not cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.bench.record import RunRecord
from ktrial.judge.audit import audit
from ktrial.judge.model.log import BlockVoided, Event, RunEnded
from ktrial.trial.run.records import contradicted, untold
from tests.support.trial_course import FOUND, Trial, Values, alike, steady


def flaky(block: int | None, arm: str) -> float | bytes:
    """The case fails now and then."""
    return b"oops" if arm == "case" and block in {2, 5} else alike(block, arm)


SHAPES: dict[str, tuple[Values, dict[str, Any]]] = {
    "equal": (alike, {"cap": 7}),
    "decided": (steady, {}),
    "failing": (flaky, {"cap": 7}),
    "two runs a visit": (alike, {"cap": 7, "runs_per_visit": 2}),
    "two benchmarks": (alike, {"cap": 7, "benchmarks": ("tool", "other")}),
    "four arms": (alike, {"cap": 9, "names": ("case", "b", "c")}),
}


def uncut(shape: str) -> Trial:
    values, changes = SHAPES[shape]
    trial = Trial(values, **changes)
    assert trial.run() is not None
    return trial


WHOLE: dict[str, tuple[list[Event], int]] = {}


def whole(shape: str) -> tuple[list[Event], int]:
    """The events of the trial that was not cut, and after how many steps it was over."""
    if shape not in WHOLE:
        trial = uncut(shape)
        WHOLE[shape] = (trial.happened, trial.steps)
    return WHOLE[shape]


def without_repeated_readings(log: Sequence[Event]) -> list[Event]:
    """A visit of several benchmarks that was cut has its readings once more."""
    return [event for at, event in enumerate(log) if at == 0 or event != log[at - 1]]


@settings(max_examples=30)
@given(st.sampled_from(sorted(SHAPES)), st.data())
def test_cut_anywhere_and_resumed_it_is_the_same_trial(shape: str, data: st.DataObject) -> None:
    wanted, steps = whole(shape)
    values, changes = SHAPES[shape]
    trial = Trial(values, **changes)
    cuts = data.draw(st.lists(st.integers(0, steps), max_size=3), label="cuts")
    for last in cuts:
        trial.run(last)
        assert trial.machine.files == FOUND
    judgement = trial.run()
    assert judgement is not None
    assert without_repeated_readings(trial.happened) == without_repeated_readings(wanted)
    assert audit(trial.log) == ()
    place = trial.store.records[0].trial
    assert place is not None
    assert list(contradicted(trial.log, trial.store.records, place.protocol_sha256)) == []


@pytest.mark.parametrize("shape", ["equal", "two runs a visit", "failing"])
def test_cut_at_each_step_no_run_that_ended_is_lost(shape: str) -> None:
    values, changes = SHAPES[shape]
    _, steps = whole(shape)
    for last in range(3, steps, 41):
        trial = Trial(values, **changes)
        trial.run(last)
        ended = len(trial.store.records)
        trial.run()
        told = {event.run for event in trial.log if isinstance(event, RunEnded)}
        # A warm-up is made anew.
        lost = [record.run for record in trial.store.records[:ended] if record.run not in told and record.round > 0]
        assert lost == [], f"cut after {last} steps"


def test_a_run_whose_end_the_log_was_not_told_counts() -> None:
    trial = uncut("equal")
    log = trial.log[: next(at for at, event in enumerate(trial.log) if isinstance(event, RunEnded) and event.block)]
    late = untold(log, trial.store.records[:3], ("tool",))
    (event,) = [one for one in late if isinstance(one, RunEnded)]
    assert (event.run, event.block) == (3, 1)
    assert event.measurements["tool.time"] == trial.store.records[2].measurements[0].value


def records_of(trial: Trial, number: int, **changes: Any) -> list[RunRecord]:
    record = next(one for one in trial.store.records if one.run == number)
    return [msgspec.structs.replace(record, **changes)]


def test_a_void_run_whose_end_the_log_was_not_told_makes_its_block_void() -> None:
    trial = uncut("equal")
    log = trial.log[: next(at for at, event in enumerate(trial.log) if isinstance(event, RunEnded) and event.block)]
    late = untold(log, records_of(trial, 3, void=("the machine slept for 3 s",)), ("tool",))
    (event,) = [one for one in late if isinstance(one, BlockVoided)]
    assert (event.block, event.cause) == (1, "suspend")


def test_an_interrupted_run_is_no_run() -> None:
    trial = uncut("equal")
    log = trial.log[: next(at for at, event in enumerate(trial.log) if isinstance(event, RunEnded) and event.block)]
    record = trial.store.records[2]
    gone = msgspec.structs.replace(record, exit=msgspec.structs.replace(record.exit, interrupted=True))
    assert untold(log, [gone], ("tool",)) == []


def test_half_a_visit_is_no_visit() -> None:
    trial = uncut("two benchmarks")
    first = next(at for at, event in enumerate(trial.log) if isinstance(event, RunEnded) and event.block)
    places = [record for record in trial.store.records if record.trial is not None and record.trial.block == 1]
    assert untold(trial.log[:first], places[:1], trial.benchmarks) == []
    assert len(untold(trial.log[:first], places[:2], trial.benchmarks)) >= 1
