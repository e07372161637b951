# SPDX-License-Identifier: Apache-2.0
"""Re-parses stored raw output with the current adapters, and compares the result with the stored one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ktrial.bench.benchmark import Benchmark, ParsedRun, RawOutput, check_measurements
from ktrial.bench.command_benchmark import check_run
from ktrial.bench.record import LOAD_THROUGHPUT, KeptMeasurement
from ktrial.bench.run.undoable_command import EJECTED
from ktrial.kit.errors import BadInput, BadRun
from ktrial.live.period import details_of, measurements_in, outcomes_seen, read_period
from ktrial.machine.gates import VOID
from ktrial.recordings.frames.statistics import FRAME_OUTCOMES
from ktrial.results.model import StoredRun
from ktrial.results.ports import Results
from ktrial.trial.protocol.live import LIVE
from ktrial.watch.frames import read_frames

#: Start of the failure text of a run whose output was too long and was cut. Re-reading cannot restore it.
_CUT = "printed more than is captured"
#: Starts of the failure texts of runs that were disturbed or void, or whose background load or arm failed.
_AROUND_IT = ("input during the run", "the background load", f"{VOID}: ", f"{EJECTED}: ")
#: Start of the reason for an invalid record, which a newer ktrial wrote or somebody changed.
BROKEN = "invalid run record"
#: Start of the notes on energy counters, which are not part of the output.
_ENERGY_NOTE = "energy of "
#: Outcomes that are measured beside the benchmark, not read from its output.
_AROUND = (LOAD_THROUGHPUT.name, "energy.", "power.")


class Reparsed(msgspec.Struct, frozen=True, kw_only=True):
    """One re-read run.

    `unread` gives the reason if ktrial could not re-read the run; otherwise `changes` lists what differs now.
    """

    session: str
    run: int
    benchmark: str
    changes: tuple[str, ...] = ()
    unread: str | None = None


def reparse(sessions: Iterable[str], results: Results, benchmarks: Mapping[str, Benchmark]) -> Iterator[Reparsed]:
    for session in sessions:
        for run in results.runs(session):
            raw = {name: results.raw(digest) for name, digest in run.raw.items()}
            yield reparse_run(run, raw, benchmarks)


def reparse_run(run: StoredRun, raw: Mapping[str, bytes], benchmarks: Mapping[str, Benchmark]) -> Reparsed:
    changes: tuple[str, ...] = ()
    try:
        unread = _why_not(run, benchmarks)
        if unread is None:
            changes = tuple(_changes(run, *read_again(run, raw, benchmarks)))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        unread = f"{BROKEN}: {error!r}"
    return Reparsed(session=run.session, run=run.number, benchmark=run.benchmark, changes=changes, unread=unread)


def read_again(
    run: StoredRun, raw: Mapping[str, bytes], benchmarks: Mapping[str, Benchmark]
) -> tuple[ParsedRun, tuple[KeptMeasurement, ...], str | None]:
    """Return what the current adapter reads, the measurements with units, and the reason if it cannot read the run."""
    document = run.document or {}
    output = _output(document, raw)
    try:
        if _is_frames(document):
            parsed, outcomes = _frames(output, document["parameters"].get("below_fps"))
        elif document["tool"] == LIVE:
            seen = read_period(output.files)
            outcomes = outcomes_seen(seen)
            parsed = ParsedRun(measurements=measurements_in(seen), details=details_of(seen))
        else:
            benchmark = benchmarks[document["tool"]]
            check_run(benchmark, output)
            parsed = benchmark.parse(output, {**benchmark.parameters, **document["parameters"]})
            outcomes = {one.name: one for one in benchmark.outcomes}
        check_measurements(tuple(outcomes.values()), parsed)
    except (BadRun, BadInput) as error:
        return ParsedRun(measurements=()), (), error.message
    return parsed, tuple(KeptMeasurement.of(one, outcomes[one.outcome]) for one in parsed.measurements), None


def _why_not(run: StoredRun, benchmarks: Mapping[str, Benchmark]) -> str | None:
    document = run.document
    if document is None:
        return f"the run was {run.state} and has no record"
    if document.get("schema") != "ktrial.run/1":
        return "imported run: its raw output is the imported file"
    if document.get("tool") == LIVE:
        return None
    if _is_frames(document):
        return None if any(name.startswith("files/") for name in run.raw) else "the run has no frame capture"
    tool = document["tool"]
    if tool not in benchmarks:
        return f"unknown benchmark {tool}: the run measured a command after --, or ktrial no longer has the benchmark"
    known = {one.name for one in benchmarks[tool].outcomes}
    foreign = [one.outcome for one in run.measurements if one.outcome not in known and not _is_around(one.outcome)]
    if foreign and not known & {one.outcome for one in run.measurements}:
        return f"{tool} has changed: at that time it measured {', '.join(foreign)}"
    return None


def _is_frames(document: Mapping[str, Any]) -> bool:
    tool = document.get("tool")
    return isinstance(tool, str) and tool.startswith("frames")


def _is_around(outcome: str) -> bool:
    return outcome.startswith(_AROUND)


def _output(document: Mapping[str, Any], raw: Mapping[str, bytes]) -> RawOutput:
    ended, used = document["exit"], document["resources"]
    files = {name.removeprefix("files/"): data for name, data in raw.items() if name.startswith("files/")}
    return RawOutput(
        stdout=raw.get("stdout", b""),
        stderr=raw.get("stderr", b""),
        files=files,
        exit_status=ended["status"],
        signal=ended["signal"],
        failed=ended["failed"],
        timed_out=ended["timed_out"],
        interrupted=ended["interrupted"],
        cut=(document["failure"] or "").startswith(_CUT),
        wall_ns=used["wall_ns"],
        user_us=used["user_us"],
        system_us=used["system_us"],
        max_rss_bytes=used["max_rss_bytes"],
        network=document.get("network"),
    )


def _frames(output: RawOutput, below_fps: float | None) -> tuple[ParsedRun, Mapping[str, Any]]:
    """Return numbers and outcomes of the capture with the most frames, which the original run used too."""
    reports, errors = [], []
    for name, data in output.files.items():
        try:
            reports.append(read_frames(data, name, below_fps))
        except BadRun as error:
            errors.append(error)
    if not reports:
        raise errors[0]
    report = max(reports, key=lambda one: one.frames)
    outcomes = {one.outcome.name: one.outcome for one in (*FRAME_OUTCOMES, *report.outcomes)}
    return ParsedRun(measurements=report.measurements, details=report.details, notes=report.notes), outcomes


def _changes(
    run: StoredRun, parsed: ParsedRun, measured: tuple[KeptMeasurement, ...], failure: str | None
) -> Iterator[str]:
    document = run.document or {}
    before = document["failure"]
    if before is not None:
        if failure is None and not _spoiled(document):
            yield f"the run had failed ({before}); now it yields {', '.join(_show_value(one) for one in measured)}"
        return
    if failure is not None:
        yield f"the run yielded {', '.join(_show_value(one) for one in run.measurements)}; now it fails: {failure}"
        return
    shown = {one.outcome: _show_value(one) for one in measured}
    kept = {one.outcome: _show_value(one) for one in run.measurements}
    yield from _differing({name: text for name, text in kept.items() if name in shown or not _is_around(name)}, shown)
    was, now = document["details"], msgspec.json.decode(msgspec.json.encode(parsed.details))
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) != now.get(key):
            yield f"details.{key}: {_brief(was.get(key))}, now {_brief(now.get(key))}"
    yield from _changed_notes(document, parsed.notes)


def _changed_notes(document: Mapping[str, Any], now: Sequence[str]) -> Iterator[str]:
    """Yield the notes that appear or disappear when the output is read now. Changes of wording do not count."""
    was = [note for note in document["notes"] if not note.startswith(_ENERGY_NOTE)]
    if len(now) > len(was):
        yield f"new note: {'; '.join([note for note in now if note not in was])}"
    if len(now) < len(was) and not _is_frames(document):  # a frame capture has notes on how the game ended
        yield f"missing note: {'; '.join([note for note in was if note not in now])}"


def _differing(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for outcome in dict.fromkeys((*was, *now)):
        if was.get(outcome) != now.get(outcome):
            yield f"{outcome}: {was.get(outcome, 'not measured')}, now {now.get(outcome, 'not measured')}"


def _spoiled(document: Mapping[str, Any]) -> bool:
    """Return whether the run failed for a reason outside its output, such as its preparation or a disturbance."""
    unprepared = any(not one["ok"] for one in document.get("prepared") or ())
    return unprepared or document["failure"].startswith(_AROUND_IT)


def _show_value(one: Any) -> str:
    return f"{one.outcome} {one.value!r} {one.unit} ({one.direction}, from {one.original!r})"


def _brief(value: Any) -> str:
    text = "nothing" if value is None else msgspec.json.encode(value).decode()
    return text if len(text) <= 100 else text[:100] + "…"
