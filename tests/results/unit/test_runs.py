# SPDX-License-Identifier: Apache-2.0
"""Results in other tools' formats, read again by readers of the tests' own."""

from __future__ import annotations

import csv
import io
import json
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.results.exporters import run_exporters, run_formats
from ktrial.results.model import Exported, SessionRuns, StoredMeasurement, StoredRun
from tests.support.stores import a_record, a_run, a_session

DATE = "2023-11-14T22:13:20Z"
VALUES = st.floats(min_value=1e-12, max_value=1e12)
NAMES = st.text("abcxyz-_.,;\"' \t/é", min_size=1, max_size=12).filter(str.strip)


def export(format_: str, *runs: StoredRun, **session: Any) -> Exported:
    return run_exporters()[format_][1]([SessionRuns(session=a_session(**session), runs=runs, date=DATE)])


def measured(outcome: str, value: float, unit: Any = "s", direction: Any = "lower") -> StoredMeasurement:
    return StoredMeasurement(outcome=outcome, value=value, unit=unit, direction=direction, original=f"{value} x")


def kept(outcome: str, value: float, unit: str = "s") -> dict[str, Any]:
    return {"outcome": outcome, "value": value, "unit": unit, "direction": "lower", "original": ""}


def test_every_exporter_is_found_by_its_file() -> None:
    assert set(run_exporters()) == set(run_formats()) == {"csv", "gobench", "hyperfine", "margine"}


@given(st.lists(st.tuples(NAMES, NAMES, VALUES), min_size=1, max_size=8))
def test_tidy_csv_loses_no_number(rows: list[tuple[str, str, float]]) -> None:
    runs = [
        a_run(number, benchmark=benchmark, measurements=(measured(outcome, value),))
        for number, (benchmark, outcome, value) in enumerate(rows, 1)
    ]
    found = list(csv.DictReader(io.StringIO(export("csv", *runs).data.decode(), newline="")))
    assert [(row["benchmark"], row["outcome"], float(row["value"])) for row in found] == rows
    assert [row["run"] for row in found] == [str(number) for number in range(1, len(rows) + 1)]


def test_tidy_csv_holds_failed_runs_warm_ups_and_rounds() -> None:
    runs = (
        a_run(1, warm_up=True),
        a_record(2, "fio", round=3, measurements=[kept("time", 2.5)]),
        a_record(3, "fio", failure="broken"),
        a_run(4, document=None, measurements=(), state="interrupted"),
    )
    rows = list(csv.DictReader(io.StringIO(export("csv", *runs, label=None).data.decode())))
    assert [(row["round"], row["outcome"], row["value"], row["state"]) for row in rows] == [
        ("0", "p99", "1.5", "ok"),
        ("3", "time", "2.5", "ok"),
        ("1", "", "", "failed"),
        ("", "", "", "interrupted"),
    ]
    assert {row["label"] for row in rows} == {""}


@given(st.lists(VALUES, min_size=1, max_size=8))
def test_hyperfine_has_the_time_of_each_run(values: list[float]) -> None:
    runs = [a_record(number, "make", measurements=[kept("wall", value)]) for number, value in enumerate(values, 1)]
    (result,) = json.loads(export("hyperfine", *runs).data)["results"]
    assert result["times"] == values
    assert result["mean"] == statistics.fmean(values)
    assert result["median"] == statistics.median(values)
    assert (result["stddev"] is None) == (len(values) == 1)
    assert result["exit_codes"] == [0] * len(values)
    assert (result["command"], result["parameters"]) == ("/usr/bin/make", {"label": "stock"})
    assert result["user"] is None


def test_hyperfine_of_an_own_command_has_what_it_used() -> None:
    used = [kept("wall", 2.0), kept("user", 1.5), kept("system", 0.25), kept("peak_memory", 4096.0, "B")]
    run = a_record(1, "make", argv=["/usr/bin/make", "-j4", "a b"], measurements=used)
    (result,) = json.loads(export("hyperfine", run).data)["results"]
    assert result["command"] == "/usr/bin/make -j4 'a b'"
    assert (result["user"], result["system"], result["memory_usage_byte"]) == (1.5, 0.25, [4096])


def test_hyperfine_says_what_it_cannot_hold() -> None:
    many = a_record(1, "schbench", measurements=[kept("p50", 1.0), kept("p99", 2.0), kept("rps", 3.0, "1/s")])
    made = export("hyperfine", many, a_record(2, "schbench", failure="broken"))
    assert [one["command"] for one in json.loads(made.data)["results"]] == ["schbench p50", "schbench p99"]
    assert made.left_out[0] == "outcomes that are not times: schbench: rps"
    assert made.left_out[1] == "1 runs that failed or do not count"
    with pytest.raises(BadInput, match="no times"):
        export("hyperfine", a_record(1, "x", measurements=[kept("rps", 3.0, "1/s")]))


def read_go(data: bytes) -> tuple[dict[str, str], list[tuple[str, dict[str, float]]]]:
    """Directions of units, and (name, {unit: value}) of each result line."""
    better, results = {}, []
    for line in data.decode().splitlines():
        words = line.split()
        if line.startswith("Unit "):
            better[words[1]] = words[2].removeprefix("better=")
        elif line.startswith("Benchmark"):
            assert words[1] == "1"
            results.append(
                (words[0], {unit: float(value) for value, unit in zip(words[2::2], words[3::2], strict=True)})
            )
    return better, results


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8))
def test_go_text_has_one_line_for_each_run(values: list[tuple[float, float]]) -> None:
    runs = [
        a_run(number, measurements=(measured("p99", one), measured("rate", two, "1/s", "higher")))
        for number, (one, two) in enumerate(values, 1)
    ]
    better, results = read_go(export("gobench", *runs).data)
    assert results == [("BenchmarkWakeup", {"p99-sec": one, "rate/s": two}) for one, two in values]
    assert better == {"p99-sec": "lower", "rate/s": "higher"}


def test_go_text_tells_what_sessions_are() -> None:
    one = SessionRuns(session=a_session("s1", label="a b"), runs=(a_run(1, benchmark="7 zip"),))
    two = SessionRuns(session=a_session("s2", label=None), runs=(a_run(1, session="s2", warm_up=True), a_run(2)))
    text = run_exporters()["gobench"][1]([one, two]).data.decode()
    assert "label: a b\n" in text
    assert "label:\n" in text
    assert "BenchmarkN7_zip 1 1.5 p99-sec\n" in text
    assert text.count("Benchmark") == 2
    with pytest.raises(BadInput, match="no good run"):
        export("gobench", a_run(1, state="failed"))


def test_units_that_were_imported_from_go_stay() -> None:
    run = a_run(
        1, measurements=(measured("sec/op", 1.0), measured("B/op", 2.0, "B"), measured("widgets", 3.0, "score"))
    )
    ((_, values),) = read_go(export("gobench", run).data)[1]
    assert values == {"sec/op": 1.0, "B/op": 2.0, "widgets": 3.0}


def test_margine_holds_the_medians_of_its_suite() -> None:
    runs = [
        a_record(number, "schbench", measurements=[kept("wakeup-p50", value), kept("wakeup-p99", 0.012)])
        for number, value in enumerate((0.001, 0.003, 0.002), 1)
    ]
    runs.append(a_record(4, "perf-pipe", measurements=[kept("time", 4e-6)]))
    told = {"events": 88_000, "total_time_s": 30.01, "latency_mean_s": 0.0041, "percentile_grid_ratio": 1.018}
    runs.append(a_record(5, "sysbench-threads", measurements=[kept("latency-p95", 0.0239)], details=told))
    runs.append(a_record(6, "perf-messaging", measurements=[kept("time", 2.99)]))
    machine = {
        "cpu.model": {"value": "AMD"},
        "cpu.threads": {"value": 12},
        "cpufreq.governor": {"absent": True},
        "kernel.scheduler": {"value": "BORE"},
        "kernel.sched_ext_state": {"value": "disabled"},
    }
    made = export("margine", *runs, document={"machine": machine}, kernel_release="7.0.12-cachyos1")
    assert json.loads(made.data) == {
        "schema": "margine-bench-kernel/1",
        "label": "stock",
        "date": DATE,
        "kernel": "7.0.12-cachyos1",
        "cpu_model": "AMD",
        "nproc": 12,
        "scx_state": "disabled",
        "bore": 1,
        "cachyos": 1,
        "schbench_p50_us": 2000.0,
        "schbench_p99_us": 12000.0,
        "sched_pipe_usecs_op": 4.0,
        "sched_pipe_ops_sec": pytest.approx(250_000),
        "sched_messaging_total_s": 2.99,
        "sysbench_events": 88_000,
        "sysbench_total_time_s": 30.01,
        "sysbench_lat_avg_ms": pytest.approx(4.1),
        "sysbench_lat_95th_ms": pytest.approx(23.9),
        "metrics_collected": 9,
        "metrics_expected": 9,
    }
    assert made.left_out == (
        "single runs: the figures are medians of up to 3",
        "the host name, which ktrial does not store",
    )


def test_margine_of_an_imported_run_is_what_it_was() -> None:
    figures = (measured("schbench-p50", 0.002), measured("sysbench-events", 88_000.0, "count", "higher"))
    run = a_run(1, benchmark="margine", measurements=figures, document={"measurements": []})
    found = json.loads(export("margine", run, origin="import:margine").data)
    assert (found["schbench_p50_us"], found["sysbench_events"]) == (2000.0, 88_000.0)


def test_margine_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(BadInput, match="none of the figures"):
        export("margine", a_run(1))
    with pytest.raises(BadInput, match="one session, not 2"):
        run_exporters()["margine"][1]([SessionRuns(session=a_session(), runs=())] * 2)
