# SPDX-License-Identifier: Apache-2.0
"""Tidy CSV: one line for each measurement, and one line for a run without measurements."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

from ktrial.results.model import Exported, SessionRuns, StoredRun

NAME = "csv"
WHAT = "Tidy CSV: one line for each measurement, in base units."
COLUMNS = (
    *("session", "label", "run", "round", "benchmark", "outcome"),
    *("value", "unit", "direction", "original", "state", "started_unix_ms"),
)


class _Text:
    """Collects what csv writes."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def write(self, piece: str) -> int:
        self.pieces.append(piece)
        return len(piece)


def write(sessions: Sequence[SessionRuns]) -> Exported:
    """Return all runs, including failed ones and warm-ups (round 0)."""
    text = _Text()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for one in sessions:
        for run in one.runs:
            lines.writerows(_rows(one.session.label, run))
    left_out = ("identity, conditions and raw output of the runs",) if any(one.runs for one in sessions) else ()
    return Exported(data="".join(text.pieces).encode("utf-8", "surrogateescape"), left_out=left_out)


def _rows(label: str | None, run: StoredRun) -> Iterator[tuple[Any, ...]]:
    head = (run.session, label, run.number, _round(run), run.benchmark)
    tail = (run.state, run.started_unix_ms)
    for one in run.measurements:
        yield (*head, one.outcome, repr(one.value), one.unit, one.direction, one.original, *tail)
    if not run.measurements:
        yield (*head, None, None, None, None, None, *tail)


def _round(run: StoredRun) -> Any:
    """Return the run's round, or its block if an imported file names one."""
    if run.warm_up:
        return 0
    document = run.document or {}
    return document.get("round", document.get("block"))
