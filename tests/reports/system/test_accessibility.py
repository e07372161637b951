# SPDX-License-Identifier: Apache-2.0
"""What people who do not see a page, or no colours, get of it: axe-core finds nothing, charts have names and tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.fleet.page import fleet_html
from ktrial.judge.model.verdict import Verdict
from ktrial.reports.charts.drawing import MARKS
from ktrial.reports.html import html_page
from ktrial.watch.diagnosis.page import diagnosis_page
from tests.support.axe import RECOMMENDED, WCAG, fetch_axe, needs_npm, violations
from tests.support.chromium import Chromium
from tests.support.comparisons import hostile
from tests.support.fleets import began, fleet_page, fleet_trial, racks
from tests.support.told_trials import a_trial
from tests.watch.unit.test_diagnose_page import found

pytestmark = pytest.mark.xdist_group("accessibility")
DOCS = Path(__file__).resolve().parents[3] / "docs"
DESK = 1100
PAGES = ("trial", "hostile", "diagnosis", "fleet")
#: One page of each kind: the first, tables, transcripts, generated, pictures, the search.
OF_SITE = ("index", "ab", "reference/commands", "reference/knobs-build", "watermarks", "search")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fetch_axe(tmp_path_factory.mktemp("axe"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    stopped = began(fleet_trial(subgroups=("inventory.rack",), waves=("100%",)), racks(8))
    texts = {
        "trial": html_page(a_trial().told()),
        "hostile": html_page(hostile()),
        "fleet": fleet_page(fleet_html, stopped, harm=lambda _: -0.5, away={"m1": 5000}),
        "diagnosis": diagnosis_page([(found("flight"), ("a reason",)), (found("tuned"), ())]),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@needs_npm
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(browser: Chromium, axe: str, pages: dict[str, Path], name: str, dark: bool) -> None:
    browser.open(pages[name], width=DESK, dark=dark)
    assert violations(browser, axe, RECOMMENDED) == []


@needs_npm
def test_axe_finds_what_is_wrong(browser: Chromium, axe: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html lang=en><title>t</title><p style='color: #aaa'>pale</p><img src='data:,'>", encoding="utf-8")
    browser.open(page, width=DESK)
    assert {one.partition(":")[0] for one in violations(browser, axe, WCAG)} == {"color-contrast", "image-alt"}


@needs_npm
def test_axe_finds_nothing_on_the_site(browser: Chromium, axe: str, tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-m", "sphinx", "--quiet", str(DOCS), str(tmp_path)]
    subprocess.run(command, check=True, timeout=250)
    for name in OF_SITE:
        for dark in (False, True):
            browser.open(tmp_path / f"{name}.html", width=DESK, dark=dark)
            assert violations(browser, axe, WCAG) == [], (name, dark)


@pytest.mark.parametrize("name", PAGES)
def test_each_chart_has_a_name_and_its_table(browser: Chromium, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], width=DESK, script=False)
    charts = browser.value(
        "[...document.querySelectorAll('figure')].map(one => ["
        "[...one.querySelectorAll('svg')].map(svg => svg.getAttribute('role') + ' '"
        " + document.getElementById(svg.getAttribute('aria-labelledby'))?.textContent),"
        "one.querySelector('details summary')?.textContent, one.querySelectorAll('details tbody tr').length])"
    )
    assert len(charts) > 1
    for names, table, rows in charts:
        assert names
        assert all(one == f"img {table.removesuffix(' as a table')}" for one in names), (names, table)
        assert rows > 0, table


def test_a_verdict_is_a_word_and_a_mark(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["hostile"], width=DESK)
    seen = set(browser.value("[...document.querySelectorAll('td .verdict')].map(one => one.textContent)"))
    words: dict[Verdict, str] = {word: f"{mark} {word}" for word, mark in MARKS.items()}
    assert seen
    assert seen <= set(words.values())
