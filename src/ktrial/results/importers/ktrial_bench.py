# SPDX-License-Identifier: Apache-2.0
"""`ktrial.bench/1`: result files of `ktrial bench -o`, from any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import in_lower_case
from ktrial.kit.formats.tool_output import json_document, json_list, json_table, unreadable, unreadable_value
from ktrial.results.foreign import ForeignResults, ForeignRun
from ktrial.results.importers._shared import has_schema
from ktrial.results.importers._units import Scale
from ktrial.results.model import StoredMeasurement

SCHEMA = "ktrial.bench/1"


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a run's record that every version has; `whole` is the record if it has the current form."""

    run: int
    benchmark: str
    round: int
    measurements: tuple[StoredMeasurement, ...]
    failure: str | None
    tool: str | None = None
    tool_version: str | None = None
    argv: tuple[str, ...] = ()
    whole: RunRecord | None = None


class _Hole(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that is missing in all or some runs."""

    benchmark: str
    why: str


class BenchFile(msgspec.Struct, frozen=True, kw_only=True):
    """A session's runs in order; `missing` maps benchmarks without runs to the reason.

    `warm_ups` counts the warm-ups, which are left out.
    """

    session: str
    suite: str
    label: str | None
    attributes: Mapping[str, str]
    runs: tuple[_Record, ...]
    warm_ups: int
    missing: Mapping[str, str]


def read_ktrial_bench(data: bytes, source: str = "result.json") -> BenchFile:
    document = json_document(data, source)
    if document.get("schema") != SCHEMA:
        raise unreadable_value(source, document.get("schema"), f"the schema {SCHEMA}")
    session = json_table(document.get("session"), source, "session")
    name, suite, label = (session.get(key) for key in ("session", "suite", "label"))
    if not isinstance(name, str) or not isinstance(suite, str) or not isinstance(label, str | None):
        wrong = "session" if not isinstance(name, str) else "suite" if not isinstance(suite, str) else "label"
        raise unreadable(source, None, "", f"valid: session.{wrong} is not a string")
    records = [
        _record(one, f"runs[{index}]", source)
        for index, one in enumerate(json_list(document.get("runs"), source, "runs"))
    ]
    counted = tuple(one for one in records if one.round)
    if not counted:
        raise unreadable(source, None, "", "a file with results: it has no run that counts")
    return BenchFile(
        session=name,
        suite=suite,
        label=label,
        attributes=_attributes(session),
        runs=counted,
        warm_ups=len(records) - len(counted),
        missing=_missing(document, counted, source),
    )


def _missing(document: Mapping[str, Any], runs: Sequence[_Record], source: str) -> dict[str, str]:
    """Return the benchmarks without any run, and why."""
    there = {one.benchmark for one in runs}
    try:
        holes = msgspec.convert(document.get("holes", []), list[_Hole])
    except msgspec.ValidationError as error:
        why = in_lower_case(str(error))
        raise unreadable(
            source, None, "", f"valid: 'holes' is not a list of missing benchmarks and reasons ({why})"
        ) from None
    return {hole.benchmark: hole.why for hole in holes if hole.benchmark not in there}


def _record(value: object, at: str, source: str) -> _Record:
    try:
        record = msgspec.convert({**json_table(value, source, at), "whole": None}, _Record)
    except msgspec.ValidationError as error:
        raise unreadable(source, None, at, f"a run's record: {in_lower_case(str(error))}") from None
    if not record.measurements and record.failure is None:
        raise unreadable(source, None, at, "a run's record: it has neither measurements nor a failure")
    names = [one.outcome for one in record.measurements]
    if len(set(names)) != len(names):
        raise unreadable(source, None, at, "a run's record: an outcome occurs twice")
    for one in record.measurements:
        Scale(one.unit).value(one.value, source, None, f"{at}: a value of {one.outcome}")
    try:
        whole = msgspec.convert(value, RunRecord)
    except msgspec.ValidationError:
        whole = None
    return msgspec.structs.replace(record, whole=whole)


def _attributes(session: Mapping[str, Any]) -> dict[str, str]:
    names = ("session", "suite", "kernel_release", "boot_id", "ktrial_version")
    return {name: text for name in names if isinstance(text := session.get(name), str)}


NAME = "ktrial-bench"
WHAT = "Result files of ktrial bench -o (ktrial.bench/1)."


def sniff(head: bytes, name: str) -> bool:
    return has_schema(head, SCHEMA)


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return the runs that count, including failed runs, as one group.

    The user's label names the group. By default, the session's label or name does.
    """
    file = read_ktrial_bench(data, name)
    group = options.label or file.label or file.session
    runs = []
    for number, one in enumerate(file.runs, 1):
        about = {"run": str(one.run), "round": str(one.round), "tool": one.tool, "tool_version": one.tool_version}
        attributes = {**file.attributes, **{key: text for key, text in about.items() if text is not None}}
        if one.argv:
            attributes["command"] = " ".join(one.argv)
        runs.append(
            ForeignRun(
                group=group,
                benchmark=one.benchmark,
                number=number,
                measurements=() if one.failure is not None else one.measurements,
                attributes=attributes,
                failure=one.failure,
                record=one.whole,
            )
        )
    notes = [
        "artefacts, order and conditions of the runs are not imported: compare the file itself, or import a bundle"
    ]
    if old := sum(one.whole is None for one in file.runs):
        notes.append(f"records of another version; ktrial read only their numbers: {old}")
    if file.warm_ups:
        notes.append(f"warm-ups ignored: {file.warm_ups}")
    notes += [f"{benchmark} is missing: {why}" for benchmark, why in file.missing.items()]
    missing = {group: file.missing} if file.missing else {}
    return ForeignResults(format=NAME, runs=tuple(runs), notes=tuple(notes), missing=missing)
