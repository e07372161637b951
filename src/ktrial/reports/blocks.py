# SPDX-License-Identifier: Apache-2.0
"""What reports are built of: sections of paragraphs, lists, tables, code and pictures, without any markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Styled(NamedTuple):
    """Words that stand out, or lead to the heading or table called `to`.

    The style is `verdict`, `about` (an aside), `strong`, `code`, or what the words stand for: `doubt`, `better`.
    """

    text: str
    style: str = ""
    to: str | None = None


class Stack(NamedTuple):
    """A cell of several lines."""

    lines: Sequence[str]


Line = str | Styled | Sequence[str | Styled]
Cell = Line | Stack


class Text(NamedTuple):
    """A paragraph; a `note` is less important, a `doubt` more."""

    line: Line
    kind: str | None = None


class Heading(NamedTuple):
    """A title within a section; `anchor` is what leads to it."""

    line: Line
    anchor: str | None = None
    level: int = 3


class Items(NamedTuple):
    """A list; `kinds` says what each line stands for."""

    lines: Sequence[Line]
    kinds: Sequence[str] = ()


class Grid(NamedTuple):
    """A table. `numeric` columns hold numbers, `long` ones sentences."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Sequence[int] = ()
    long: Sequence[int] = ()


class Code(NamedTuple):
    """Lines that are shown as they are."""

    lines: Sequence[str]
    language: str = "sh"


class Pictures(NamedTuple):
    """The charts of one outcome, or those of the whole comparison that these modules draw (all others if none)."""

    outcome: str | None = None
    modules: Sequence[str] = ()


class Folded(NamedTuple):
    """What only some readers want; shown only when asked for, if the form of the report can do that."""

    title: str
    blocks: Sequence[Block]


Block = Text | Heading | Items | Grid | Code | Pictures | Folded


class ReportSection(NamedTuple):
    """A part of a report with a title; nothing is shown of one whose blocks show nothing."""

    name: str
    title: str
    blocks: Sequence[Block]
