# SPDX-License-Identifier: Apache-2.0
"""What doctor found, at a glance in 80 columns, and as JSON."""

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
    """`{"schema": "ktrial.doctor/1", …}`."""
    return {"schema": "ktrial.doctor/1", **msgspec.to_builtins(examination)}


def doctor_text(examination: Examination, *, width: int) -> str:
    """The machine, what is left undone, what differs and who set it, what disturbs now, what cannot be done here."""
    blocks = ["\n".join(labelled(label, text, width=width, label_columns=8) for label, text in examination.machine)]
    if examination.unsettled:
        left = (paragraph(f"- {sentence}", width=width) for sentence in examination.unsettled)
        blocks.append("\n".join(["Left undone by ktrial", *left]))
    blocks.append(_differences(examination, width))
    blocks.append(_confounders(examination, width))
    blocks.append(_limits(examination, width))
    notes = [*examination.untold, *(f"line not understood: {line}" for line in examination.unread)]
    if notes:
        blocks.append("\n".join(["Could not be told", *(paragraph(f"- {note}", width=width) for note in notes)]))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _differences(examination: Examination, width: int) -> str:
    lines = [paragraph(f"Not at the kernel's default: {_counts_text(examination.counts)}", width=width)]
    if examination.differ:
        rows = [
            (name, value, default, said)
            for name, value, default, said in _merged(examination.differ, with_default=True)
        ]
        lines.append(table(("knob", "now", "default", "set by"), rows, width=width))
        if any(origin.verdict == "unknown-writer" for origin in examination.differ):
            unseen = ", or what could not be told (at the end)" if examination.untold else ""
            did = f"unknown writer: no file here names the value; a program, image or driver did it{unseen}"
            lines.append(paragraph(did, width=width))
    if examination.named:
        rows_named = [(name, value, said) for name, value, _, said in _merged(examination.named, with_default=False)]
        lines += ["", "Set by somebody, default not known", table(("knob", "now", "set by"), rows_named, width=width)]
    return "\n".join(lines)


def _short_who(origin: Origin) -> str:
    """Return who set it, short enough for a column: the place says by itself what it is."""
    if origin.set_by is None:
        return "unknown writer" if origin.verdict == "unknown-writer" else who(origin)
    return {"command-line": "kernel command line", "ktrial": f"ktrial, {origin.set_by.place}"}.get(
        origin.set_by.source, origin.set_by.place
    )


def _counts_text(counts: Counts) -> str:
    rest = [
        f"{counts.default_unknown} whose default is not known" if counts.default_unknown else "",
        f"{counts.unreadable} unreadable" if counts.unreadable else "",
    ]
    more = "; ".join(part for part in rest if part)
    return f"{counts.differ} of {counts.looked_at} values" + (f" ({more})" if more else "")


def _merged(origins: Iterable[Origin], *, with_default: bool) -> list[tuple[str, str, str, str]]:
    """Return one row per knob and value: instances that agree share a row."""
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
        return "Disturbs measuring now: nothing found"
    rows = [
        ("!" if item.weight == "disturbs" else "?", item.found, item.advice)
        for item in sorted(examination.confounders, key=lambda item: item.weight != "disturbs")
    ]
    return "Disturbs measuring now (! does, ? may)\n" + table(("", "found", "what to do"), rows, width=width)


def _limits(examination: Examination, width: int) -> str:
    if not examination.limits:
        return "Cannot be done here: nothing found"
    rows = [(item.what, item.why, item.lift) for item in examination.limits]
    return "Cannot be measured or tuned here\n" + table(("what", "why", "what would lift it"), rows, width=width)
