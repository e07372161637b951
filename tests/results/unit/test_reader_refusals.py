# SPDX-License-Identifier: Apache-2.0
"""What each reader of another tool's results refuses, and what it tells beside the numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.results.foreign import ForeignResults
from ktrial.results.importers import (
    fio,
    go_bench,
    google_benchmark,
    hyperfine,
    ktrial_bench,
    lkp,
    mangohud,
    mmtests,
    pgbench,
    phoronix,
    pyperf,
    schbench,
    tidy_csv,
)


def read(reader: ModuleType, data: Any, **options: Any) -> ForeignResults:
    """A document, or a text, as `ktrial import f.x` gives it to the reader."""
    whole = data.encode() if isinstance(data, str) else json.dumps(data).encode()
    found: ForeignResults = reader.read(whole, "f.x", ImportOptions(**options))
    return found


def timed(**changes: Any) -> dict[str, Any]:
    return {"results": [{"command": "true", "times": [1.0, 2.0], **changes}]}


def google(**changes: Any) -> dict[str, Any]:
    run = {"name": "b", "real_time": 2, "cpu_time": 1, **changes}
    return {"context": {"library_version": "1.9"}, "benchmarks": [run]}


MEASURED = {"outcome": "time", "value": 1.5, "unit": "s", "direction": "lower", "original": "1.5 s"}


def bench(*runs: dict[str, Any], **session: Any) -> dict[str, Any]:
    plain = {"run": 1, "benchmark": "b", "round": 1, "measurements": [MEASURED], "failure": None}
    return {
        "schema": "ktrial.bench/1",
        "session": {"session": "s1", "suite": "quick", "label": None, **session},
        "runs": [{**plain, **run} for run in runs],
    }


def matrix(*paths: Any, **statistics: Any) -> dict[str, Any]:
    return {"stats_source": list(paths), **statistics}


def extract(values: Any = (1.5,), **changes: Any) -> dict[str, Any]:
    samples = {"Values": list(values), "SampleNrs": list(range(len(values)))}
    return {"_ModuleName": "ExtractX", "_DataType": 1, "_ResultData": {"a": [None, samples]}, **changes}


def suite(inner: str) -> str:
    return f"<PhoronixTestSuite>{inner}</PhoronixTestSuite>"


def result(entry: str) -> str:
    return suite(f"<Result><Title>t</Title><Data><Entry>{entry}</Entry></Data></Result>")


DEEP = "<a>" * 11 + "</a>" * 11


@pytest.mark.parametrize(
    "reader, data, told",
    [
        (hyperfine, {"results": []}, "its list 'results' is empty"),
        (hyperfine, timed(command=5), "a string (results[0].command)"),
        (hyperfine, timed(times=[]), "the list results[0].times is empty"),
        (hyperfine, timed(exit_codes=[0]), "results[0].exit_codes has 1 values for 2 times"),
        (google_benchmark, google(time_unit="h"), "one of ns, us, ms, s (benchmarks[0].time_unit)"),
        (ktrial_bench, {"schema": "ktrial.bench/9"}, "the schema ktrial.bench/1"),
        (ktrial_bench, bench({}, session=5), "session.session is not a string"),
        (ktrial_bench, bench({}, suite=None), "session.suite is not a string"),
        (ktrial_bench, bench({}, label=5), "session.label is not a string"),
        (ktrial_bench, bench({"round": 0}), "it has no run that counts"),
        (ktrial_bench, bench({"round": "x"}), "a run's record: expected `int`"),
        (ktrial_bench, bench({"measurements": []}), "it has neither measurements nor a failure"),
        (ktrial_bench, bench({"measurements": [MEASURED] * 2}), "an outcome occurs twice"),
        (lkp, matrix(), "a list of paths, one for each run (stats_source)"),
        (lkp, matrix("a", 5), "a list of paths, one for each run (stats_source)"),
        (lkp, matrix("a", "a", x=[1, 2]), "a list of different paths (stats_source)"),
        (lkp, matrix("a", "b", x=[0, 0]), "a matrix of statistics: all its values are 0"),
        (mmtests, extract(_ModuleName=5), "a string (document._ModuleName)"),
        (mmtests, extract(values=()), "a table of operations that have values"),
        (phoronix, "<Other/>", "the root <PhoronixTestSuite>"),
        (phoronix, suite(""), "a file of results: it has no <Result>"),
        (
            phoronix,
            suite(DEEP.replace("<a>", "<a><a>").replace("</a>", "</a></a>")),
            "it is nested more than 12 deep",
        ),
        (phoronix, "<PhoronixTestSuite>", "not valid XML: no element found in line 1"),
        (phoronix, result("<Value>1</Value>"), "an entry with an <Identifier>"),
    ],
)
def test_what_is_not_in_order_is_named(reader: ModuleType, data: Any, told: str) -> None:
    with pytest.raises(BadRun, match=re.escape(told)):
        read(reader, data)


@pytest.mark.parametrize("depth, is_read", [(11, True), (12, False)])
def test_elements_lie_within_twelve_levels(depth: int, is_read: bool) -> None:
    inner = "<a>" * depth + "</a>" * depth
    with pytest.raises(BadRun) as caught:
        phoronix.read_phoronix(suite(inner).encode())
    assert ("nested more than 12 deep" in str(caught.value)) is not is_read
    assert str(caught.value).startswith("composite.xml")


def test_xml_is_text_in_utf_8() -> None:
    with pytest.raises(BadRun, match="UTF-8"):
        phoronix.read(b"<PhoronixTestSuite>\xff</PhoronixTestSuite>", "f.xml", ImportOptions())


@pytest.mark.parametrize(
    "told, values", [("", []), ("{", []), ('{"test-run-times": "1:2"}', []), ('{"test-run-times": "1"}', ["7"])]
)
def test_a_value_without_its_runs_counts_where_there_was_one(told: str, values: list[str]) -> None:
    entry = f"<Identifier>s</Identifier><Value>7</Value><JSON>{told}</JSON>"
    (found,) = phoronix.read_phoronix(result(entry).encode()).results
    assert [*found.entries[0].values] == values


def test_an_entry_without_a_value_has_no_runs() -> None:
    (found,) = phoronix.read_phoronix(result("<Identifier>s</Identifier><RawString>1:2</RawString>").encode()).results
    assert found.entries == (phoronix.PhoronixEntry(system="s", line=1, values=()),)


def test_no_job_of_fio_did_anything() -> None:
    idle = {"jobname": "j", "error": 0}
    with pytest.raises(BadRun, match=r"f\.x: no job read, wrote or trimmed anything"):
        read(fio, {"fio version": "fio-3.33", "jobs": [idle]})


def test_a_job_of_fio_that_failed_did_nothing() -> None:
    (run,) = read(fio, {"fio version": "fio-3.33", "jobs": [{"jobname": "j", "error": 28}]}).runs
    assert (run.failure, run.measurements) == ("j ended with error 28", ())


def test_lines_after_the_json_of_fio_are_counted() -> None:
    failed = json.dumps({"fio version": "fio-3.33", "jobs": [{"jobname": "j", "error": 5}]}, indent=1)
    assert "2 lines after fio's JSON are ignored" in read(fio, f"{failed}\n\nj: (g=0)\n  read: 1\n").notes


def test_a_result_line_of_go_has_a_name_iterations_and_values() -> None:
    config = "goos: linux\n"
    (run,) = read(go_bench, f"{config}Benchmarking 3 files\nBenchmarkA-8 100 20 ns/op\n").runs
    assert (run.benchmark, dict(run.attributes)) == ("A", {"goos": "linux", "gomaxprocs": "8", "iterations": "100"})
    (only,) = go_bench.read_go_bench(b"BenchmarkB x 20 ns/op\nBenchmarkC 5\nBenchmarkA 1 20 ns/op\n")
    assert only.name == "A"
    # Iterations alone make a result of `go test`, whose values are then none.
    with pytest.raises(BadRun, match="no line has the form 'BenchmarkName iterations value unit'"):
        go_bench.read_go_bench(b"BenchmarkA 100\n")
    with pytest.raises(BadRun, match="a list of values, each with its unit"):
        go_bench.read_go_bench(b"BenchmarkA 100 20\n")


@pytest.mark.parametrize(
    "unit, name, base, times",
    [
        ("ns", "sec", "s", 1e-9),
        ("ns/op", "sec/op", "s", 1e-9),
        ("ns/GC", "sec/GC", "s", 1e-9),
        ("p99-ns", "p99-sec", "s", 1e-9),
        ("sec", "sec", "s", 1),
        ("sec/op", "sec/op", "s", 1),
        ("p99-sec", "p99-sec", "s", 1),
        ("nsx", "nsx", "score", 1),
    ],
)
def test_times_of_go_are_seconds(unit: str, name: str, base: str, times: float) -> None:
    (run,) = read(go_bench, f"BenchmarkA 100 20 {unit}\n").runs
    (one,) = run.measurements
    assert (one.outcome, one.unit, one.original) == (name, base, f"20 {unit}")
    assert one.value == pytest.approx(20 * times)


@pytest.mark.parametrize(
    "head, known",
    [
        (b'{"context": {"library_build_type": "release"}', True),
        (b'{"benchmarks": [{"real_time": 1, "time_unit": "ns"', True),
        (b'{"context": {}', False),
        (b'{"x": {"library_build_type": "release"}', False),
        (b'{"benchmarks": [{"real_time": 1', False),
        (b'{"benchmarks": [{"time_unit": "ns"', False),
        (b'{"x": [{"real_time": 1, "time_unit": "ns"', False),
    ],
)
def test_a_file_of_google_benchmark_is_known_by_its_keys(head: bytes, known: bool) -> None:
    assert google_benchmark.sniff(head, "f.json") is known


def test_times_of_google_benchmark_are_nanoseconds_unless_it_says_otherwise() -> None:
    (run,) = read(google_benchmark, google()).runs
    assert [(one.outcome, one.value) for one in run.measurements] == [("time", 2e-9), ("cpu-time", 1e-9)]
    assert run.attributes["tool_version"] == "google-benchmark 1.9"
    (slow,) = read(google_benchmark, google(time_unit="ms")).runs
    assert slow.measurements[0].value == pytest.approx(0.002)


def test_what_a_result_of_ours_tells_beside_its_numbers() -> None:
    document = bench({"round": 0}, {"tool": "t", "tool_version": "1.2", "argv": ["t", "-x"]}, label="stock")
    document["holes"] = [{"benchmark": "c", "why": "no compiler"}, {"benchmark": "b", "why": "run 2 failed"}]
    found = read(ktrial_bench, document)
    (run,) = found.runs
    assert (run.group, run.benchmark, len(run.measurements)) == ("stock", "b", 1)
    assert (
        dict(run.attributes) | {"command": "t -x", "tool": "t", "tool_version": "1.2", "session": "s1"}
        == run.attributes
    )
    assert found.missing == {"stock": {"c": "no compiler"}}
    assert list(found.notes)[1:] == [
        "records of another version; ktrial read only their numbers: 1",
        "warm-ups ignored: 1",
        "c is missing: no compiler",
    ]
    assert read(ktrial_bench, bench({})).missing == {}


def test_a_run_of_lkp_is_called_after_its_test_and_its_commit() -> None:
    whole, bare = "/result/will-it-scale/p/m/r/c/k/abc/0/stats.json", "x/0/stats.json"
    found = read(lkp, matrix(whole, bare, "abc/0/y/stats.json", ops=[1, 2, 3]))
    assert [(run.group, run.benchmark) for run in found.runs] == [("abc", "will-it-scale"), ("f", "lkp"), ("0", "abc")]
    assert lkp.sniff(b'{"stats_source": []', "other.json")
    assert not lkp.sniff(b'{"a.b": [1', "other.json")


def test_a_value_that_perl_left_out_is_no_run() -> None:
    assert len(read(mmtests, extract([1.5, 2.5])).runs) == 2


REPORT = """\
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 1
query mode: simple
number of clients: 2
number of threads: 1
number of transactions per client: 10
number of transactions actually processed: 16/20
number of transactions skipped: 4 (20.000%)
number of transactions above the 5.0 ms latency limit: 2/16 (12.500%)
latency average = 2.0 ms
tps = 100.0 (without initial connection time)
"""


def test_a_transaction_that_was_skipped_was_late() -> None:
    (run,) = read(pgbench, REPORT).runs
    found = {one.outcome: (one.value, one.original) for one in run.measurements}
    assert found["late-share"] == (6 / 20, "6 of 20")
    assert "latency-mean" not in found
    assert "transactions=16" in run.attributes["parameters"]
    assert run.benchmark == "pgbench-tpc-b-sort-of"
    (bare,) = read(pgbench, REPORT.replace("transaction type: <builtin: TPC-B (sort of)>", "transaction type: ")).runs
    assert bare.benchmark == "pgbench-unknown"


GOLDEN = Path(__file__).parents[2] / "golden" / "imports"


def a_log() -> bytes:
    (path,) = (GOLDEN / "mangohud" / "0.8.4-capped").glob("input*")
    return path.read_bytes()


def test_the_rate_that_was_asked_about_is_kept_with_a_log_of_frames() -> None:
    (run,) = mangohud.read(a_log(), "f.csv", ImportOptions(below_fps=30.5)).runs
    assert run.attributes["below_fps"] == "30.5"
    (plain,) = mangohud.read(a_log(), "f.csv", ImportOptions()).runs
    assert "below_fps" not in plain.attributes


def test_a_log_of_frames_that_was_cut_off_says_so() -> None:
    whole = a_log()
    found = mangohud.read(whole[: whole.rstrip(b"\n").rindex(b"\n") + 3], "f.csv", ImportOptions())
    assert "the last line is cut off and ignored" in found.notes


@pytest.mark.parametrize(
    "metadata, name, value",
    [
        ({"cpu_config": "0=driver:x, governor:performance"}, "governor", "performance"),
        ({"cpu_temp": "a:b=51 C, a:c=56.5 C"}, "temperature_c", "56.5"),
        ({"perf_version": "2.1"}, "tool_version", "pyperf 2.1"),
        ({"pyperf_version": "2.2"}, "tool_version", "pyperf 2.2"),
    ],
)
def test_what_the_metadata_of_pyperf_tell(metadata: dict[str, str], name: str, value: str) -> None:
    assert pyperf.facts_of_metadata(metadata) == {name: value}


@pytest.mark.parametrize("value, is_read", [(0, False), (1e-9, True), (1e30, True), (2e30, False), (True, False)])
def test_values_of_pyperf_are_numbers_above_zero(value: float, is_read: bool) -> None:
    document = {"version": "1.0", "benchmarks": [{"metadata": {"name": "a"}, "runs": [{"values": [value]}]}]}
    if is_read:
        assert read(pyperf, document).runs[0].measurements[0].value == value
        return
    with pytest.raises(BadRun, match="a number above 0"):
        read(pyperf, document)


def test_a_run_of_schbench_without_samples_is_refused() -> None:
    empty = "Wakeup Latencies percentiles (usec) runtime 1 (s) (0 total samples)\n"
    with pytest.raises(BadRun):
        read(schbench, empty)


def test_a_column_is_called_the_second_one_where_its_name_stood_twice() -> None:
    found = read(tidy_csv, "time,time,x#2\n1,2,3\n4,5,6\n", values=("time",))
    assert [note for note in found.notes if "twice" in note] == [
        "column 'time' occurs twice: the second one is 'time#2'"
    ]


@pytest.mark.parametrize("rows, line", [("a,5 ms\nb,6", 3), ("a,6\nb,5 ms", 2), ("a,5 ms\nb,6 s", 3)])
def test_all_values_of_a_column_are_in_one_unit(rows: str, line: int) -> None:
    with pytest.raises(BadRun, match=rf"f\.x:{line}: .* is not in ms, the unit of "):
        read(tidy_csv, f"g,t\n{rows}\n", values=("t",))
    (empty, full) = read(tidy_csv, "g,t\na,\nb,5 ms\n", values=("t",)).runs
    assert (empty.failure, full.measurements[0].value) == ("empty: t", 0.005)


@pytest.mark.parametrize(
    "header, outcome, unit",
    [
        ("faults_sec", "faults_sec", "1/s"),
        ("faults_s", "faults_s", "1/s"),
        ("read_mb_sec", "read_mb_sec", "B/s"),
        ("wait_sec", "wait", "s"),
    ],
)
def test_a_header_that_ends_in_seconds_is_a_rate_of_what_is_counted(header: str, outcome: str, unit: str) -> None:
    (run,) = read(tidy_csv, f"g,{header}\na,5\n", values=(header,)).runs
    assert [(one.outcome, one.unit) for one in run.measurements] == [(outcome, unit)]
