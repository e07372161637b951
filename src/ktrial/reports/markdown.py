# SPDX-License-Identifier: Apache-2.0
"""Render a comparison as Markdown that reads well as plain text and on code hosting sites.

`step_summary` renders the short form that a build server shows beside a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktrial.judge.model.comparison import Comparison
from ktrial.kit.tables import clean
from ktrial.reports.blocks import (
    NO_SUPPLEMENT,
    Block,
    Cell,
    Code,
    Folded,
    Grid,
    Heading,
    Items,
    Line,
    Pictures,
    Stack,
    Styled,
    Supplement,
    Text,
)
from ktrial.reports.charts.drawing import MARKS
from ktrial.reports.order import asked_only
from ktrial.reports.sections import arms_grid, findings, notice_list, report_sections, tier_grids, verdict_grid

_MARKS: Mapping[str, str] = {str(word): mark for word, mark in MARKS.items()}
#: Outcome -> (title, address) of its pictures; the key "" holds those of the whole comparison.
Addresses = Mapping[str, Sequence[tuple[str, str]]]


def step_summary(comparison: Comparison) -> str:
    """Return the answer, noticeable changes, verdicts, figures of each arm, and findings as Markdown."""
    comparison = asked_only(comparison)
    blocks: list[Block] = [notice_list(comparison), verdict_grid(comparison), *tier_grids(comparison)]
    for outcome in comparison.outcomes:
        blocks += [Heading(outcome.name, level=4), arms_grid(outcome)]
    if lists := findings(comparison):
        blocks += [Heading("Findings", level=4), *lists]
    return _join_parts([*_head(comparison, 3), *_texts(blocks, {})])


def markdown(comparison: Comparison, charts: Addresses | None = None, more: Supplement = NO_SUPPLEMENT) -> str:
    pictures = charts or {}
    parts = _head(comparison, 1)
    if comparison.accepted is not None:
        parts.append(f"Compared although refused: {escape(comparison.accepted)}")
    parts += _images(pictures.get("", ()))
    for section in report_sections(comparison, more):
        if texts := list(_texts(section.blocks, pictures)):
            parts += [f"## {escape(section.title)}", *texts]
    return _join_parts(parts)


def _join_parts(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"


def _head(comparison: Comparison, level: int) -> list[str]:
    return [
        f"{'#' * level} {escape(comparison.title)}",
        f"**{escape(comparison.answer)}**",
        f"Scope: {escape(comparison.scope)}.",
    ]


def _texts(blocks: Iterable[Block], pictures: Addresses) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(line):
                yield _line(line)
            case Heading(line, _, level):
                yield f"{'#' * level} {_line(line)}"
            case Items(lines):
                yield "\n".join(f"- {_line(line)}" for line in lines)
            case Grid():
                yield f"{escape(block.caption)}\n\n{_table(block)}"
            case Code(lines, language):
                yield code_block(lines, language)
            case Folded(_, inner):
                yield from _texts(inner, pictures)
            case Pictures(outcome) if outcome is not None:
                yield from _images(pictures.get(outcome, ()))


def _images(pictures: Sequence[tuple[str, str]]) -> list[str]:
    return [f"![{escape(title)}]({address})" for title, address in pictures]


def _line(line: Line) -> str:
    if isinstance(line, Styled):
        return _styled(line)
    return escape(line) if isinstance(line, str) else _spaced(line)


def _spaced(pieces: Sequence[str | Styled]) -> str:
    """Return the pieces with the blanks between them, which `escape` strips from each piece."""
    whole = ""
    for piece in pieces:
        text = piece if isinstance(piece, str) else piece.text
        before, after = (" " if end.isspace() else "" for end in (text[:1], text[-1:]))
        made = _line(piece)
        whole += f"{before}{made}{after}" if made else before
    return whole.strip()


def _styled(one: Styled) -> str:
    text = escape(one.text)
    match one.style:
        case "verdict":
            return f"{_MARKS[one.text]} {text}"
        case "about":
            return f"({text})" if text else ""
        case "code" if re.fullmatch(r"[\w .:-]+", one.text):
            return f"`{one.text}`"
        case "" | "role" | "code" | "note":
            return text
    return f"**{text}**"


def _table(grid: Grid) -> str:
    lines = [
        "| " + " | ".join(escape(name) for name in grid.headers) + " |",
        "|" + "|".join(" ---: " if at in grid.numeric else " --- " for at in range(len(grid.headers))) + "|",
    ]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in grid.rows]
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    line = "; ".join(cell.lines) if isinstance(cell, Stack) else cell
    return "-" if line == "-" else _line(line)  # no list begins within a cell, so a dash alone needs no escape


#: Characters with a meaning in Markdown, in HTML within it, or on the site that shows it.
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&#@$]|(?<=[a-zA-Z]):(?=//)|(?<=www)\.|^(?:[-+](?=\s|$)|-(?=-)|\d+[.)](?=\s|$))")
_ENTITIES = {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "#": "&#35;",
    "@": "&#64;",
    ":": "&#58;",
    ".": "&#46;",
    "$": "&#36;",
}


def escape(text: str) -> str:
    """Escape foreign text so that it contains no markup, link, mention or line break."""
    return _SPECIAL.sub(lambda found: _ENTITIES.get(found[0], _backslashed(found[0])), clean(text).strip())


def _backslashed(text: str) -> str:
    return f"{text[:-1]}\\{text[-1]}"


def code_block(lines: Sequence[str], language: str = "sh") -> str:
    """Return the lines within a fence that none of them can close."""
    shown = [clean(line) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((fence + language, *shown, fence))
