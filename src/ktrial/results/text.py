# SPDX-License-Identifier: Apache-2.0
"""Text about the contents of the store (sessions, runs) and about imported files."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ktrial.bench.conditions_text import told_conditions
from ktrial.bench.text import duration, findings_text, number, percent, scale_for, show
from ktrial.kit.finding import Finding
from ktrial.kit.tables import clean, labelled, least_width, paragraph, table
from ktrial.results.foreign import BroughtFile, BroughtSession
from ktrial.results.model import RunState, StoredRun, StoredSession, StoredSummary

_BETTER = {"lower": "less", "higher": "more", None: "?"}
_SHOWN_BENCHMARKS = 3
#: States of runs and their words, in the order of texts.
_STATES: tuple[tuple[RunState, str], ...] = (
    ("ok", "good"),
    ("failed", "failed"),
    ("void", "void"),
    ("interrupted", "interrupted"),
    ("running", "running"),
)


def moment(unix_ms: int) -> str:
    """Return a time such as `2026-11-21 21:42`, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(unix_ms / 1000))


def iso_date(unix_ms: int) -> str:
    """Return a time such as `2026-11-21T21:42:07Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_ms / 1000))


def runs_of(session: StoredSession) -> str:
    """Return counts such as `10 good, 1 failed`."""
    counts = [f"{session.runs[state]} {word}" for state, word in _STATES if session.runs.get(state)]
    return ", ".join(counts) or "none"


def sessions_text(sessions: Sequence[StoredSession], *, width: int) -> str:
    """Return a table of sessions. For a small `width`, leave out the time, which is in the name, then the kernel."""
    rows = [
        {
            "session": one.session,
            "when (UTC)": moment(one.started_unix_ms),
            "suite": one.suite,
            "label": one.label or "",
            "kernel": one.kernel_release or "",
            "runs": runs_of(one),
            "from": one.origin,
        }
        for one in sessions
    ]
    headers = list(rows[0]) if rows else []
    for spare in ("when (UTC)", "kernel"):
        if least_width(headers, [[row[name] for name in headers] for row in rows], whole=1) > width:
            headers.remove(spare)
    return table(headers, [[row[name] for name in headers] for row in rows], width=width, whole=1) + "\n"


def session_text(
    session: StoredSession,
    found: Sequence[StoredSummary],
    runs: Iterable[StoredRun],
    doubts: Sequence[Finding] = (),
    *,
    width: int,
) -> str:
    """Return a text on a session: its facts, outcomes and doubts, and the runs that don't count, with reasons."""
    document = session.document
    lines = [
        labelled("session", session.session, width=width),
        labelled("when", f"{moment(session.started_unix_ms)} UTC", width=width),
        labelled("suite", session.suite, width=width),
    ]
    facts = (
        ("label", session.label),
        ("from", session.origin),
        ("kernel", session.kernel_release),
        ("boot", session.boot_id),
        ("seed", document.get("seed")),
        ("ktrial", document.get("ktrial_version")),
    )
    lines += [labelled(name, str(value), width=width) for name, value in facts if value is not None]
    lines.append(labelled("runs", runs_of(session), width=width))
    missing = (document.get("missing") or {}).items()
    lines += [labelled("missing", f"{benchmark}: {why}", width=width) for benchmark, why in missing]
    lines += [labelled("note", str(note), width=width) for note in document.get("notes") or ()]
    if found:
        lines += ["", _summary_table(found, width=width)]
    if doubts:
        lines += ["", findings_text(doubts, width=width).rstrip()]
    doubtful = [f"run {run.number}, {run.benchmark}: {run.state}{_reason(run)}" for run in runs if run.state != "ok"]
    lines += ["", *(paragraph(text, width=width) for text in doubtful)] if doubtful else []
    return "\n".join(lines) + "\n"


def run_text(run: StoredRun, *, width: int) -> str:
    """Return a text on a run: the command, how it ended, and its numbers."""
    document = run.document or {}
    lines = [
        labelled("run", f"{run.session}/{run.number}{', a warm-up' if run.warm_up else ''}", width=width),
        labelled("benchmark", run.benchmark, width=width),
        labelled("state", f"{run.state}{_reason(run)}", width=width),
        labelled("when", f"{moment(run.started_unix_ms)} UTC", width=width),
        *(labelled(name, text, width=width) for name, text in _identity(document)),
        *(labelled("note", str(note), width=width) for note in document.get("notes") or ()),
        *(labelled(name, text, width=width) for name, text in told_conditions(document)),
        *(labelled("raw", f"{name}, {digest[:12]}…", width=width) for name, digest in sorted(run.raw.items())),
    ]
    if run.measurements:
        rows = [
            (one.outcome, show(one.value, one.unit), one.original, _BETTER[one.direction]) for one in run.measurements
        ]
        lines += ["", table(("outcome", "value", "as printed", "better"), rows, width=width)]
    return "\n".join(lines) + "\n"


def _summary_table(found: Sequence[StoredSummary], *, width: int) -> str:
    rows = []
    for one in found:
        scale = scale_for(one.median, one.unit)
        values = (number(value, scale) for value in (one.median, one.minimum, one.maximum))
        row = (one.benchmark, one.outcome, str(one.n), *values, scale[1] or one.unit, percent(one.cv))
        rows.append((*row, _BETTER[one.direction]))
    return table(("benchmark", "outcome", "n", "median", "min", "max", "unit", "CV", "better"), rows, width=width)


def _reason(run: StoredRun) -> str:
    failure = (run.document or {}).get("failure")
    return f": {failure}" if failure else ""


def _identity(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield the facts of the record about the tool, its command and its surroundings."""
    tool, version = document.get("tool"), document.get("tool_version")
    if tool:
        yield "tool", f"{tool} {version}" if version else str(tool)
    if document.get("argv"):
        yield "command", shlex.join(map(str, document["argv"]))
    for step in document.get("steps") or ():
        yield "before it", shlex.join(map(str, step))
    if load := document.get("agent_load"):
        yield "load", str(load.get("name"))
    if document.get("directory"):
        yield "in", str(document["directory"])
    if box := document.get("container"):
        yield "container", f"{box['runtime_version']}, image {box['image']} ({box['image_id']})"
    for name in ("parameters", "attributes"):
        if pairs := document.get(name):
            yield name, ", ".join(f"{key}={value}" for key, value in pairs.items())
    if (cpus := document.get("cpus")) is not None:
        yield "CPUs", ",".join(map(str, cpus))
    yield from _place(document)
    yield from _end(document)


def _place(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if document.get("round") is not None:
        yield "round", f"{document['round']}, place {document.get('position')}"
    if document.get("block") is not None:
        yield "block", str(document["block"])


def _end(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    ended, used = document.get("exit") or {}, document.get("resources") or {}
    how = [f"status {ended['status']}"] if ended.get("status") is not None else []
    how += [f"signal {ended['signal']}"] if ended.get("signal") is not None else []
    how += ["killed at its limit"] if ended.get("timed_out") else []
    how += ["interrupted"] if ended.get("interrupted") else []
    how += [f"not started: {ended['failed']}"] if ended.get("failed") else []
    if used.get("wall_ns") is not None:
        seconds = used["wall_ns"] / 1e9
        how.append(f"after {duration(seconds) if seconds >= 60 else show(seconds, 's')}")
    if how:
        yield "ended", ", ".join(how)
    if used.get("max_rss_bytes") is not None:
        yield "memory", f"{show(used['max_rss_bytes'], 'B')} at most"


def reparsed_text(rows: Sequence[tuple[str, str, Sequence[str], str | None]], *, width: int) -> str:
    """Return a text on runs that were parsed again: their changes, runs that could not be parsed, and counts.

    A row holds name, benchmark, changes, and the reason if the run could not be parsed.
    """
    lines = []
    for name, benchmark, changes, _ in rows:
        lines += [paragraph(f"{name}, {benchmark}: {change}", width=width) for change in changes]
    unread: dict[str, list[str]] = {}
    for name, _, _, why in rows:
        if why is not None:
            unread.setdefault(why, []).append(name)
    for why, names in unread.items():
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(paragraph(f"not parsed again: {shown}: {why}", width=width))
    changed = sum(bool(changes) for _, _, changes, _ in rows)
    skipped = sum(why is not None for *_, why in rows)
    lines.append(f"{len(rows) - changed - skipped} unchanged, {changed} changed, {skipped} not parsed again")
    return "\n".join(lines) + "\n"


def imported_text(files: Sequence[BroughtFile], *, dry_run: bool, width: int) -> str:
    """Return a text that lists each file with its sessions and notes."""
    return "\n".join(_imported_file(file, dry_run, width) for file in files)


def _imported_file(file: BroughtFile, dry_run: bool, width: int) -> str:
    does = "would become" if dry_run else "became"
    count = len(file.sessions)
    head = f"{clean(file.file)} ({file.format}) {does} {count} session{'s'[: count != 1]}:"
    rows = [
        (
            "-" if dry_run else one.session,
            clean(one.label),
            clean(_benchmarks(one)),
            f"{one.runs} ({one.failed} failed)" if one.failed else str(one.runs),
            str(one.measurements),
        )
        for one in file.sessions
    ]
    lines = [head, table(("session", "label", "benchmarks", "runs", "values"), rows, width=width)]
    lines += [paragraph(f"note: {clean(note)}", width=width) for note in file.notes]
    return "\n".join(lines) + "\n"


def _benchmarks(one: BroughtSession) -> str:
    names = list(one.benchmarks[:_SHOWN_BENCHMARKS])
    more = len(one.benchmarks) - len(names)
    return ", ".join([*names, f"{more} more"] if more else names)
