# SPDX-License-Identifier: Apache-2.0
"""The page, read by Python's own HTML parser: complete, closed to the outside, its references whole."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.judge.model.comparison import Comparison
from ktrial.kit.html_tags import Markup, render, tag
from ktrial.reports.blocks import Text
from ktrial.reports.html import html_page
from ktrial.reports.sections import report_sections
from ktrial.reports.sentences import headline
from tests.support.comparisons import HOSTILE, four_arms, hostile, two_arms
from tests.support.told_trials import a_trial, hostile_trial

#: Pages are made once.
pytestmark = pytest.mark.xdist_group("pages")
VOID = {"meta", "link", "br", "hr", "input", "col"}


class Page(HTMLParser):
    """All elements with their attributes, all text, and what script and style hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.raw:
            self.raw[self.open[-1]].append(data)
        else:
            self.text += data

    def all(self, name: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(name)) is not None]


MAKERS: dict[str, Callable[[], Comparison]] = {
    "two": lambda: two_arms(6),
    "four": lambda: four_arms(5),
    "bad": hostile,
    "trial": lambda: a_trial().told(),
    "bad trial": hostile_trial,
}


@cache
def page_text(name: str) -> str:
    return html_page(MAKERS[name]())


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_closed_to_the_outside(name: str) -> None:
    page = Page(page_text(name))
    assert not page.open
    assert len(page.raw["script"]) == len(page.raw["style"]) == 1
    policy = next(a["content"] or "" for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.raw[kind][0].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    for _, attributes in page.elements:
        assert "style" not in attributes
        assert not any(key.startswith("on") for key in attributes)
    for address in [*page.all("href"), *page.all("src"), *page.all("action"), *page.all("xlink:href")]:
        assert address.startswith("#") or address == "data:,"
    assert "@import" not in page.raw["style"][0]
    assert "url(" not in page.raw["style"][0]
    assert not re.search(
        r"innerHTML|insertAdjacent|document\.write|eval|Function\(|fetch|XMLHttp", page.raw["script"][0]
    )


@pytest.mark.parametrize("name", MAKERS)
def test_its_references_are_whole(name: str) -> None:
    page = Page(page_text(name))
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    wanted = {address[1:] for address in page.all("href") if address.startswith("#")}
    wanted |= {one for names in page.all("aria-labelledby") for one in names.split()}
    assert wanted <= set(ids)
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] in {1, 4}
    assert levels.count(1) == 1
    tags = [name for name, _ in page.elements]
    assert tags.count("figure") == tags.count("figcaption") > 3
    assert tags.count("svg") == sum(attributes.get("role") == "img" for _, attributes in page.elements)
    assert {"main", "nav", "header", "footer", "h1", "caption"} <= set(tags)


@pytest.mark.parametrize("name", ["bad", "bad trial"])
def test_hostile_text_is_text(name: str) -> None:
    page = Page(page_text(name))
    assert page.text.count("<script>alert(1)</script>") > 100
    assert not any(
        (ord(one) < 32 and one not in "\n") or 0x7F <= ord(one) < 0xA0 or one == "\u202e" for one in page.text
    )
    for element, _ in page.elements:
        assert element not in {"img", "iframe", "object", "embed", "form", "base"}
    assert "\x1b" in HOSTILE


def test_what_it_tells() -> None:
    text = Page(page_text("two")).text.replace("\xa0", " ")
    comparison = two_arms(6)
    order = [
        headline(comparison),
        "trade-off",
        "Each arm against stock",
        "Differences between arms",
        "Changed on purpose",
        "latency.p50 · primary",
        "that nobody declared",
        "began its runs 3 °C warmer",
        "a backup ran at that time",
        "ktrial compare stock wsf500 --primary memory-pressure.latency.p50",
        "sha256:4a1f0e",
    ]
    places = [text.index(one) for one in order]
    assert places == sorted(places)
    assert "20261121T214239Z-1f2e3d/7" in text


def test_many_arms_are_told_apart_or_left_to_tables() -> None:
    comparison = two_arms(4)
    first = comparison.outcomes[0]
    arms = [msgspec.structs.replace(first.arms[place % 2], arm=f"arm {place}") for place in range(300)]
    many: Comparison = msgspec.structs.replace(
        comparison,
        control="arm 0",
        arms=(),
        outcomes=(msgspec.structs.replace(first, arms=tuple(arms), contrasts=()),),
        without=None,
    )
    text = Page(html_page(many)).text
    assert "292 more arms are in the tables only" in text
    assert "arm 299" in text


@given(st.text())
def test_text_cannot_become_markup(text: str) -> None:
    page = Page(tag("p", text, title=text) + tag("hr"))
    assert [name for name, _ in page.elements] == ["p", "hr"]
    assert "\x1b" not in page.text


def test_markup_stays_markup() -> None:
    assert render([Markup("<b>"), "<b>", None, ["&"]]) == "<b>&lt;b&gt;&amp;"
    assert tag("input", type="checkbox", checked=True, hidden=False) == '<input type="checkbox" checked>'


def test_with_several_arms_each_thing_to_notice_names_its_arm() -> None:
    made = four_arms(5)
    first = made.outcomes[0]
    one = msgspec.structs.replace(first, contrasts=tuple(c for c in first.contrasts if c.arm == "mglru"))
    page = html_page(msgspec.structs.replace(made, outcomes=(one,)))
    noticed = page[page.index('class="notices"') :].partition("</ul>")[0]
    assert "<strong>mglru</strong>, " in noticed


def test_a_format_that_charts_some_outcomes_says_so() -> None:
    def notes(charted: int | None) -> list[str]:
        sections = {one.name: one for one in report_sections(two_arms(6), charted=charted)}
        texts = [str(one.line) for one in sections["outcomes"].blocks if isinstance(one, Text)]
        return [text for text in texts if "have charts" in text]

    count = len(two_arms(6).outcomes)
    assert notes(2) == [f"The 2 weightiest outcomes have charts; the other {count - 2} have only tables."]
    assert notes(count) == notes(None) == []
