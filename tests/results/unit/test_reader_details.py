# SPDX-License-Identifier: Apache-2.0
"""What readers of other tools' results take as it stands, take for granted, and refuse by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput, BadRun
from ktrial.results.import_file import ForeignFile, ImportRequest, read_results
from ktrial.results.importers import (
    go_bench,
    google_benchmark,
    hyperfine,
    ktrial_bench,
    margine,
    mmtests,
    pgbench,
    phoronix,
    pyperf,
    schbench,
)
from tests.support.imports import IMPORTERS

IMPORTS = Path(__file__).parents[2] / "golden" / "imports"


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def pyperf_of(**metadata: Any) -> bytes:
    run = {"metadata": {}, "values": [1.5, 2.5]}
    benchmark = {"metadata": {"name": "a", **metadata}, "runs": [run]}
    return encoded({"version": "1.0", "metadata": {"hostname": "h"}, "benchmarks": [benchmark]})


def xml(inner: str) -> bytes:
    return f"<PhoronixTestSuite>{inner}</PhoronixTestSuite>".encode()


ENTRY = "<Data><Entry><Identifier>s</Identifier><Value>1</Value><RawString>1:2</RawString></Entry></Data>"


@pytest.mark.parametrize(
    "read, data, message",
    [
        (margine.read_margine, {"schema": "other"}, "run.json: "),
        (pyperf.read_pyperf, {"version": "2"}, "pyperf.json: "),
        (mmtests.read_mmtests, {}, "mmtests.json: "),
        (mmtests.read_mmtests, {}, "it has neither _ExtractModules nor _ResultData"),
        (mmtests.read_mmtests, {"_ExtractModules": []}, "its list _ExtractModules is empty"),
        (pyperf.read_pyperf, {"version": "1.0", "benchmarks": []}, "its list 'benchmarks' is empty"),
        (go_bench.read_go_bench, {}, "bench.txt: "),
    ],
)
def test_what_holds_no_result_is_refused_by_name(read: Callable[[bytes], Any], data: Any, message: str) -> None:
    with pytest.raises(BadRun) as caught:
        read(encoded(data))
    assert message in str(caught.value)


@pytest.mark.parametrize("inner", [f"<Result>{ENTRY}</Result>", "<Result><Title>t</Title></Result>"])
def test_a_result_of_phoronix_has_a_title_and_an_entry(inner: str) -> None:
    with pytest.raises(BadRun, match="complete: its <Title> or its <Data> with an <Entry> is missing"):
        phoronix.read_phoronix(xml(inner))


def test_what_phoronix_shows_otherwise_than_as_bars_has_no_numbers() -> None:
    shown = "<Result><Title>t</Title><DisplayFormat>{}</DisplayFormat>" + ENTRY.replace("1:2", "a:b") + "</Result>"
    kept = f"<Result><Title>u</Title>{ENTRY}</Result>"
    found = phoronix.read_phoronix(xml(shown.format("LINE_GRAPH") + kept))
    assert [one.title for one in found.results] == ["u"]
    assert found.left_out == ("t: left out, because LINE_GRAPH does not show one number for each run",)
    with pytest.raises(BadRun, match="a run of s"):
        phoronix.read_phoronix(xml(shown.format("BAR_GRAPH")))


def test_a_text_of_phoronix_may_come_in_pieces() -> None:
    title = "a&amp;" * 3000
    (found,) = phoronix.read_phoronix(xml(f"<Result><Title>{title}</Title>{ENTRY}</Result>")).results
    assert found.title == "a&" * 3000


@pytest.mark.parametrize("label, group", [("stock", "stock"), ("", "f"), (5, "f"), (None, "f")])
def test_a_label_of_margine_is_a_text(label: object, group: str) -> None:
    document = {"schema": margine.SCHEMA, "label": label, "schbench_p99_us": 9000}
    (run,) = margine.read(encoded(document), "f.json", ImportOptions()).runs
    assert run.group == group


@pytest.mark.parametrize("unit, base", [(None, "s"), ("second", "s"), ("byte", "B"), ("integer", "score")])
def test_values_of_pyperf_are_seconds_unless_it_says_otherwise(unit: str | None, base: str) -> None:
    data = pyperf_of(**({} if unit is None else {"unit": unit}))
    run, _ = pyperf.read(data, "f.json", ImportOptions()).runs
    assert [one.unit for one in run.measurements] == [base]
    assert run.attributes["hostname"] == "h"
    with pytest.raises(BadRun, match='"hour"'):
        pyperf.read_pyperf(pyperf_of(unit="hour"))


def google(*runs: dict[str, Any]) -> bytes:
    plain = {"name": "b", "real_time": 2, "cpu_time": 1, "time_unit": "ns"}
    return encoded({"context": {"library_build_type": "release"}, "benchmarks": [{**plain, **run} for run in runs]})


def test_a_run_of_google_benchmark_is_called_as_it_ran() -> None:
    data = google({"name": "b/repeats:2", "run_name": "b", "label": "fast", "run_type": "iteration"}, {})
    found = google_benchmark.read(data, "g.json", ImportOptions()).runs
    assert [run.benchmark for run in found] == ["b", "b"]
    assert [run.attributes.get("label") for run in found] == ["fast", None]


def test_runs_of_google_benchmark_that_failed_are_failed_runs() -> None:
    failed = {"error_occurred": True, "error_message": "no"}
    (run,) = google_benchmark.read(google(failed), "g.json", ImportOptions()).runs
    assert run.failure == "no"
    with pytest.raises(BadRun, match="no single run that succeeded"):
        google_benchmark.read(google(failed, {"run_type": "aggregate"}), "g.json", ImportOptions())


@pytest.mark.parametrize(
    "head, known",
    [
        (b'{"int": {}, "wakeup_latency": {}}', True),
        (b'{"schbench": {}, "request_latency_pct50.0": 1}', True),
        (b'{"int": {}}', False),
        (b'{"other": {}, "wakeup_latency": {}}', False),
        (b"Latency percentiles (usec)", True),
        (b"Wakeup Latencies percentiles (usec)", True),
        (b"Latency (usec)", False),
    ],
)
def test_what_schbench_prints_is_known(head: bytes, known: bool) -> None:
    assert schbench.sniff(head, "f") is known


def test_a_report_of_pgbench_has_both_its_lines() -> None:
    first, last = b"transaction type: x\n", b"number of transactions actually processed: 5\n"
    assert pgbench.sniff(first + last, "f")
    assert not pgbench.sniff(first, "f")
    assert not pgbench.sniff(last, "f")


def test_a_file_that_holds_no_run_is_refused_whatever_reads_it() -> None:
    wanted = ImportRequest(options=ImportOptions(), as_format="pyperf")
    with pytest.raises(BadInput, match="its list 'benchmarks' is empty"):
        read_results(ForeignFile("p.json", encoded({"version": "1.0", "benchmarks": []})), wanted, IMPORTERS)


def of_hyperfine(*codes: object) -> bytes:
    return encoded({"results": [{"command": "a", "times": [1.5] * len(codes), "exit_codes": list(codes)}]})


def test_an_exit_status_is_a_whole_number_or_not_told() -> None:
    runs = hyperfine.read_hyperfine(of_hyperfine(0, None, 3))
    assert [run.failure for run in runs] == [None, "was killed", "ended with status 3"]
    for wrong in (True, "1", 1.5):
        with pytest.raises(BadRun, match=r"a whole number or null \(.*exit_codes\[1\]\)"):
            hyperfine.read_hyperfine(of_hyperfine(0, wrong))


@pytest.mark.parametrize("holes", [[1], "none", [{"benchmark": "a"}]])
def test_holes_of_a_result_of_ours_are_benchmarks_and_reasons(holes: object) -> None:
    document = json.loads((IMPORTS / "ktrial-bench" / "two-runs" / "input.json").read_bytes())
    with pytest.raises(BadRun, match="holes"):
        ktrial_bench.read_ktrial_bench(encoded({**document, "holes": holes}))


def test_metrics_that_are_all_there_are_no_note() -> None:
    document = json.loads((IMPORTS / "margine" / "made-partial" / "input.json").read_bytes())
    for expected, is_noted in ((7, True), (6, False)):
        found = margine.read(encoded({**document, "metrics_expected": expected}), "m.json", ImportOptions())
        assert any("metrics were measured" in note for note in found.notes) == is_noted


def test_a_direction_of_our_table_is_one_of_three() -> None:
    table = (IMPORTS / "ktrial-csv" / "made-two-sessions" / "input.csv").read_bytes()
    with pytest.raises(BadRun, match=r"a direction \(lower, higher or empty\)"):
        IMPORTERS["ktrial-csv"].read(table.replace(b",lower,", b",sideways,"), "t.csv", ImportOptions())


@pytest.mark.parametrize("column, said", [("speed (furlong)", "unit 'furlong' is unknown"), ("speed", "no unit")])
def test_a_column_in_no_unit_that_is_known_is_a_score(column: str, said: str) -> None:
    found = IMPORTERS["csv"].read(f"{column}\n1\n2\n".encode(), "t.csv", ImportOptions(values=(column,)))
    assert any(f"{column}: {said}" in note and note.endswith("as a score") for note in found.notes), found.notes


def test_label_and_by_do_not_go_together() -> None:
    for name, data in (("t.csv", b"time_s,a\n1,x\n"), ("h.json", of_hyperfine(0))):
        request = ImportRequest(options=ImportOptions(by="a", label="b"))
        with pytest.raises(BadInput, match="--by and the name 'b' both name the groups"):
            read_results(ForeignFile(name, data), request, IMPORTERS)
