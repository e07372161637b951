# SPDX-License-Identifier: Apache-2.0
"""Import results of other tools: recognise the format, read the file, store one session per group.

Files compressed with gzip are unpacked in memory, up to a limit.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput, BadRun, Refused, UnknownName
from ktrial.kit.json_strict import fault
from ktrial.kit.units import show_bytes
from ktrial.results.foreign import BroughtFile, BroughtSession, ForeignResults, ForeignRun, Importer
from ktrial.results.model import StoredRun, StoredSession
from ktrial.results.ports import ImportStore

_GZIP = b"\x1f\x8b"
_WITH_HEADER = 31
#: Small enough that many small members take no longer than one large one.
_PIECE_BYTES = 1024
_AGAIN = "copy or download the file again"


def unpacked(data: bytes, name: str, limit_bytes: int) -> tuple[bytes, str]:
    """Decompress gzip data and drop `.gz` from the name; return other data unchanged.

    Raise BadInput for damaged data, and for more than `limit_bytes` of content.
    """
    if not data.startswith(_GZIP):
        return data, name
    content, at, end = bytearray(), 0, len(data.rstrip(b"\0"))
    machine = zlib.decompressobj(_WITH_HEADER)
    while at < len(data):
        try:
            content += machine.decompress(data[at : at + _PIECE_BYTES], limit_bytes + 1 - len(content))
        except zlib.error as error:
            why = str(error).rpartition(": ")[2]
            raise BadInput(f"cannot unpack gzip data: {why}", file=name, hint=_AGAIN) from None
        if len(content) > limit_bytes:
            raise BadInput(
                f"the file unpacks to more than {show_bytes(limit_bytes)}",
                file=name,
                hint="split the file, or export fewer runs into it",
            )
        at = min(at + _PIECE_BYTES, len(data)) - len(machine.unused_data)
        if machine.eof and at < end:  # a gzip file may consist of several members
            machine = zlib.decompressobj(_WITH_HEADER)
        elif machine.eof:
            break
    if not machine.eof:
        raise BadInput(f"cannot unpack gzip data: the end is missing after byte {len(data)}", file=name, hint=_AGAIN)
    return bytes(content), name.removesuffix(".gz")


#: Larger files are refused without reading them.
LIMIT_BYTES = 256 * 1024**2
#: Importers recognise a format by this much of a file.
HEAD_BYTES = 64 * 1024
#: NUL as JSON writes it; no database accepts it in a text.
_NUL = b"\\u0000"
#: The escape itself, not an escaped backslash before the text u0000.
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class ForeignFile(msgspec.Struct, frozen=True):
    """A file: the name that the user gave, and its bytes."""

    name: str
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


class ImportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How to import files; `again` also stores what the store already holds, `dry_run` stores nothing."""

    options: ImportOptions
    as_format: str | None = None
    again: bool = False
    dry_run: bool = False


def bring_in(
    file: ForeignFile,
    wanted: ImportRequest,
    importers: Mapping[str, Importer],
    store: ImportStore,
    unix_ms: Callable[[], int],
) -> BroughtFile:
    """Read a file and store its runs. Raise BadInput for an unreadable file, Refused if the store has the file."""
    results = read_results(file, wanted, importers)
    sessions = () if wanted.again else store.sessions()
    _check_own(file, results, sessions)
    there = _already(file, sessions, wanted.options)
    groups = _groups(results.runs)
    missing = {group: runs for group, runs in groups.items() if group not in there}
    if there and (not missing or None in there):
        raise Refused(
            f"{file.name} was already imported as {', '.join(sorted(there.values()))}",
            hint="add --again to store the file a second time",
        )
    notes = results.notes
    if there:
        notes = (*notes, f"groups imported before: {', '.join(str(group) for group in there)}")
    started_unix_ms = unix_ms()
    brought = []
    for place, (group, runs) in enumerate(missing.items()):
        session = _session(file, wanted.options, results, group, runs, (started_unix_ms, place))
        if not wanted.dry_run:
            store.save_all(session, _stored(session, runs, file))
        brought.append(_imported_session(session, runs))
    return BroughtFile(
        file=file.name, format=results.format, sha256=file.sha256, sessions=tuple(brought), notes=tuple(notes)
    )


def read_results(file: ForeignFile, wanted: ImportRequest, importers: Mapping[str, Importer]) -> ForeignResults:
    """Return the results of a file. If the user names no format, an importer must recognise the file.

    Raise BadInput if the file cannot be read.
    """
    if not file.data:
        raise BadInput("the file is empty", file=file.name, hint="check that the benchmark wrote to this file")
    importer = None
    try:
        data, name = unpacked(file.data, file.name, LIMIT_BYTES)
        importer = _choose_importer(data, name, wanted, importers)
        _check_options(wanted.options, importer, file.name)
        results = importer.read(data, name, wanted.options)
        if not importer.takes_columns:
            results = _rearranged(results, wanted.options, name)
    except BadRun as error:
        advice = "correct the file, or name its format with --format if it is not {}"
        read_as = None if importer is None else advice.format(importer.name)
        raise BadInput(error.message, hint=error.hint or read_as) from None
    _check(results, file.name)
    return results


def _check_options(options: ImportOptions, importer: Importer, name: str) -> None:
    """Raise BadInput for options that this kind of file doesn't have."""
    for used, takes, kind, more in (
        (options.of_tables, importer.takes_columns, "tables (csv)", ", or add --format csv"),
        (options.of_frames, importer.takes_frames, "frame logs (mangohud)", ""),
    ):
        if used and not takes:
            what = f"cannot use {', '.join(used)} with the format {importer.name}, only with {kind}"
            raise BadInput(what, file=name, hint=f"leave out {', '.join(used)}{more}")
    if options.by is not None and options.label is not None:
        given = f"the name {options.label!r}"
        raise BadInput(f"--by and {given} both name the groups", file=name, hint=f"leave out --by or {given}")


def _rearranged(results: ForeignResults, options: ImportOptions, name: str) -> ForeignResults:
    """Apply --where, --block and --by: select runs, and take blocks and groups from their attributes."""
    runs = _select_runs(results.runs, options.where or (), name)
    if options.block is not None:
        blocks = _values_under(runs, options.block, "--block", name)
        runs = tuple(msgspec.structs.replace(run, block=block) for run, block in zip(runs, blocks, strict=True))
    if options.by is not None:
        keys = [one.strip() for one in options.by.split(",")]
        groups = zip(*(_values_under(runs, key, "--by", name) for key in keys), strict=True)
        runs = tuple(
            msgspec.structs.replace(
                run,
                group=" / ".join(group),
                attributes={key: value for key, value in run.attributes.items() if key not in keys},
            )
            for run, group in zip(runs, groups, strict=True)
        )
    return msgspec.structs.replace(results, runs=runs)


def _select_runs(runs: Sequence[ForeignRun], where: Sequence[str], name: str) -> tuple[ForeignRun, ...]:
    """Return the runs that have one of the selected values for every name."""
    selected: dict[str, set[str]] = {}
    for text in where:
        key, sign, value = text.partition("=")
        if not sign:
            raise BadInput(f"--where {text!r}: missing value", file=name, hint="write NAME=VALUE")
        selected.setdefault(key, set()).add(value.strip())
    for key, accepted in selected.items():
        values = _values_under(runs, key, "--where", name)
        runs = tuple(run for run, value in zip(runs, values, strict=True) if value in accepted)
        if not runs:
            choices = ", ".join(sorted(set(values))[:12])
            given = ", ".join(where)
            raise BadInput(
                f"--where {given}: no run matches", file=name, hint=f"use one of the values of {key}: {choices}"
            )
    return tuple(runs)


def _values_under(runs: Sequence[ForeignRun], key: str, option: str, name: str) -> list[str]:
    """Return the attribute `key` of each run. Raise BadInput if a run lacks it."""
    values = [run.attributes[key] for run in runs if key in run.attributes]
    if len(values) == len(runs):
        return values
    every = set.intersection(*(set(run.attributes) for run in runs)) if runs else set()
    differing = sorted(one for one in every if len({run.attributes[one] for run in runs}) > 1)
    names = (
        f"use an attribute that differs between the runs: {', '.join(differing)}"
        if differing
        else f"remove {option}: the runs differ in no attribute that all of them have"
    )
    lacking = len(runs) - len(values)
    count = f"{lacking} of {len(runs)} runs lack this attribute" if values else "no run has this attribute"
    raise BadInput(f"{option} {key!r}: {count}", file=name, hint=names)


_OTHERWISE = (
    "add --format FORMAT if the file has one of these formats, or write a CSV table that has a row for each run "
    "(docs/results.md)"
)


def claiming(head: bytes, name: str, importers: Mapping[str, Importer]) -> list[Importer]:
    """Return the importers that recognise a file. An importer for tables counts only if no other one matches."""
    fitting = [importer for importer in importers.values() if importer.sniff(head, name)]
    return [importer for importer in fitting if not importer.takes_columns] or fitting


def _choose_importer(data: bytes, name: str, wanted: ImportRequest, importers: Mapping[str, Importer]) -> Importer:
    formats = ", ".join(importers)
    as_format = wanted.as_format
    if as_format is not None:
        if as_format not in importers:
            raise UnknownName("format", as_format, importers, hint=f"use one of: {formats}")
        return importers[as_format]
    head = data[:HEAD_BYTES]
    fitting = claiming(head, name, importers)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = " or ".join(one.name for one in fitting)
        raise BadInput(f"ambiguous format: {names}", file=name, hint=f"name the format: --format {fitting[0].name}")
    tables = [importer for importer in importers.values() if importer.takes_columns]
    if len(tables) == 1 and wanted.options.values and b"\0" not in head:
        return tables[0]  # a table of one column is not recognised, but the user names its column
    if broken := fault(data.decode("utf-8-sig", "replace")):
        raise BadInput(
            f"cannot recognise the format: {broken}",
            file=name,
            hint="copy or export the file again, or correct its JSON",
        )
    kind = "unknown binary format" if b"\0" in head else "unknown format"
    raise BadInput(f"{kind}; ktrial imports {formats}", file=name, hint=_OTHERWISE)


def _check(results: ForeignResults, name: str) -> None:
    for run in results.runs:
        names = [one.outcome for one in run.measurements]
        if len(set(names)) != len(names):
            double = next(one for one in names if names.count(one) > 1)
            raise BadInput(
                f"run {run.number} of {run.benchmark} measures {double!r} twice",
                file=name,
                hint=f"keep one value of {double!r} per run",
            )
        wrong = next((one for one in run.measurements if not math.isfinite(one.value)), None)
        if wrong is not None:
            raise BadInput(
                f"{wrong.outcome} is {wrong.original}, which is not a finite number",
                file=name,
                hint="remove the value from the file",
            )
    try:
        whole = msgspec.json.encode(results)
    except UnicodeEncodeError:
        whole = _NUL
    if _NUL in whole and _ESCAPED_NUL.search(whole):
        raise BadInput(
            "the text contains an unpaired surrogate or a NUL", file=name, hint="remove these characters from the file"
        )


def _groups(runs: Sequence[ForeignRun]) -> dict[str, list[ForeignRun]]:
    groups: dict[str, list[ForeignRun]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    return groups


def _check_own(file: ForeignFile, results: ForeignResults, sessions: Sequence[StoredSession]) -> None:
    """Raise Refused for a file of ktrial whose runs the store already holds."""
    names = {run.attributes.get("session") for run in results.runs}
    own = sorted(one.session for one in sessions if one.session in names)
    if own:
        raise Refused(
            f"{file.name} contains runs of {', '.join(own)}, which this store has already",
            hint="add --again to store these runs a second time",
        )


def _already(file: ForeignFile, sessions: Sequence[StoredSession], options: ImportOptions) -> dict[str | None, str]:
    """Map each group imported before from this file to its session; the key None means that options differed.

    A group may be missing if an earlier import was interrupted. Importing the file again completes it.
    """
    imported: dict[str | None, str] = {}
    for one in sessions:
        if one.document.get("sha256") == file.sha256 and one.origin.startswith("import:"):
            same = one.document.get("options") == msgspec.to_builtins(options)
            imported[one.document.get("group") if same else None] = one.session
    return imported


def _session(
    file: ForeignFile,
    options: ImportOptions,
    results: ForeignResults,
    group: str,
    runs: Sequence[ForeignRun],
    when: tuple[int, int],
) -> StoredSession:
    started_unix_ms, place = when
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started_unix_ms / 1000))
    mark = hashlib.sha256(f"{file.sha256}/{started_unix_ms}/{place}".encode()).hexdigest()[:6]
    document = {
        "schema": "ktrial.foreign-session/1",
        "file": file.name.rsplit("/", 1)[-1],
        "sha256": file.sha256,
        "format": results.format,
        "group": group,
        "options": msgspec.to_builtins(options),
        "notes": list(results.notes),
    }
    return StoredSession(
        session=f"{stamp}-{mark}",
        suite=results.format,
        label=group,
        origin=f"import:{results.format}",
        kernel_release=_same(runs, "kernel", "kernel_release"),
        boot_id=_same(runs, "boot_id"),
        started_unix_ms=started_unix_ms,
        runs={},
        document=document,
    )


def _same(runs: Sequence[ForeignRun], *names: str) -> str | None:
    values = {next((run.attributes[name] for name in names if name in run.attributes), None) for run in runs}
    return values.pop() if len(values) == 1 else None


def _stored(
    session: StoredSession, runs: Sequence[ForeignRun], file: ForeignFile
) -> Iterator[tuple[StoredRun, Mapping[str, bytes]]]:
    """Yield the runs to store; the first one carries the file itself."""
    for run in runs:
        raw = {"file": file.data} if run is runs[0] else {}
        yield _stored_run(session, run), raw


def _stored_run(session: StoredSession, run: ForeignRun) -> StoredRun:
    return StoredRun(
        session=session.session,
        number=run.number,
        benchmark=run.benchmark,
        state="ok" if run.failure is None else "failed",
        warm_up=False,
        started_unix_ms=session.started_unix_ms,
        measurements=run.measurements,
        raw={},
        document=document_of(run),
    )


def document_of(run: ForeignRun) -> dict[str, Any]:
    """Return the run as a `ktrial.foreign-run/1` document."""
    unordered = {} if run.in_order else {"in_order": False}
    return {
        "schema": "ktrial.foreign-run/1",
        "measurements": list(msgspec.to_builtins(run.measurements)),
        "attributes": dict(run.attributes),
        "block": run.block,
        "part_of": run.part_of,
        "failure": run.failure,
        **unordered,
    }


def _imported_session(session: StoredSession, runs: Sequence[ForeignRun]) -> BroughtSession:
    return BroughtSession(
        session=session.session,
        label=session.label or "",
        benchmarks=tuple(dict.fromkeys(run.benchmark for run in runs)),
        runs=len(runs),
        failed=sum(run.failure is not None for run in runs),
        measurements=sum(len(run.measurements) for run in runs),
    )
