# SPDX-License-Identifier: Apache-2.0
"""The building blocks of reports, without any markup: sections of paragraphs, lists, tables, code and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ktrial.reports.charts.drawing import Chart, Style


class Styled(NamedTuple):
    """Highlighted text, or a link to the heading or table with the anchor `to`.

    The style is `verdict`, `about` (an aside), `strong`, `code`, or the meaning of the text: `doubt`, `better`.
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
    """A paragraph; the kind `note` makes it less prominent, `doubt` more."""

    line: Line
    kind: str | None = None


class Heading(NamedTuple):
    """A title within a section; links refer to its `anchor`."""

    line: Line
    anchor: str | None = None
    level: int = 3


class Items(NamedTuple):
    """A list; `kinds` gives the meaning of each line."""

    lines: Sequence[Line]
    kinds: Sequence[str] = ()


class Grid(NamedTuple):
    """A table; `numeric` columns hold numbers, `long` columns hold sentences."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Sequence[int] = ()
    long: Sequence[int] = ()


class Code(NamedTuple):
    """Lines that are shown unchanged."""

    lines: Sequence[str]
    language: str = "sh"


class Pictures(NamedTuple):
    """The charts of one outcome, or those charts of the whole comparison that `modules` draw.

    Without outcome and modules, they are the charts of the whole comparison that no other block shows.
    """

    outcome: str | None = None
    modules: Sequence[str] = ()


class OwnChart(NamedTuple):
    """A chart that belongs to this section alone; `draw` makes it for a style."""

    draw: Callable[[Style], Chart]


class Folded(NamedTuple):
    """Details for some readers, collapsed if the format of the report can do that."""

    title: str
    blocks: Sequence[Block]


Block = Text | Heading | Items | Grid | Code | Pictures | OwnChart | Folded


class ReportSection(NamedTuple):
    """A part of a report with a title; it is omitted if its blocks show nothing."""

    name: str
    title: str
    blocks: Sequence[Block]


class Supplement(NamedTuple):
    """What a report says beyond its comparison: a headline of its own, and more sections after the machines."""

    headline: str | None = None
    sections: Sequence[ReportSection] = ()


NO_SUPPLEMENT = Supplement()
