# SPDX-License-Identifier: Apache-2.0
"""The result of an examination as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ktrial.kit.tables import labelled, paragraph, table
from ktrial.tuning.doctor.model import Counts, Examination
from ktrial.tuning.origin.origin import Origin
from ktrial.tuning.origin.why_text import who

_MOST_INSTANCES = 3


def doctor_json(examination: Examination) -> dict[str, Any]:
    return {"schema": "ktrial.doctor/1", **msgspec.to_builtins(examination)}


def doctor_text(examination: Examination, *, width: int) -> str:
    """Return a text about the machine, unfinished work, changed values with their origin, disturbances and limits."""
    blocks = ["\n".join(labelled(label, text, width=width, label_columns=8) for label, text in examination.machine)]
    if examination.unsettled:
        left = (paragraph(f"- {sentence}", width=width) for sentence in examination.unsettled)
        blocks.append("\n".join(["Unfinished work of ktrial", *left]))
    blocks.append(_differences(examination, width))
    blocks.append(_confounders(examination, width))
    blocks.append(_limits(examination, width))
    notes = [*examination.untold, *(f"cannot parse {line}" for line in examination.unread)]
    if notes:
        blocks.append("\n".join(["Could not be determined", *(paragraph(f"- {note}", width=width) for note in notes)]))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _differences(examination: Examination, width: int) -> str:
    lines = [paragraph(_counts_text(examination.counts), width=width)]
    if examination.differ:
        rows = _merged(examination.differ, with_default=True)
        lines.append(table(("knob", "now", "default", "set by"), rows, width=width))
        if any(origin.verdict == "unknown-writer" for origin in examination.differ):
            unseen = ", or something that could not be determined (see below)" if examination.untold else ""
            note = f"unknown writer: no file here sets the value; a program, image or driver did{unseen}"
            lines.append(paragraph(note, width=width))
    if examination.named:
        rows_named = [(name, value, said) for name, value, _, said in _merged(examination.named, with_default=False)]
        lines += ["", "Set explicitly, default unknown", table(("knob", "now", "set by"), rows_named, width=width)]
    return "\n".join(lines)


def _short_who(origin: Origin) -> str:
    """Return who set the value in a form short enough for a column, in most cases the place alone."""
    if origin.set_by is None:
        return "unknown writer" if origin.verdict == "unknown-writer" else who(origin)
    return {"command-line": "kernel command line", "ktrial": f"ktrial, {origin.set_by.place}"}.get(
        origin.set_by.source, origin.set_by.place
    )


def _counts_text(counts: Counts) -> str:
    rest = [
        f"default unknown for {counts.default_unknown}" if counts.default_unknown else "",
        f"{counts.unreadable} unreadable" if counts.unreadable else "",
    ]
    more = "; ".join(part for part in rest if part)
    differ = f"{counts.differ} of {counts.looked_at} values differ from the kernel default"
    return differ + (f" ({more})" if more else "")


def _merged(origins: Iterable[Origin], *, with_default: bool) -> list[tuple[str, str, str, str]]:
    """Return one row per knob and value; instances with the same value share it."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for origin in origins:
        default = (origin.default or "") if with_default else ""
        key = (origin.knob, origin.value or "", default, _short_who(origin))
        grouped.setdefault(key, []).append(origin.address.partition("@")[2])
    rows = []
    for (knob, value, default, said), labels in grouped.items():
        more = len(labels) - _MOST_INSTANCES
        shown = ",".join(labels[:_MOST_INSTANCES]) + (f" +{more}" if more > 0 else "")
        rows.append((f"{knob}@{shown}" if labels[0] else knob, value, default, said))
    return rows


def _confounders(examination: Examination, width: int) -> str:
    if not examination.confounders:
        return "Disturbs measurements now: nothing found"
    rows = [
        ("!" if item.weight == "disturbs" else "?", item.found, item.advice)
        for item in sorted(examination.confounders, key=lambda item: item.weight != "disturbs")
    ]
    return "Disturbs measurements now (! does, ? may)\n" + table(("", "found", "what to do"), rows, width=width)


def _limits(examination: Examination, width: int) -> str:
    if not examination.limits:
        return "Cannot be measured or tuned here: nothing found"
    rows = [(item.what, item.why, item.lift) for item in examination.limits]
    return "Cannot be measured or tuned here\n" + table(("what", "why", "remedy"), rows, width=width)
