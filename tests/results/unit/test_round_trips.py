# SPDX-License-Identifier: Apache-2.0
"""What ktrial writes in other tools' formats comes back through its own importers."""

from __future__ import annotations

import json
import statistics
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.outcome import Unit
from ktrial.results.exporters import run_exporters
from ktrial.results.foreign import ForeignResults
from ktrial.results.importers import all_importers
from ktrial.results.model import SessionRuns, StoredMeasurement, StoredRun
from tests.support.stores import a_run, a_session

TIMES = st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=2, max_size=6)
#: Exporter -> importer of the same format; that of margine holds medians, below.
PAIRS = {"csv": "ktrial-csv", "hyperfine": "hyperfine", "gobench": "go-bench"}


def there_and_back(format_: str, stock: list[float], tuned: list[float]) -> ForeignResults:
    """Two sessions of one benchmark, written and read."""
    sessions = []
    for label, values in (("stock", stock), ("tuned", tuned)):
        runs = tuple(
            a_run(
                number,
                session=label,
                benchmark="wakeup",
                measurements=(
                    StoredMeasurement(outcome="time", value=value, unit="s", direction="lower", original=f"{value} s"),
                ),
            )
            for number, value in enumerate(values, 1)
        )
        sessions.append(SessionRuns(session=a_session(label, label=label), runs=runs))
    data = run_exporters()[format_][1](sessions).data
    importer = all_importers()[PAIRS[format_]]
    assert importer.sniff(data[: 1 << 16], f"results.{format_}")
    return importer.read(data, f"results.{format_}", ImportOptions())


@pytest.mark.parametrize("format_", sorted(PAIRS))
@given(stock=TIMES, tuned=TIMES)
def test_every_number_comes_back(format_: str, stock: list[float], tuned: list[float]) -> None:
    found = there_and_back(format_, stock, tuned)
    values = [one.value for run in found.runs for one in run.measurements]
    assert values == pytest.approx([*stock, *tuned], rel=1e-12)
    assert {one.unit for run in found.runs for one in run.measurements} == {"s"}
    assert not any(run.failure for run in found.runs)


@pytest.mark.parametrize("format_", ["csv", "gobench"])
@pytest.mark.parametrize("unit", get_args(Unit))
def test_every_unit_comes_back_and_goes_out_again_as_it_was(format_: str, unit: Unit) -> None:
    measured = StoredMeasurement(outcome="load", value=2.5, unit=unit, direction="lower", original=f"2.5 {unit}")
    runs = (a_run(1, session="stock", benchmark="wakeup", measurements=(measured,)),)
    written = run_exporters()[format_][1]([SessionRuns(session=a_session("stock"), runs=runs)]).data
    (run,) = all_importers()[PAIRS[format_]].read(written, "results", ImportOptions()).runs
    (back,) = run.measurements
    assert (back.value, back.unit, back.direction) == (2.5, unit, "lower")
    again = (msgspec.structs.replace(measured, outcome=back.outcome),)
    runs = (a_run(1, session="stock", benchmark="wakeup", measurements=again),)
    assert run_exporters()[format_][1]([SessionRuns(session=a_session("stock"), runs=runs)]).data == (
        written if format_ == "gobench" else written.replace(b",load,", f",{back.outcome},".encode())
    )


@pytest.mark.parametrize("format_", ["csv"])
def test_groups_and_directions_come_back(format_: str) -> None:
    found = there_and_back(format_, [1.0, 2.0], [3.0])
    assert [(run.group, run.benchmark, run.measurements[0].value) for run in found.runs] == [
        ("stock", "wakeup", 1.0),
        ("stock", "wakeup", 2.0),
        ("tuned", "wakeup", 3.0),
    ]
    assert {run.measurements[0].direction for run in found.runs} == {"lower"}


#: Outcomes of the margine suite as the exporter knows them -> outcome of the importer.
MARGINE = {
    ("schbench", "wakeup-p50"): "schbench-p50",
    ("schbench", "wakeup-p99"): "schbench-p99",
    ("perf-messaging", "time"): "sched-messaging-total",
    ("perf-pipe", "time"): "sched-pipe-time",
    ("sysbench-threads", "latency-p95"): "sysbench-latency-p95",
}


@settings(max_examples=30)
@given(figures=st.lists(TIMES, min_size=5, max_size=5))
def test_the_medians_of_a_margine_session_come_back(figures: list[list[float]]) -> None:
    """And what was brought in goes out again as it was."""
    runs: list[StoredRun] = []
    for (tool, outcome), values in zip(MARGINE, figures, strict=True):
        for value in values:
            told = StoredMeasurement(outcome=outcome, value=value, unit="s", direction="lower", original=f"{value} s")
            runs.append(a_run(len(runs) + 1, benchmark=tool, measurements=(told,)))
    export, importer = run_exporters()["margine"][1], all_importers()["margine"]
    data = export([SessionRuns(session=a_session(label="stock"), runs=tuple(runs))]).data
    assert importer.sniff(data, "run.json")
    (run,) = importer.read(data, "run.json", ImportOptions()).runs
    found = {one.outcome: one.value for one in run.measurements}
    medians = {name: statistics.median(values) for name, values in zip(MARGINE.values(), figures, strict=True)}
    assert {name: found[name] for name in medians} == pytest.approx(medians, rel=1e-12)
    rates = [1 / value for value in figures[list(MARGINE.values()).index("sched-pipe-time")]]
    assert found["sched-pipe-rate"] == pytest.approx(statistics.median(rates), rel=1e-12)
    assert {one.unit for one in run.measurements} == {"s", "1/s"}
    assert (run.group, run.attributes["kernel"]) == ("stock", "6.18")

    stored = tuple(
        StoredMeasurement(
            outcome=one.outcome, value=one.value, unit=one.unit, direction=one.direction, original=one.original
        )
        for one in run.measurements
    )
    session = a_session(label="stock", origin="import:margine")
    again = export([SessionRuns(session=session, runs=(a_run(1, measurements=stored),))]).data
    before, after = json.loads(data), json.loads(again)
    assert {key: value for key, value in after.items() if isinstance(value, str)} == {
        key: value for key, value in before.items() if isinstance(value, str)
    }
    numbers = {key: value for key, value in before.items() if not isinstance(value, str)}
    assert {key: after[key] for key in numbers} == pytest.approx(numbers, rel=1e-12)
