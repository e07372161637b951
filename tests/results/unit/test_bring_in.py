# SPDX-License-Identifier: Apache-2.0
"""Files become stored sessions, once, and what cannot be read is named."""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput, KtrialError, Refused
from ktrial.results import import_file as service
from ktrial.results.foreign import ForeignResults, ForeignRun, Importer
from ktrial.results.import_file import ForeignFile, ImportRequest, bring_in, read_results, unpacked
from ktrial.results.model import StoredMeasurement, StoredRun, StoredSession
from tests.support.imports import FOLDER, IMPORTERS
from tests.support.stores import a_session

GOOD = (FOLDER / "hyperfine" / "1.15-two-commands" / "input.json").read_bytes()
PLAIN = ImportRequest(options=ImportOptions())


class Memory:
    """A store that keeps everything in lists; the save of number `broken` fails."""

    def __init__(self, broken: int = -1) -> None:
        self.kept: list[tuple[StoredSession, list[tuple[StoredRun, Mapping[str, bytes]]]]] = []
        self.broken = broken

    def sessions(self) -> tuple[StoredSession, ...]:
        return tuple(session for session, _ in self.kept)

    def save_all(self, session: StoredSession, found: Iterable[tuple[StoredRun, Mapping[str, bytes]]]) -> None:
        if len(self.kept) == self.broken:
            self.broken = -1
            raise KtrialError("the disk is full")
        self.kept.append((session, list(found)))


def brought(data: bytes, wanted: ImportRequest, store: Memory, name: str = "a/hf.json") -> Any:
    ticks = itertools.count(1_782_900_000_000 + 1000 * len(store.kept))
    return bring_in(ForeignFile(name, data), wanted, IMPORTERS, store, lambda: next(ticks))


def test_a_session_for_each_group() -> None:
    store = Memory()
    found = brought(GOOD, PLAIN, store)
    assert [one.label for one in found.sessions] == ["sleep 0.01", "sleep 0.02"]
    assert [(one.runs, one.failed, one.measurements) for one in found.sessions] == [(5, 0, 5)] * 2
    session, runs = store.kept[1]
    assert (session.origin, session.suite, session.label) == ("import:hyperfine", "hyperfine", "sleep 0.02")
    assert session.session.startswith("20260701T")
    assert session.document["schema"] == "ktrial.foreign-session/1"
    assert (session.document["file"], session.document["group"]) == ("hf.json", "sleep 0.02")
    run, raw = runs[0]
    assert (run.session, run.number, run.benchmark, run.state) == (session.session, 6, "hyperfine", "ok")
    assert raw == {"file": GOOD}
    assert runs[1][1] == {}
    assert run.document == {
        "schema": "ktrial.foreign-run/1",
        "measurements": [msgspec.to_builtins(run.measurements[0])],
        "attributes": {"command": "sleep 0.02"},
        "block": None,
        "part_of": None,
        "failure": None,
    }
    assert run.measurements[0].value == pytest.approx(0.020440665)


def test_a_failed_run_is_kept_as_failed() -> None:
    store = Memory()
    brought((FOLDER / "hyperfine" / "1.15-failing" / "input.json").read_bytes(), PLAIN, store)
    states = {run.state for session, runs in store.kept for run, _ in runs if session.label == "false"}
    assert states == {"failed"}


def test_the_kernel_that_a_file_tells_is_the_sessions() -> None:
    store = Memory()
    brought((FOLDER / "margine" / "made-partial" / "input.json").read_bytes(), PLAIN, store)
    assert store.kept[0][0].kernel_release == "6.18.0-example"


@pytest.mark.parametrize("label", [None, "other"])
def test_a_file_is_kept_once(label: str | None) -> None:
    store = Memory()
    names = [one.session for one in brought(GOOD, PLAIN, store).sessions]
    again = ImportRequest(options=ImportOptions(label=label))
    with pytest.raises(Refused) as caught:
        brought(GOOD, again, store, "renamed.json")
    assert any(name in caught.value.message for name in names)
    assert "--again" in (caught.value.hint or "")
    assert len(store.kept) == 2
    brought(GOOD, msgspec.structs.replace(again, again=True), store)
    assert len(store.kept) == (4 if label is None else 3)


def test_an_import_that_was_ended_in_the_middle_goes_on() -> None:
    store = Memory(broken=1)
    with pytest.raises(KtrialError, match="full"):
        brought(GOOD, PLAIN, store)
    found = brought(GOOD, PLAIN, store)
    assert [session.label for session, _ in store.kept] == ["sleep 0.01", "sleep 0.02"]
    assert [one.label for one in found.sessions] == ["sleep 0.02"]
    assert "sleep 0.01" in found.notes[-1]


def test_a_result_of_this_store_is_not_kept_beside_its_session() -> None:
    data = (FOLDER / "ktrial-bench" / "two-runs" / "input.json").read_bytes()
    store = Memory()
    name = read_results(ForeignFile("r.json", data), PLAIN, IMPORTERS).runs[0].attributes["session"]
    store.kept.append((a_session(name), []))
    with pytest.raises(Refused, match=f"r.json contains runs of {name}, which this store has already"):
        brought(data, PLAIN, store, "r.json")
    assert brought(data, msgspec.structs.replace(PLAIN, again=True), store, "r.json").sessions


def test_a_dry_run_keeps_nothing() -> None:
    store = Memory()
    found = brought(GOOD, msgspec.structs.replace(PLAIN, dry_run=True), store)
    assert len(found.sessions) == 2
    assert not store.kept


def test_options_of_frames_are_refused_for_other_files() -> None:
    wanted = ImportRequest(options=ImportOptions(below_fps=30))
    with pytest.raises(BadInput, match=r"cannot use --below-fps with the format hyperfine, only with frame logs"):
        read_results(ForeignFile("hf.json", GOOD), wanted, IMPORTERS)


def test_an_outcome_that_stands_twice_is_named() -> None:
    table = b"session,label,run,round,benchmark,outcome,value,unit,direction,original,state\n"
    rows = b"".join(b"s,l,1,1,b,%s,1,s,lower,,ok\n" % name for name in (b"one", b"two", b"two"))
    with pytest.raises(BadInput, match="measures 'two' twice"):
        read_results(ForeignFile("t.csv", table + rows), PLAIN, IMPORTERS)


def test_gzip_may_be_several_and_is_whole() -> None:
    one, other = gzip.compress(b"a" * 5000), gzip.compress(b"b" * 7)
    assert unpacked(one + other + b"\0" * 2000, "f.json.gz", 5007) == (b"a" * 5000 + b"b" * 7, "f.json")
    assert unpacked(b"{}", "f.json.gz", 1) == (b"{}", "f.json.gz")
    with pytest.raises(BadInput, match=r"unpacks to more than 4\.89 KiB"):
        unpacked(one + other, "f.json.gz", 5006)
    for broken in (one[:-9], one[:20] + b"\xff" * 40, one + other[:12]):
        with pytest.raises(BadInput, match="cannot unpack gzip data"):
            unpacked(broken, "f.json.gz", 10_000)


def test_gzip_is_unpacked_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(GOOD)
    assert len(read_results(ForeignFile("hf.json.gz", packed), PLAIN, IMPORTERS).runs) == 10
    with pytest.raises(BadInput, match="the end is missing"):
        read_results(ForeignFile("hf.json.gz", packed[:-9]), PLAIN, IMPORTERS)
    monkeypatch.setattr(service, "LIMIT_BYTES", 100)
    with pytest.raises(BadInput, match="unpacks to more than 100 B"):
        read_results(ForeignFile("hf.json.gz", packed), PLAIN, IMPORTERS)


@pytest.mark.parametrize(
    "data, message, hint",
    [
        (b"", "x.dat: the file is empty", "check that the benchmark"),
        (b"\x7fELF\0\0\1", "x.dat: unknown binary format; ktrial imports csv, fio,", "--format FORMAT"),
        (b"hello\nworld\n", "x.dat: unknown format; ktrial imports csv,", "--format FORMAT"),
        (b"\xff\xfea\0b\0", "x.dat: unknown binary format", "--format"),
    ],
)
def test_what_is_no_format_lists_them(data: bytes, message: str, hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_results(ForeignFile("x.dat", data), PLAIN, IMPORTERS)
    assert caught.value.message.startswith(message)
    assert hint in (caught.value.hint or "")


def test_a_column_that_stands_alone_is_a_table_where_it_is_named() -> None:
    """Without a delimiter it looks like no table, and without an ending `.csv` two lines are enough to tell one."""
    named = ImportRequest(options=ImportOptions(values=("time_s",)))
    alone = read_results(ForeignFile("x.dat", b"time_s\n1.5\n2.5\n"), named, IMPORTERS)
    assert (alone.format, [run.measurements[0].value for run in alone.runs]) == ("csv", [1.5, 2.5])
    with pytest.raises(BadInput, match="unknown binary format"):
        read_results(ForeignFile("x.dat", b"time_s\n1.5\0\n"), named, IMPORTERS)
    assert IMPORTERS["csv"].sniff(b"time_s,load\n1.5,2\n", "x.dat")
    assert not IMPORTERS["csv"].sniff(b"time_s,load\n", "x.dat")


def test_a_report_with_commas_in_it_is_no_table() -> None:
    report = b"""progress: 6.0 s, 2713.0 tps, lat 2.768 ms stddev 1.959, 0 failed
progress: 12.0 s, 2953.5 tps, lat 2.702 ms stddev 1.773, 0 failed
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 1
query mode: simple
number of clients: 8
number of threads: 1
duration: 12 s
number of transactions actually processed: 169829
latency average = 2.803 ms
tps = 2846.875071 (without initial connection time)
"""
    assert IMPORTERS["csv"].sniff(report, "pg.txt")
    assert read_results(ForeignFile("pg.txt", report), PLAIN, IMPORTERS).format == "pgbench"


def test_a_text_that_is_set_in_is_no_table() -> None:
    """`time -v` writes such."""
    assert not IMPORTERS["csv"].sniff(b"\tUser time (seconds): 0.87\n\tExit status: 0\n", "make.time")


def test_a_table_without_a_header_is_refused() -> None:
    """Its first row would be lost as one."""
    named = ImportRequest(options=ImportOptions(values=("232.10",)))
    with pytest.raises(BadInput, match=r"t\.csv:1: 10,232\.10,a is not a header: the next row has numbers") as caught:
        read_results(ForeignFile("t.csv", b"10,232.10,a\n20,232.20,b\n"), named, IMPORTERS)
    assert caught.value.hint == "add a first line that names the columns"
    wide = ImportRequest(options=ImportOptions(values=("2",)))
    assert len(read_results(ForeignFile("t.csv", b"size,1,2\n4096,10,20\n"), wide, IMPORTERS).runs) == 1


def test_two_formats_that_claim_a_file_are_both_named() -> None:
    two = {**IMPORTERS, "zz": msgspec.structs.replace(IMPORTERS["hyperfine"], name="zz")}
    with pytest.raises(BadInput, match=r"hf\.json: ambiguous format: hyperfine or zz") as caught:
        read_results(ForeignFile("hf.json", GOOD), PLAIN, two)
    assert caught.value.hint == "name the format: --format hyperfine"


def test_options_of_tables_are_for_tables() -> None:
    wanted = ImportRequest(options=ImportOptions(values=("time",), unit="s"))
    with pytest.raises(BadInput, match=r"cannot use --value, --unit with the format [a-z-]+, only with tables \(csv\)"):
        read_results(ForeignFile("hf.json", GOOD), wanted, IMPORTERS)


#: As benchstat takes them: lines of configuration hold for the results below them.
SECTIONS = b"""\
host: x
note: before
BenchmarkA 1 100 ns/op
Benchmarka_small 1 7 ns/op
note: after
host: y
BenchmarkA 1 90 ns/op
"""


def in_sections(**options: Any) -> ForeignResults:
    return read_results(ForeignFile("b.txt", SECTIONS), ImportRequest(options=ImportOptions(**options)), IMPORTERS)


def test_what_runs_tell_groups_and_blocks_and_chooses_them() -> None:
    runs = in_sections(by="note", block="host").runs
    assert [(run.benchmark, run.group, run.block) for run in runs] == [
        ("A", "before", "x"),
        ("a_small", "before", "x"),
        ("A", "after", "y"),
    ]
    assert [sorted(run.attributes) for run in runs] == [["host", "iterations"]] * 3
    assert [run.group for run in in_sections(by="note, host").runs][::2] == ["before / x", "after / y"]
    assert [run.benchmark for run in in_sections(where=("host=x", "host=z")).runs] == ["A", "a_small"]


@pytest.mark.parametrize(
    "options, message, hint",
    [
        (
            {"by": "nope"},
            "--by 'nope': no run has this attribute",
            "use an attribute that differs between the runs: host, note",
        ),
        (
            {"block": "nope"},
            "--block 'nope': no run has this attribute",
            "use an attribute that differs between the runs: host, note",
        ),
        ({"where": ("host",)}, "--where 'host': missing value", "write NAME=VALUE"),
        ({"where": ("host=z",)}, "--where host=z: no run matches", "use one of the values of host: x, y"),
        ({"by": "note", "label": "a"}, "--by and the name 'a' both name the groups", "leave out --by or the name 'a'"),
    ],
)
def test_what_runs_do_not_tell_is_refused(options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        in_sections(**options)
    assert caught.value.hint == hint


def test_what_some_runs_tell_is_no_group() -> None:
    late = ForeignFile("b.txt", SECTIONS.replace(b"note: before\n", b""))
    with pytest.raises(BadInput, match="--by 'note': 2 of 3 runs lack this attribute"):
        read_results(late, ImportRequest(options=ImportOptions(by="note")), IMPORTERS)


def test_talk_about_benchmarks_is_no_result() -> None:
    talk = ForeignFile("b.txt", SECTIONS + b"Benchmarking 3 files\nBenchmarking 3 2 1\n")
    assert len(read_results(talk, PLAIN, IMPORTERS).runs) == 3


def test_a_rate_of_frames_is_for_logs_of_frames() -> None:
    wanted = ImportRequest(options=ImportOptions(below_fps=60.0))
    with pytest.raises(BadInput, match=r"cannot use --below-fps with the format hyperfine, only with frame logs"):
        read_results(ForeignFile("hf.json", GOOD), wanted, IMPORTERS)


def test_options_that_were_not_given_leave_no_trace() -> None:
    kept = msgspec.to_builtins(ImportOptions.given({"label": "a", "below_fps": None}))
    assert (kept["label"], "below_fps" in kept) == ("a", False), "what was kept before knows it again"


def test_a_label_names_one_group() -> None:
    data = (FOLDER / "phoronix" / "made-two-systems" / "input.xml").read_bytes()
    with pytest.raises(BadInput, match="the 2 groups of the file cannot share one name: performance, powersave"):
        read_results(ForeignFile("composite.xml", data), ImportRequest(options=ImportOptions(label="x")), IMPORTERS)


def made(*values: float, text: str = "t") -> Importer:
    """An importer of one run with these values of one outcome."""
    found = tuple(
        StoredMeasurement(outcome="a", value=value, unit="s", direction=None, original="o") for value in values
    )
    run = ForeignRun(group=text, benchmark="b", number=1, measurements=found)
    return Importer(
        name="made",
        what="",
        sniff=lambda head, name: True,
        read=lambda data, name, options: ForeignResults(format="made", runs=(run,)),
    )


@pytest.mark.parametrize(
    "importer, message",
    [
        (made(1.0, 2.0), "measures 'a' twice"),
        (made(float("inf")), "a is o, which is not a finite number"),
        (made(1.0, text="\ud800"), "unpaired surrogate"),
        (made(1.0, text="a\0b"), "NUL"),
        (made(1.0, text="\\\0"), "NUL"),
    ],
)
def test_what_no_store_can_hold_is_refused(importer: Importer, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_results(ForeignFile("f", b"x"), PLAIN, {"made": importer})


@pytest.mark.parametrize("text", [r"\u0000", r"a\\u0000", r"\\\u0000"])
def test_the_characters_of_an_escaped_nul_are_plain_text(text: str) -> None:
    read = read_results(ForeignFile("f", b"x"), PLAIN, {"made": made(1.0, text=text)})
    assert read.runs[0].group == text


def test_the_importers_are_those_of_the_folder() -> None:
    folder = Path(__file__).parents[3] / "src" / "ktrial" / "results" / "importers"
    files = {path.stem for path in folder.glob("[a-z]*.py")} - {"registry"}
    assert len(IMPORTERS) == len(files)
    assert all(importer.what.endswith(".") for importer in IMPORTERS.values())


@pytest.mark.parametrize(
    "data, words",
    [
        (b'{"a": [1, 2', "breaks off after line 1, column 11"),
        (b'{\n "a": "no end', "breaks off after line 2, column 13"),
        (b'{"a": tru', "breaks off after line 1, column 9"),
        (b'{"a": 1.', "breaks off after line 1, column 8"),
        (b'{"a": 1,\n', "breaks off after line 1, column 8"),
        (b"[", "breaks off after line 1, column 1"),
        (b'{"a": 1,\n "b" 2}', "broken at line 2, column 6"),
        (b'{"a": 1}\n{"b": 2}', "unknown format"),
        (b'{"a": 1}', "unknown format"),
        (b"{not json at all", "broken at line 1, column 2"),
    ],
)
def test_json_that_breaks_off_is_told_as_such(data: bytes, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_results(ForeignFile("cut.json", data), PLAIN, IMPORTERS)
    assert words in caught.value.message
    assert "cut.json" in str(caught.value.message)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_a_file_of_a_tool_that_was_cut(share: float) -> None:
    """Whether or not enough is left to tell the format."""
    cut = GOOD[: int(len(GOOD) * share)]
    with pytest.raises(BadInput, match=r"breaks off after line|complete JSON"):
        read_results(ForeignFile("cut.json", cut), PLAIN, IMPORTERS)


@pytest.mark.parametrize("second, told", [("6.1.0", "6.1.0"), ("6.2.0", None)])
def test_a_session_names_a_kernel_only_where_all_its_runs_do(second: str, told: str | None) -> None:
    store = Memory()
    table = f"time_s,kernel\n1,6.1.0\n2,{second}\n".encode()
    brought(table, ImportRequest(options=ImportOptions(values=("time_s",))), store, "a/times.csv")
    assert store.kept[0][0].kernel_release == told


def test_what_a_session_is_called_and_told_of_is_its_files() -> None:
    store = Memory()
    table = b"time_s,kernel_release,boot_id\n1,6.1.0,b1\n2,6.1.0,b1\n"
    brought(table, ImportRequest(options=ImportOptions(values=("time_s",))), store, "a/b/times.csv")
    session = store.kept[0][0]
    assert (session.kernel_release, session.boot_id) == ("6.1.0", "b1")
    assert session.document["file"] == "times.csv"
