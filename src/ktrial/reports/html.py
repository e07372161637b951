# SPDX-License-Identifier: Apache-2.0
"""Render a comparison as a self-contained HTML file: no network, no plug-in, readable without its script.

The page's security policy allows only its own style and script, by their hashes; charts are SVG in the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence

from ktrial.judge.model.comparison import Comparison
from ktrial.kit.html_tags import Markup, Part, render, tag
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
    OwnChart,
    Pictures,
    ReportSection,
    Stack,
    Styled,
    Supplement,
    Text,
)
from ktrial.reports.charts import comparison_charts, outcome_charts
from ktrial.reports.charts.drawing import MARKS, PAGE, VERDICT_KEYS, Cast, Chart, Style, cast_of, label
from ktrial.reports.charts.svg import inline_svg
from ktrial.reports.order import asked_only, by_weight
from ktrial.reports.page.script import SCRIPT
from ktrial.reports.page.style import STYLE
from ktrial.reports.page.tables import table, twin
from ktrial.reports.sections import FINDINGS, PLACED, anchors, report_sections
from ktrial.reports.sentences import count_words, doubts_of, headline

_HELP = "Point at a mark, or step through a chart with the arrow keys, to see its row; headings of tables sort them."
_WIDE = 900
_NARROW = 340
_BESIDE = 400
_EFFECTS = ("forest", "differences")
_MARKS: Mapping[str, str] = {str(word): mark for word, mark in MARKS.items()}
_VERDICTS: Mapping[str, str] = {str(word): key for word, key in VERDICT_KEYS.items()}
#: Element and class of each style that is not a span of the same name.
_FORMS: Mapping[str, tuple[str, str | None]] = {
    "code": ("code", None),
    "strong": ("strong", None),
    "better": ("strong", "better"),
    "worse": ("strong", "worse"),
    "trade-off": ("strong", "doubt"),
}
#: The most outcomes that get charts, and the most points in all of these charts together.
_MOST_CHARTED = 12
_ALL_POINTS = 7500
_MOST_POINTS = 1200
_FEWEST_POINTS = 200


def html_page(comparison: Comparison, more: Supplement = NO_SUPPLEMENT) -> str:
    body = _Body(comparison, more)
    sections = body.content()
    has_values = any(outcome.arms for outcome in comparison.outcomes)
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", comparison.title),
        tag("style", Markup(STYLE)),
    )
    content = (
        tag("a", "To the verdicts", href="#verdicts", class_="skip"),
        _header(comparison, body, sections, more.headline or headline(comparison)),
        tag(
            "main",
            _arms(body.cast) if has_values else None,
            [
                tag("section", tag("h2", one.title, id=one.name), parts, aria_labelledby=one.name)
                for one, parts in sections
            ],
        ),
        tag("footer", tag("p", f"{_HELP} Made by ktrial from {comparison.schema}; this file loads nothing.")),
        tag("div", id="said", class_="only-heard", aria_live="polite"),
        tag("script", Markup(SCRIPT)),
    )
    page = tag("html", tag("head", head), tag("body", content, class_="no-script"), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _policy() -> str:
    style, script = (policy_hash(text) for text in (STYLE, SCRIPT))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def policy_hash(text: str) -> str:
    """Return the SHA-256 of a text in the notation of a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _header(
    comparison: Comparison, body: _Body, sections: list[tuple[ReportSection, list[Part]]], answer: str
) -> Markup:
    links = [tag("li", tag("a", section.title, href=f"#{section.name}")) for section, _ in sections]
    accepted = comparison.accepted
    return tag(
        "header",
        tag("p", comparison.title, class_="title"),
        tag("h1", Markup(render(answer).replace(" %", "&nbsp;%")), class_="answer"),
        tag("p", f"Scope: {comparison.scope}.", _doubts(comparison), class_="scope"),
        tag("p", tag("span", "Compared although refused", class_="refuse"), f": {accepted}") if accepted else None,
        body.headline(),
        tag("nav", tag("ul", links), aria_label="Contents"),
    )


def _doubts(comparison: Comparison) -> Part:
    """Return the number of doubts as a link to the findings; None if there is no doubt."""
    number = len(doubts_of(comparison))
    if not number:
        return None
    return [" ", tag("a", count_words(number, "doubt", "doubts"), href=f"#{FINDINGS}", class_="doubt"), "."]


def _arms(cast: Cast) -> Markup:
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", value=number, checked=True),
            tag("span", label(arm, 40)),
            class_=f"k{number}",
        )
        for number, arm in enumerate(cast.arms)
    ]
    return tag("fieldset", tag("legend", "Arms in charts"), boxes, class_="arms")


class _Body:
    """Renders the content of a page and numbers its figures."""

    def __init__(self, comparison: Comparison, more: Supplement) -> None:
        self._sections = report_sections(comparison, more, charted=_MOST_CHARTED)
        comparison = asked_only(comparison)
        self._figures = 0
        self.cast = cast_of(comparison)
        wide, narrow, beside = (Style(palette=PAGE, width=width, titled=False) for width in (_WIDE, _NARROW, _BESIDE))
        self._styles = (wide, narrow)
        self._wide, self._narrow = (comparison_charts(comparison, style, PLACED) for style in self._styles)
        self._beside = comparison_charts(comparison, beside, without=PLACED)
        charted = by_weight(comparison.outcomes)[:_MOST_CHARTED]
        most = max(_FEWEST_POINTS, min(_MOST_POINTS, _ALL_POINTS // max(1, len(charted))))
        style = Style(palette=PAGE, width=_BESIDE, most_points=most, titled=False)
        self._charts = {one.name: outcome_charts(comparison, one, style) for one in charted}
        places = anchors(comparison)
        with_runs = (name for name, charts in self._charts.items() if any(chart.name == "runs" for chart in charts))
        self._runs = {name: f"{places[name]}-runs" for name in with_runs}
        self._targets = {*places.values(), *self._runs.values()}
        if any(section.name == FINDINGS for section in self._sections):
            self._targets.add(FINDINGS)

    def headline(self) -> list[Part]:
        """Return the charts of all effects, shown beside the answer, for wide and for narrow screens."""
        return self._charts_of(_EFFECTS)

    def content(self) -> list[tuple[ReportSection, list[Part]]]:
        """Return the sections that show something, with their parts."""
        every = [(section, self._parts_of(section.blocks)) for section in self._sections]
        return [(section, parts) for section, parts in every if parts]

    def _parts_of(self, blocks: Sequence[Block]) -> list[Part]:
        return [part for block in blocks for part in self._parts(block)]

    def _parts(self, block: Block) -> list[Part]:
        match block:
            case Text(line, kind):
                return [tag("p", self._line(line), class_=kind)]
            case Heading(line, anchor, level):
                return [tag(f"h{level}", self._line(line), id=anchor)]
            case Items(lines, kinds):
                of = [*(f"l-{kind}" for kind in kinds), *[None] * (len(lines) - len(kinds))]
                items = [tag("li", self._line(line), class_=one) for line, one in zip(lines, of, strict=True)]
                return [tag("ul", items, class_="notices" if kinds else None)]
            case Grid():
                rows = [[self._cell(cell) for cell in row] for row in block.rows]
                return [table(block.caption, block.headers, rows, numeric=block.numeric, long=block.long, stack=True)]
            case Code(lines):
                return [tag("pre", tag("code", Markup("\n".join(map(render, lines)))), tabindex=0)]
            case Folded(title, blocks):
                return [tag("details", tag("summary", title), self._parts_of(blocks), class_="small")]
        return self._pictures(block)

    def _cell(self, cell: Cell) -> Part:
        return Markup("<br>".join(map(render, cell.lines))) if isinstance(cell, Stack) else self._line(cell)

    def _line(self, line: Line) -> Part:
        if isinstance(line, str):
            return line
        if not isinstance(line, Styled):
            return [self._line(piece) for piece in line]
        text: Part = line.text
        if line.to in self._targets:
            text = tag("a", line.text, href=f"#{line.to}")
        if not line.style:
            return text
        name, kind = _FORMS.get(line.style, ("span", line.style))
        if line.style == "verdict":
            text = [tag("span", _MARKS[line.text], aria_hidden="true"), " ", text]
            kind = f"verdict {_VERDICTS[line.text]}"
        return tag(name, text, class_=kind)

    def _pictures(self, block: Pictures | OwnChart) -> list[Part]:
        if isinstance(block, OwnChart):
            wide, narrow = map(block.draw, self._styles)
            return [self._figure(wide, narrow)]
        if block.modules:
            return self._charts_of(block.modules)
        if block.outcome is None:
            figures = [self._figure(chart, None) for chart in self._beside]
        else:
            runs = self._runs.get(block.outcome)
            charts = self._charts.get(block.outcome, ())
            figures = [self._figure(chart, None, runs if chart.name == "runs" else None) for chart in charts]
        return [tag("div", figures, class_="charts")] if figures else []

    def _charts_of(self, modules: Sequence[str]) -> list[Part]:
        pairs = zip(self._wide, self._narrow, strict=True)
        return [self._figure(*pair) for pair in pairs if pair[0].name.partition("-")[0] in modules]

    def _figure(self, chart: Chart, narrow: Chart | None, anchor: str | None = None) -> Markup:
        self._figures += 1
        prefix = f"f{self._figures}"
        name = f"{prefix}-title"
        if narrow is None:
            plots = [_plot(chart, prefix, name, "")]
        else:
            plots = [_plot(chart, prefix, name, " wide"), _plot(narrow, f"{prefix}n", name, " narrow")]
        return tag(
            "figure",
            tag("p", chart.title, class_="chart", id=name),
            plots,
            tag("figcaption", chart.caption),
            tag("details", tag("summary", f"{chart.title} as a table"), twin(chart, self.cast), id=anchor),
            class_="marks" if chart.marks else None,
        )


def _plot(chart: Chart, prefix: str, name: str, kind: str) -> Markup:
    drawn = inline_svg(chart, prefix).replace(f"{prefix}-title", name, 1)
    return tag("div", Markup(drawn), class_=f"plot{kind}", role="group", aria_labelledby=name)
