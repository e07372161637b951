# SPDX-License-Identifier: Apache-2.0
"""Text and JSON of states and of their differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ktrial.kit.tables import labelled, paragraph, table
from ktrial.tuning.state.diff import StateDifference, Unclear, ValueDifference
from ktrial.tuning.state.state import MachineState

_SHOWN_UNCLEAR = 5
_LONGEST = 120


def state_text(state: MachineState, *, width: int) -> str:
    unreadable = [path for path, value in state.files.items() if value.unreadable is not None]
    lines = [
        labelled("state", state.sha256, width=width),
        labelled("knobs", str(len(state.knobs)), width=width),
        labelled("files", f"{len(state.files)}, {len(unreadable)} of them unreadable", width=width),
        labelled("left out", f"{len(state.left_out)} that are not settings (--json says why)", width=width),
    ]
    lines += [labelled("not seen", f"{folder}: {why}", width=width) for folder, why in sorted(state.hidden.items())]
    label_columns = max(map(len, state.facts), default=0) + 2
    for name, value in sorted(state.facts.items()):
        shown = value.text if value.words is None else " ".join(value.words) or "none"
        told = shown if shown is not None else f"none: {value.absent}" if value.absent else f"?: {value.unreadable}"
        lines.append(labelled(name, _short(told), width=width, label_columns=label_columns))
    return "\n".join(lines) + "\n"


def difference_json(found: StateDifference, sides: tuple[str, str], digests: tuple[str, str]) -> dict[str, Any]:
    return {
        "schema": "ktrial.state-difference/1",
        "before": {"name": sides[0], "sha256": digests[0]},
        "after": {"name": sides[1], "sha256": digests[1]},
        **msgspec.to_builtins(found),
    }


def difference_text(found: StateDifference, sides: tuple[str, str], notes: Sequence[str], *, width: int) -> str:
    """Return a text with the undeclared differences, then the declared ones, then what could not be compared."""
    parts = []
    if found.undeclared:
        parts.append(_block(_count(found.undeclared, "undeclared difference"), found.undeclared, width))
    if found.declared:
        parts.append(_block(_count(found.declared, "declared difference"), found.declared, width))
    if not parts:
        parts.append(paragraph(f"{sides[0]} and {sides[1]} do not differ.", width=width))
    if found.unclear:
        parts.append(_unclear(found.unclear, width))
    if found.left_out:
        parts.append(
            paragraph(
                f"Left out: {_count(tuple(found.left_out), 'file')} that the kernel changes itself or that are not"
                " settings (--json says which and why).",
                width=width,
            )
        )
    parts += [paragraph(note, width=width) for note in notes]
    return "\n\n".join(parts) + "\n"


def _block(title: str, found: Iterable[ValueDifference], width: int) -> str:
    found = tuple(found)
    headers = ["what", "before", "after"]
    rows = [[one.name, _side(one.before), _side(one.after)] for one in found]
    if all(one.declared is not None for one in found):
        headers.append("declared by")
        rows = [[*row, one.declared or ""] for row, one in zip(rows, found, strict=True)]
    why = [paragraph(f"{one.name}: {one.note}", width=width) for one in found if one.note is not None]
    return "\n".join([f"{title}:", table(headers, rows, width=width), *why])


def _unclear(found: Sequence[Unclear], width: int) -> str:
    lines = [paragraph(f"Could not compare {len(found)}:", width=width)]
    lines += [paragraph(f"{one.name}: {one.why}", width=width, indent="  ") for one in found[:_SHOWN_UNCLEAR]]
    if len(found) > _SHOWN_UNCLEAR:
        lines.append(f"  … {len(found) - _SHOWN_UNCLEAR} more (--json shows all)")
    return "\n".join(lines)


def _side(text: str | None) -> str:
    if text is None:
        return "(absent)"
    return _short(" ".join(text.split())) or "(empty)"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _count(found: Sequence[object], what: str) -> str:
    return f"{len(found)} {what}{'s'[: len(found) != 1]}"
