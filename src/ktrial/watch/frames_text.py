# SPDX-License-Identifier: Apache-2.0
"""Frame statistics as text and as `ktrial.frames/1`, with values, units and definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktrial.bench.text import show
from ktrial.kit.tables import clean, labelled, paragraph, table
from ktrial.recordings.frames.statistics import FrameOutcome, FrameReport

_LABEL_COLUMNS = 18


def frames_text(reports: Sequence[FrameReport], *, width: int) -> str:
    parts = [_one(report, width) for report in reports]
    defined: dict[str, FrameOutcome] = {one.outcome.name: one for report in reports for one in report.outcomes}
    parts.append(
        "How each is computed:\n"
        + "\n".join(
            labelled(name, one.definition, width=width, label_columns=_LABEL_COLUMNS) for name, one in defined.items()
        )
    )
    return "\n\n".join(parts) + "\n"


def _one(report: FrameReport, width: int) -> str:
    made = {"mangohud": "MangoHud", "xplane": "X-Plane"}.get(report.kind) or str(report.details["made_by"])
    version = f" {report.version}" if report.version else ""
    what = "samples" if report.kind == "samples" else "frames"
    head = f"{clean(report.file)}: {report.frames} {what} in {report.logged_s:.3f} s, logged by {made}{clean(version)}"
    outcomes = {one.outcome.name: one.outcome for one in report.outcomes}
    rows = []
    for one in report.measurements:
        outcome = outcomes[one.outcome]
        star = " *" if outcome.headline else ""
        rows.append((outcome.name + star, show(one.value, outcome.unit), outcome.direction))
    lines = [head, table(("outcome", "value", "better"), rows, width=width)]
    lines += [paragraph(f"{one.outcome}: left out: {one.why}", width=width) for one in report.left_out]
    lines += [paragraph(f"note: {note}", width=width) for note in report.notes]
    return "\n".join(lines)


def frames_document(reports: Sequence[FrameReport]) -> dict[str, Any]:
    return {"schema": "ktrial.frames/1", "logs": [_document(report) for report in reports]}


def _document(report: FrameReport) -> dict[str, Any]:
    outcomes = {one.outcome.name: one for one in report.outcomes}
    statistics = []
    for one in report.measurements:
        about = outcomes[one.outcome]
        statistics.append(
            {
                "outcome": one.outcome,
                "value": one.value,
                "unit": about.outcome.unit,
                "direction": about.outcome.direction,
                "headline": about.outcome.headline,
                "definition": about.definition,
                "better": about.outcome.better,
                "worse": about.outcome.worse,
                "blind_spots": about.outcome.blind_spots,
            }
        )
    return {
        "file": report.file,
        "kind": report.kind,
        "version": report.version,
        "frames": report.frames,
        "logged_s": report.logged_s,
        "statistics": statistics,
        "left_out": report.left_out,
        "details": report.details,
        "notes": report.notes,
    }
