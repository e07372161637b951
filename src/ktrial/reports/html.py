# SPDX-License-Identifier: Apache-2.0
"""A comparison as one HTML file that needs nothing else: no network, no browser plug-in, no script to be read.

The page's policy allows its own style and script by their hashes and nothing else; charts are SVG in the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.kit.html_tags import Markup, Part, render, tag
from ktrial.reports.charts import comparison_charts, outcome_charts
from ktrial.reports.charts.drawing import PAGE, Cast, Chart, Style, cast_of, label
from ktrial.reports.charts.svg import inline_svg
from ktrial.reports.order import asked_only, by_weight, explored
from ktrial.reports.page.script import SCRIPT
from ktrial.reports.page.sections import (
    all_findings,
    exclusions,
    notice_list,
    outcome_text,
    same_and_different,
    sources,
    state_changes,
)
from ktrial.reports.page.style import STYLE
from ktrial.reports.page.tables import machines_table, tiers_table, twin, verdict_table
from ktrial.reports.page.trial import arms_parts, course_parts, explored_parts

_HELP = "Point at a mark, or step through a chart with the arrow keys, to see its row; headings of tables sort them."
_WIDE = 900
_NARROW = 340
_BESIDE = 400
_EFFECTS = ("forest", "differences")
_OF_SECTIONS = ("course", "visits", "response", "machines")
#: How many outcomes have charts, and how many points all of them together.
_MOST_CHARTED = 12
_ALL_POINTS = 7500
_MOST_POINTS = 1200
_FEWEST_POINTS = 200


def html_page(comparison: Comparison) -> str:
    others = explored(comparison)
    comparison = asked_only(comparison)
    body = _Body(comparison, others)
    sections = body.sections()
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
        _header(comparison, body, sections),
        _arms(body.cast),
        tag("main", [_section(name, title, parts) for name, title, parts in sections]),
        tag("footer", tag("p", f"{_HELP} Made by ktrial from {comparison.schema}; this file loads nothing.")),
        tag("div", id="said", class_="only-heard", aria_live="polite"),
        tag("script", Markup(SCRIPT)),
    )
    page = tag("html", tag("head", head), tag("body", content, class_="no-script"), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _policy() -> str:
    style, script = (hashed(text) for text in (STYLE, SCRIPT))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def hashed(text: str) -> str:
    """As a policy allows it: by its SHA-256."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


Section = tuple[str, str, list[Part]]


def _section(name: str, title: str, parts: list[Part]) -> Markup:
    return tag("section", tag("h2", title, id=name), parts, aria_labelledby=name)


def _header(comparison: Comparison, body: _Body, sections: list[Section]) -> Markup:
    links = [tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in sections]
    accepted = comparison.accepted
    return tag(
        "header",
        tag("p", comparison.title, class_="title"),
        tag("h1", Markup(render(comparison.answer).replace(" %", "&nbsp;%")), class_="answer"),
        tag("p", f"Scope: {comparison.scope}.", class_="scope"),
        tag("p", tag("span", "Compared although refused", class_="refuse"), f": {accepted}") if accepted else None,
        body.headline(),
        tag("nav", tag("ul", links), aria_label="Contents"),
    )


def _arms(cast: Cast) -> Markup:
    boxes = [
        tag("label", tag("input", type="checkbox", value=number, checked=True), label(arm, 40), class_=f"k{number}")
        for number, arm in enumerate(cast.arms)
    ]
    return tag("fieldset", tag("legend", "Arms in charts"), boxes, class_="arms")


class _Body:
    """The content of one page; numbers its figures."""

    def __init__(self, comparison: Comparison, others: Sequence[OutcomeComparison]) -> None:
        self._comparison = comparison
        self._others = others
        self._figures = 0
        self.cast = cast_of(comparison)
        placed = (*_EFFECTS, *_OF_SECTIONS)
        wide, narrow, beside = (Style(palette=PAGE, width=width, titled=False) for width in (_WIDE, _NARROW, _BESIDE))
        self._wide, self._narrow = (comparison_charts(comparison, style, placed) for style in (wide, narrow))
        self._beside = comparison_charts(comparison, beside, without=placed)

    def headline(self) -> list[Markup]:
        """The pictures beside the answer: all effects, in a form for wide and one for narrow screens."""
        pairs = zip(self._wide, self._narrow, strict=True)
        return [self._figure(*pair) for pair in pairs if pair[0].name in _EFFECTS]

    def sections(self) -> list[Section]:
        """All sections that have something to say, in the order of the page."""
        comparison = self._comparison
        charted = by_weight(comparison.outcomes)[:_MOST_CHARTED]
        places = {outcome.name: f"outcome-{place + 1}" for place, outcome in enumerate(by_weight(comparison.outcomes))}
        found: list[Section] = [
            ("notice", "What you would notice", [notice_list(comparison)]),
            ("verdicts", "Verdicts", [verdict_table(comparison, places)]),
            *self._trial(),
            ("machines", "Machine by machine", self._machines()),
            ("tiers", "Tiers", [tiers] if (tiers := tiers_table(comparison, places)) is not None else []),
            ("same", "What was the same, and what was not", same_and_different(comparison)),
            ("together", "Outcomes together", self._together()),
            ("outcomes", "Outcomes one by one", self._outcomes(charted, places)),
            ("explored", "Other outcomes (exploratory)", explored_parts(self._others)),
            ("state", "Changes of the tunable state", state_changes(comparison)),
            ("findings", "Findings", all_findings(comparison)),
            ("exclusions", "Left out afterwards", exclusions(comparison) if comparison.exclusions else []),
            ("sources", "Where it comes from", sources(comparison)),
        ]
        return [section for section in found if section[2]]

    def _machines(self) -> list[Part]:
        found = machines_table(self._comparison)
        return [] if found is None else [found, *self._pictures("machines")]

    def _together(self) -> list[Part]:
        figures = [self._figure(chart, None) for chart in self._beside]
        return [tag("div", figures, class_="charts")] if figures else []

    def _trial(self) -> list[Section]:
        trial = self._comparison.trial
        if trial is None:
            return []
        return [
            ("values", "Value by value", self._pictures("response")),
            ("course", "How it went", [*course_parts(trial, self._comparison), *self._pictures("course", "visits")]),
            ("arms", "What each arm came to", arms_parts(trial, self._comparison)),
        ]

    def _pictures(self, *names: str) -> list[Part]:
        pairs = zip(self._wide, self._narrow, strict=True)
        return [self._figure(*pair) for pair in pairs if pair[0].name.partition("-")[0] in names]

    def _outcomes(self, charted: list[OutcomeComparison], places: dict[str, str]) -> list[Part]:
        most = max(_FEWEST_POINTS, min(_MOST_POINTS, _ALL_POINTS // max(1, len(charted))))
        style = Style(palette=PAGE, width=_BESIDE, most_points=most, titled=False)
        parts: list[Part] = []
        left = len(self._comparison.outcomes) - len(charted)
        if left > 0:
            told = f"Charts are drawn of the {len(charted)} weightiest outcomes; of {left} more there are tables."
            parts.append(tag("p", told, class_="note"))
        for place, outcome in enumerate(by_weight(self._comparison.outcomes)):
            parts.append(
                tag("h3", outcome.name, tag("span", f" · {outcome.role}", class_="role"), id=places[outcome.name])
            )
            charts = outcome_charts(self._comparison, outcome, style) if place < len(charted) else ()
            runs = f"{places[outcome.name]}-runs" if any(chart.name == "runs" for chart in charts) else None
            parts += outcome_text(outcome, runs)
            if charts:
                figures = [self._figure(chart, None, runs if chart.name == "runs" else None) for chart in charts]
                parts.append(tag("div", figures, class_="charts"))
        return parts

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
            tag("h4", chart.title, id=name),
            plots,
            tag("figcaption", chart.caption),
            tag("details", tag("summary", f"{chart.title} as a table"), twin(chart, self.cast), id=anchor),
            class_="marks" if chart.marks else None,
        )


def _plot(chart: Chart, prefix: str, name: str, kind: str) -> Markup:
    drawn = inline_svg(chart, prefix).replace(f"{prefix}-title", name, 1)
    return tag("div", Markup(drawn), class_=f"plot{kind}", role="group", aria_labelledby=name)
