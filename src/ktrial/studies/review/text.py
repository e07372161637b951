# SPDX-License-Identifier: Apache-2.0
"""Shows a review as a table (line, setting, state here, evidence) with each line's effect and next step below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ktrial.kit.tables import clean, paragraph, shorten
from ktrial.studies.review.model import OPEN_STATES, LineState, Review, ReviewedLine

_HEADERS = ("line", "setting", "here", "evidence")
_LONGEST_SETTING = 34
_LONGEST_STATE = 16
_MOST_IGNORED = 12
#: The names of the states in the summary, in its order.
_SUMMARY: tuple[tuple[str, tuple[LineState, ...]], ...] = (
    ("would change", ("would change",)),
    ("for the next boot", ("next boot",)),
    ("already set", ("already set",)),
    ("set again later", ("set again",)),
    ("without effect here", ("no effect",)),
    ("gone from this kernel", ("gone",)),
    ("not here", ("not here", "not offered", "read-only")),
    ("hidden without root", ("needs root",)),
    ("invalid", ("invalid",)),
    ("unknown to ktrial", ("unknown",)),
    ("not understood", ("not understood",)),
)


def review_json(found: Review) -> dict[str, object]:
    """Return the review as JSON, `ktrial.review/1`."""
    return {"schema": "ktrial.review/1", **msgspec.to_builtins(found)}


def review_text(found: Review, *, width: int) -> str:
    """Return the table, then a summary and what to do next."""
    rows = [_cells(line) for line in found.lines]
    wide = [max(len(cell) for cell in column) for column in zip(_HEADERS, *rows, strict=True)]
    widths = [wide[0], min(wide[1], _LONGEST_SETTING), min(wide[2], _LONGEST_STATE)]
    lines = [_row(_HEADERS, widths), "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * min(width, 100)]
    for line, cells in zip(found.lines, rows, strict=True):
        lines += [*_block(line, cells, widths, width), ""]
    lines += [paragraph(summary(found), width=width)]
    lines += [paragraph(text, width=width) for text in _notes(found)]
    return "\n".join([*lines, *_next_steps(found, width)]) + "\n"


def _cells(line: ReviewedLine) -> tuple[str, ...]:
    setting = (
        clean(line.setting) if line.setting is not None else f"({shorten(clean(line.text), _LONGEST_SETTING - 2)})"
    )
    return str(line.line), setting, _state(line), _evidence(line)


def _state(line: ReviewedLine) -> str:
    if line.state == "would change":
        return "now unknown" if line.now is None else shorten(f"now {line.now}", _LONGEST_STATE)
    if line.state == "gone" and line.until is not None:
        return f"gone after {line.until}"
    return line.state


def _evidence(line: ReviewedLine) -> str:
    if line.measured:
        return f"tried here: {line.measured[0].partition(' in ')[0]}"
    supported, claimed = (line.evidence.get(status, 0) for status in ("supported", "claimed"))
    counts = {"supported": supported, "claimed": claimed, "against": sum(line.evidence.values()) - supported - claimed}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = cells
    padded = [cell.ljust(width) for cell, width in zip(rest, widths[1:], strict=False)]
    return "  ".join([first.rjust(widths[0]), *padded, *rest[len(widths) - 1 :]]).rstrip()


def _block(line: ReviewedLine, cells: Sequence[str], widths: Sequence[int], width: int) -> Iterator[str]:
    """Yield the row of a line and, below it, its effect, its price and the command."""
    if len(cells[1]) <= widths[1]:
        yield _row(cells, widths)
    else:
        yield _row(cells[:2], widths)
        yield _row(("", "", *cells[2:]), widths)
    indent = " " * (widths[0] + 2)
    if line.what:
        yield paragraph(line.what, width=width, indent=indent)
    cost = line.security or line.price
    for label, text in (
        ("Dangerous", cost if line.dangerous else None),
        ("Security", None if line.dangerous else line.security),
        ("Here", _here(line)),
        ("Tried here", "; ".join(line.measured)),
    ):
        if text:
            yield paragraph(f"{label}: {text}", width=width, indent=indent)
    if line.next:
        yield f"{indent}{line.next}"


def _here(line: ReviewedLine) -> str | None:
    if line.state == "next boot" and line.now is not None:
        return f"on the command line of this boot: {line.now}"
    if line.state == "unknown" and line.now is not None:
        return f"now {line.now}; {line.why}"
    if line.now is not None and len(f"now {line.now}") > _LONGEST_STATE:
        return f"now {line.now}" + (f"; {line.why}" if line.why else "")
    return line.why


def summary(found: Review) -> str:
    """Return one sentence that counts the settings by state."""
    counts = Counter(line.state for line in found.lines)
    parts = [f"{count} {name}" for name, states in _SUMMARY if (count := sum(counts[state] for state in states))]
    total = len(found.lines)
    return f"{total} setting{'s'[: total != 1]}: {', '.join(parts)}. Nothing was written."


def _notes(found: Review) -> Iterator[str]:
    if found.ignored:
        more = ", …" if len(found.ignored) > _MOST_IGNORED else ""
        numbers = ", ".join(map(str, found.ignored[:_MOST_IGNORED])) + more
        several = "s" if len(found.ignored) > 1 else ""
        yield f"{len(found.ignored)} line{several} without a setting: {numbers}."


def _next_steps(found: Review, width: int) -> list[str]:
    steps = []
    if any(line.state in OPEN_STATES for line in found.lines):
        steps.append("Each `try` compares one setting with the machine as it is, and restores the old value.")
    if found.remaining:
        without = ", without the dangerous ones" if found.left_out else ""
        steps.append(f"Add `-o FILE` to write the settings that would change something{without}, as a profile.")
    return ["", paragraph(" ".join(steps), width=width)] if steps else []
