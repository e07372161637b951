# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import ParsedRun, RawOutput, check_exit
from ktrial.bench.record import KeptMeasurement
from ktrial.evidence.reparse import Reparsed, read_again, reparse_run
from ktrial.kit.errors import BadRun
from ktrial.results.model import StoredRun
from ktrial.watch.frames import read_frames
from tests.support import cases
from tests.support.bench import FakeBenchmark
from tests.support.stores import a_record, a_run

FAKE = {"tool": FakeBenchmark(name="tool")}
TIME = {"outcome": "time", "value": 1.5, "unit": "s", "direction": "lower", "original": "1.5 s"}

BENCHMARKS = all_benchmarks()


def again(run: StoredRun, stdout: bytes = b"time 1.5") -> Reparsed:
    return reparse_run(run, {"stdout": stdout}, FAKE)


def test_what_is_the_same_is_no_change() -> None:
    found = again(a_record(1, "tool", measurements=[TIME]))
    assert (found.changes, found.unread) == ((), None)


def test_outcomes_that_come_from_around_the_run_do_not_count() -> None:
    around = [TIME | {"outcome": name} for name in ("load.throughput", "energy.package-0", "power.package-0")]
    assert again(a_record(1, "tool", measurements=[TIME, *around])).changes == ()
    assert again(a_record(1, "tool", measurements=around)).unread is None


class Told(FakeBenchmark):
    """Tells in a note what the network was like."""

    def parse(self, raw: RawOutput, parameters: Mapping[str, Any]) -> ParsedRun:
        return msgspec.structs.replace(super().parse(raw, parameters), notes=(f"network: {raw.network}",))


@pytest.mark.parametrize(
    "notes, changes",
    [
        (["network: 3"], ()),
        (["the network was 3"], ()),
        (["network: 3", "energy of package-0 is unknown: cannot read it"], ()),
        (["energy of package-0 is unknown: cannot read it"], ("new note: network: 3",)),
        ([], ("new note: network: 3",)),
        (["network: 3", "old"], ("missing note: old",)),
    ],
)
def test_a_note_more_or_less_is_a_change_and_its_wording_is_not(notes: list[str], changes: tuple[str, ...]) -> None:
    """The network is that of the run."""
    run = a_record(1, "tool", measurements=[TIME], notes=notes, network=3)
    assert reparse_run(run, {"stdout": b"time 1.5"}, {"tool": Told(name="tool")}).changes == changes


@pytest.mark.parametrize(
    "fields, stdout, change",
    [
        ({"measurements": [TIME]}, b"time 2.5", "time: time 1.5 s (lower, from '1.5 s'), now time 2.5 s"),
        (
            {"measurements": [TIME, TIME | {"outcome": "old"}]},
            b"time 1.5",
            "old: old 1.5 s (lower, from '1.5 s'), now not",
        ),
        ({"measurements": [TIME]}, b"time -1", "now it fails: time: expected 0 or more, got '-1 s'"),
        ({"measurements": [TIME]}, b"other", "now it fails: stdout:1: 'other' is not the word time"),
        ({"measurements": [TIME], "details": {"a": 1}}, b"time 1.5", "details.a: 1, now nothing"),
        (
            {"failure": "stdout:1: strange"},
            b"time 1.5",
            "the run had failed (stdout:1: strange); now it yields time 1.5 s",
        ),
    ],
)
def test_what_changed_is_said(fields: Any, stdout: bytes, change: str) -> None:
    (said,) = again(a_record(1, "tool", **fields), stdout).changes
    assert change in said


@pytest.mark.parametrize(
    "fields",
    [
        {"failure": "stdout:1: strange", "exit": {**a_record(1, "x").document["exit"], "status": 3}},  # type: ignore[index]
        {"failure": "input during the run: keyboard"},
        {"failure": "void: the machine slept for 90 s during the run", "void": ["the machine slept"]},
        {"failure": "the background load ended before the benchmark"},
        {"failure": "printed more than is captured, so its output may be incomplete"},
        {"failure": "cannot drop caches: no", "prepared": [{"reset": "caches", "ok": False, "result": "no"}]},
    ],
)
def test_a_run_that_failed_for_another_reason_stays_failed(fields: Any) -> None:
    found = again(a_record(1, "tool", **fields))
    assert (found.changes, found.unread) == ((), None)


@pytest.mark.parametrize(
    "run, why",
    [
        (a_record(1, "make", measurements=[TIME | {"outcome": "wall"}]), "unknown benchmark make"),
        (a_record(1, "tool", measurements=[TIME | {"outcome": "wall"}]), "tool has changed"),
        (a_run(1, document=None, measurements=(), state="interrupted"), "and has no record"),
        (a_run(1), "imported run"),
        (a_record(1, "frames-mangohud"), "the run has no frame capture"),
        (a_record(1, "tool", exit=None), "invalid run record"),
        (a_record(1, "tool", parameters=[1]), "invalid run record"),
    ],
)
def test_what_cannot_be_read_again_is_named(run: StoredRun, why: str) -> None:
    found = again(run)
    assert why in (found.unread or "")
    assert found.changes == ()


@pytest.mark.parametrize("case", cases.CASES, ids=cases.name)
def test_every_recorded_output_gives_the_same_again(case: Path) -> None:
    """A record made of a recorded output, as a measurement makes it, and its raw parts."""
    wanted, raw = cases.expected(case), cases.raw_output(case)
    benchmark = BENCHMARKS[wanted.benchmark]
    parameters = {**benchmark.parameters, **wanted.parameters}
    outcomes = {one.name: one for one in benchmark.outcomes}
    fields: dict[str, Any]
    try:
        check_exit(raw)
        parsed = benchmark.parse(raw, parameters)
        kept = [msgspec.to_builtins(KeptMeasurement.of(one, outcomes[one.outcome])) for one in parsed.measurements]
        details = msgspec.json.decode(msgspec.json.encode(parsed.details))
        fields = {"measurements": kept, "details": details, "notes": list(parsed.notes)}
    except BadRun as error:
        fields = {"failure": error.message}
    used = {
        "wall_ns": raw.wall_ns,
        "user_us": raw.user_us,
        "system_us": raw.system_us,
        "max_rss_bytes": raw.max_rss_bytes,
    }
    ended = {"status": raw.exit_status, "signal": None, "failed": None, "timed_out": False, "interrupted": False}
    run = a_record(1, benchmark.name, parameters=parameters, resources=used, exit=ended, **fields)
    parts = {"stdout": raw.stdout, "stderr": raw.stderr, **{f"files/{name}": data for name, data in raw.files.items()}}
    found = reparse_run(run, parts, BENCHMARKS)
    assert (found.changes, found.unread) == ((), None)


GOLDEN = Path(__file__).parents[2] / "golden" / "frames"


def frames_run(**captures: bytes) -> tuple[StoredRun, dict[str, bytes]]:
    """A game's run with these captures, as it was kept when the one of most frames was taken."""
    raw = {f"files/{name}.csv": data for name, data in captures.items()}
    run = a_record(1, "frames-mangohud", benchmark="game", parameters={"below_fps": None})
    return msgspec.structs.replace(run, raw=dict.fromkeys(raw, "ab" * 32)), raw


def capture(name: str) -> bytes:
    return (GOLDEN / name / "input").read_bytes()


def test_of_several_captures_the_one_with_most_frames_is_read_again() -> None:
    few, many = capture("0.8.4-capped"), capture("0.8.4-free")
    run, raw = frames_run(few=few, many=many, none=capture("0.8.4-summary"))
    assert reparse_run(run, raw, FAKE).unread is None
    parsed, kept, why = read_again(run, raw, FAKE)
    alone = read_frames(many, "many.csv")
    assert why is None
    assert alone.frames > read_frames(few, "few.csv").frames
    assert parsed.measurements == alone.measurements
    assert (parsed.details, parsed.notes) == (alone.details, alone.notes)
    assert {one.outcome: one.unit for one in kept}["frame-time-p99"] == "s"


def test_the_rate_that_slow_frames_were_below_of_holds_again() -> None:
    run, raw = frames_run(one=capture("0.8.4-capped"))
    run = msgspec.structs.replace(run, document={**(run.document or {}), "parameters": {"below_fps": 120.0}})
    parsed, _, _ = read_again(run, raw, FAKE)
    share = next(one for one in parsed.measurements if one.outcome == "slow-frame-share")
    assert share == read_frames(raw["files/one.csv"], "one.csv", 120.0).measurements[-1]
    assert share.value > 0.9


def test_captures_that_cannot_be_read_any_more_are_told_by_the_first() -> None:
    run, raw = frames_run(a=capture("made-two-logs"), b=capture("0.8.4-summary"))
    parsed, kept, why = read_again(run, raw, FAKE)
    assert (parsed.measurements, kept) == ((), ())
    assert why is not None
    assert why.startswith("a.csv:")
    assert "a second log begins here" in why


def test_a_run_of_frames_without_a_capture_has_nothing_to_be_read() -> None:
    run, _ = frames_run()
    assert reparse_run(run, {}, FAKE).unread == "the run has no frame capture"


@pytest.mark.parametrize(
    "was, said",
    [
        ("x" * 98, f'details.a: "{"x" * 98}", now nothing'),
        ("x" * 99, f'details.a: "{"x" * 99}…, now nothing'),
        (None, None),
        (0, "details.a: 0, now nothing"),
    ],
)
def test_a_detail_is_told_as_far_as_a_line_goes(was: Any, said: str | None) -> None:
    found = again(a_record(1, "tool", measurements=[TIME], details={"a": was}))
    assert found.changes == (() if said is None else (said,))
