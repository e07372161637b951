# SPDX-License-Identifier: Apache-2.0
"""What no importer lets in: a time, a rate, a size or a count below 0, and half a character in JSON."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec
import pytest

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput
from ktrial.results.foreign import ForeignResults
from ktrial.results.import_file import ForeignFile, ImportRequest, read_results
from ktrial.results.importers import mmtests, pgbench
from tests.support.imports import FOLDER, IMPORTERS, expected


class Sign(NamedTuple):
    """A good case, a measured number in it as it stands there, and what the message must name beside it."""

    case: str
    number: str
    names: str


#: Of every format.
MEASURED = {
    "csv": Sign(
        "made-units-in-cells", "11.25 ms", "input.csv:3: '-11.25' is not a time of 0 or more (a value of column 'p99')"
    ),
    "fio": Sign("3.33-rand-read", "91094057", "-91094057 is not a finite number of 0 or more (bw_bytes)"),
    "frame-samples": Sign("made-telemetry", "26.21", "'-26.21' is not a finite number of 0 or more (frame_time_ms)"),
    "go-bench": Sign(
        "1.26-five-units", "26.20 ns/op", "input.txt:6: '-26.20' is not a time of 0 or more (a value in ns/op)"
    ),
    "google-benchmark": Sign(
        "1.7.1-repetitions",
        "17.666019827512923",
        "-17.666019827512923 is not a finite number of 0 or more (benchmarks[0].real_time)",
    ),
    "hyperfine": Sign(
        "1.15-failing", "0.010740298", "-0.010740298 is not a finite number of 0 or more (results[0].times[0])"
    ),
    "ktrial-bench": Sign(
        "two-runs", '0.000678,\n     "unit"', "'-0.000678' is not a time of 0 or more (runs[1]: a value of user)"
    ),
    "ktrial-csv": Sign(
        "made-two-sessions", "900.0", "input.csv:4: '-900.0' is not a rate of 0 or more (a value of rate)"
    ),
    "lkp": Sign(
        "made-two-commits",
        "260",
        "'-260' is not a time of 0 or more (hackbench.latency_99_us of /lkp/result/hackbench/",
    ),
    "mangohud": Sign("0.8.4-capped", "16.7087", "csv:5: '-16.7087' is not a finite number of 0 or more (a frame time)"),
    "margine": Sign("made-partial", "12000", "'-12000' is not a time of 0 or more (schbench_p99_us)"),
    "mmtests": Sign(
        "made-one-extract",
        "1250",
        "'-1250' is not a time of 0 or more (document._ResultData.Lat-99.00th-qrtle[0].Values[1]",
    ),
    "pgbench": Sign("15-loop", "4.827 ms", "'-4.827' is not a finite number of 0 or more (latency average)"),
    "phoronix": Sign(
        "made-two-systems",
        "120.0",
        "input.xml:44: '-120.0' is not a time of 0 or more (run 1 of Timed Linux Kernel Compilation",
    ),
    "pyperf": Sign(
        "2.10-timeit",
        "3.4190999940619806e-06",
        "-3.4190999940619806e-06 is not a number above 0 and up to 1e30 (benchmarks[0].runs[0]",
    ),
    "schbench": Sign("2021-12-text", "123264", "'-123264' is not"),
}


def changed(format_name: str, case: str, before: str, after: str) -> ForeignResults:
    """The case with one text in place of another, read."""
    folder = FOLDER / format_name / case
    path = next(folder.glob("input*"))
    text = path.read_text(encoding="utf-8")
    assert before in text
    name = expected(folder).name or path.name
    wanted = ImportRequest(options=expected(folder).options, as_format=format_name)
    return read_results(ForeignFile(name, text.replace(before, after, 1).encode()), wanted, IMPORTERS)


def test_every_format_is_here() -> None:
    assert set(MEASURED) == set(IMPORTERS)


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_a_number_below_0_is_refused_where_it_stands(name: str) -> None:
    sign = MEASURED[name]
    with pytest.raises(BadInput) as caught:
        changed(name, sign.case, sign.number, f"-{sign.number}")
    assert sign.names in caught.value.message
    assert caught.value.hint


def test_a_score_may_be_below_0() -> None:
    found = read_results(
        ForeignFile("f.csv", b"gain,change (%)\n-3,-0.5\n"),
        ImportRequest(options=ImportOptions(values=("gain", "change (%)"))),
        IMPORTERS,
    )
    assert [one.value for one in found.runs[0].measurements] == [-3, -0.005]


@pytest.mark.parametrize("unit", ["s", "ms", "ops/s", "MB/s", "KiB", "count"])
def test_what_is_counted_or_timed_may_be_0_and_not_less(unit: str) -> None:
    def read(cell: str) -> ForeignResults:
        wanted = ImportRequest(options=ImportOptions(values=("x",), unit=unit))
        return read_results(ForeignFile("f.csv", f"x,note\n{cell},a\n".encode()), wanted, IMPORTERS)

    assert read("0").runs[0].measurements[0].value == 0
    with pytest.raises(BadInput, match=r"f\.csv:2: '-1e-30' is not a .* of 0 or more \(a value of column 'x'\)"):
        read("-1e-30")


def test_pgbench_without_a_report_is_refused() -> None:
    with pytest.raises(BadInput, match=r"f\.txt: no report of pgbench in this file"):
        pgbench.read(b"nothing of it\n", "f.txt", ImportOptions())


@pytest.mark.parametrize("kind, notes", [(3, 1), (999, 2)])
def test_a_type_of_data_without_a_known_unit_is_named(kind: int, notes: int) -> None:
    extract = {
        "_ModuleName": "ExtractX",
        "_DataType": kind,
        "_ResultData": {"operation": [{"Values": [1, 2], "SampleNrs": [1, 2]}]},
    }
    told = mmtests.read(json.dumps(extract).encode(), "f.json", ImportOptions()).notes
    assert len(told) == notes
    assert ("values without a known unit are stored unchanged, as scores" in told) == (notes == 2)


def test_half_a_character_in_a_result_file_is_named_with_its_line() -> None:
    case = FOLDER / "ktrial-bench" / "two-runs"
    text = next(case.glob("input*")).read_text(encoding="utf-8")
    fields = sorted({line.split('": "')[0].strip(' "') for line in text.splitlines() if '": "' in line})
    assert "unit" in fields
    wanted = ImportRequest(options=ImportOptions(), as_format="ktrial-bench")
    for field in fields:
        begin = text.index(f'"{field}": "') + len(field) + 5
        broken = text[:begin] + "\\ud800" + text[begin:]
        with pytest.raises(BadInput, match=r"input\.json:\d+: 'ud800' is not a complete character") as caught:
            read_results(ForeignFile("input.json", broken.encode()), wanted, IMPORTERS)
        assert f"input.json:{text.count(chr(10), 0, begin) + 1}:" in caught.value.message


def test_a_whole_character_in_two_halves_is_one() -> None:
    found = changed("ktrial-bench", "two-runs", '"label": "stock"', '"label": "\\ud83d\\ude00"')
    assert {run.group for run in found.runs} == {"\N{GRINNING FACE}"}
    msgspec.json.encode(found)
