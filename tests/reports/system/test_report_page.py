# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: nothing complained of, nothing asked for, all of it usable by keyboard and on a phone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.judge.model.comparison import Comparison
from ktrial.reports.html import html_page
from tests.support.chromium import Chromium
from tests.support.comparisons import four_arms, hostile, large, measured, two_arms
from tests.support.told_trials import a_trial, hostile_trial

pytestmark = pytest.mark.xdist_group("pages")  # one worker makes the pages and starts the browser
PHONE, DESK = 360, 1100
ARROW_RIGHT, ESCAPE, TAB, ENTER = 39, 27, 9, 13


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {"two": two_arms(), "four": four_arms(), "hostile": hostile()}
    made |= {"trial": a_trial().told(), "hostile-trial": hostile_trial()}
    return {name: written(folder / f"{name}.html", comparison) for name, comparison in made.items()}


def written(path: Path, comparison: Comparison) -> Path:
    path.write_text(html_page(comparison), encoding="utf-8")
    return path


def test_a_page_of_1000_runs_with_all_conditions_stays_small() -> None:
    assert len(html_page(measured(500, 8)).encode()) < 3_000_000


@pytest.mark.parametrize("name", ["two", "four", "hostile", "trial", "hostile-trial"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True])
def test_it_loads_quietly_and_fits(
    browser: Chromium, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.open(pages[name], width=width, dark=dark)
    assert browser.complaints == []
    assert browser.requests[0] == pages[name].as_uri()
    assert all(address.startswith("data:image/png") or address == "data:," for address in browser.requests[1:])
    assert browser.value("document.documentElement.scrollWidth") <= width, "nothing to scroll sideways"
    wide = "[...document.querySelectorAll('svg')].filter(one => one.getBoundingClientRect().width > 200)"
    drawn = browser.value(f"{wide}.length")
    assert drawn >= browser.value("document.querySelectorAll('figure').length") > 5
    titles = {"two": "vm.", "four": "Four", "hostile": "vm.", "trial": "swappiness", "hostile-trial": "swappiness"}
    assert browser.value("document.title").startswith(titles[name])


def test_marks_have_the_colours_of_their_arms_by_day_and_by_night(browser: Chromium, pages: dict[str, Path]) -> None:
    seen = []
    for dark in (False, True):
        browser.open(pages["two"], width=DESK, dark=dark)
        style = "getComputedStyle(document.querySelector('figure .m.k1'))"
        paper = browser.value("getComputedStyle(document.body).backgroundColor")
        colour = browser.value(f"{style}.color")
        assert colour != paper
        seen.append((paper, colour))
    assert seen[0] != seen[1]
    assert seen[1][0] == "rgb(20, 24, 28)"


def contrast(browser: Chromium, selector: str) -> float:
    """How text stands out from the page, as WCAG 2.1 defines it."""
    text = browser.value(f"getComputedStyle(document.querySelector({selector!r})).color")
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    lights = []
    for colour in (text, paper):
        parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return float((max(lights) + 0.05) / (min(lights) + 0.05))


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read(browser: Chromium, pages: dict[str, Path], dark: bool) -> None:
    browser.open(pages["two"], width=DESK, dark=dark)
    for selector in (
        "h1",
        ".scope",
        "figcaption",
        "a",
        ".better",
        ".worse",
        ".equal",
        ".doubt",
        ".arms .k1",
        "thead th",
    ):
        assert contrast(browser, selector) >= 4.5, selector


@pytest.mark.parametrize("name", ["two", "four", "trial"])
def test_the_headline_has_two_lines_at_most(browser: Chromium, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], width=DESK)
    of = "document.querySelector('.answer')"
    lines = browser.value(f"{of}.getBoundingClientRect().height / parseFloat(getComputedStyle({of}).lineHeight)")
    assert round(lines) <= 2


def test_the_keyboard_reaches_marks_and_hears_them(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["two"], width=DESK)
    browser.key("Tab", TAB)
    assert browser.value("document.activeElement.className") == "skip"
    browser.key("Tab", TAB)
    assert browser.value("document.activeElement.className") == "doubt", "it leads to the doubts"
    browser.key("Tab", TAB)
    assert browser.value("document.activeElement.className") == "plot wide"
    browser.key("ArrowRight", ARROW_RIGHT)
    assert browser.value("document.querySelector('dl.tip').hidden") is False
    said = browser.value("document.getElementById('said').textContent")
    assert said.startswith("outcome memory-pressure.latency.p50, arm wsf500, change -1")
    browser.key("ArrowRight", ARROW_RIGHT)
    assert "latency.p90" in browser.value("document.getElementById('said').textContent")
    browser.key("Escape", ESCAPE)
    assert browser.value("document.querySelector('dl.tip').hidden") is True


def test_the_pointer_shows_the_row_of_its_mark(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["two"], width=DESK)
    place = browser.value(
        "(() => { const figure = [...document.querySelectorAll('figure.marks')]"
        ".find(one => one.querySelector('.chart').textContent === 'Every run');"
        "figure.scrollIntoView({ behavior: 'instant' });"
        "const box = figure.querySelectorAll('.m')[6].getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2] })()"
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    shown = browser.value("[...document.querySelectorAll('dl.tip dd')].map(one => one.textContent)")
    first = two_arms().outcomes[0]
    found = next((values.arm, point) for values in first.arms for point in values.points if point.place == 7)
    assert shown[:2] == ["7", found[0]]
    assert float(shown[2]) == pytest.approx(found[1].value * 1000, rel=1e-3)
    assert shown[3] == found[1].run


def test_arms_are_hidden_and_shown(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["four"], width=DESK)
    seen = "[...document.querySelectorAll('svg .k1')].filter(one => one.getClientRects().length).length"
    before = browser.value(seen)
    assert before > 20
    box = "document.querySelectorAll('.arms input')[1]"
    browser.value(f"{box}.focus()")
    browser.key(" ", 32)
    assert browser.value(f"{box}.checked") is False
    assert browser.value(seen) == 0
    browser.key(" ", 32)
    assert browser.value(seen) == before


def test_tables_are_sorted_by_keyboard(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["two"], width=DESK)
    head = "document.querySelector('#verdicts').parentNode.querySelectorAll('th')[4]"
    browser.value(f"{head}.querySelector('button').focus()")
    rows = "[...document.querySelector('#verdicts').parentNode.querySelectorAll('tbody tr')]"
    for order in ("ascending", "descending"):
        browser.key("Enter", ENTER)
        assert browser.value(f"{head}.getAttribute('aria-sort')") == order
        numbers = [float(text.rstrip(" %")) for text in browser.value(f"{rows}.map(row => row.cells[4].textContent)")]
        assert numbers == sorted(numbers, reverse=order == "descending")
        assert len(numbers) == 5


def test_a_count_leads_to_its_runs(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["two"], width=DESK)
    browser.value("document.querySelector('a[href=\"#outcome-2-runs\"]').focus()")
    browser.key("Enter", ENTER)
    shown = "document.getElementById('outcome-2-runs').open"
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.value(shown) is True
    rows = "document.querySelectorAll('#outcome-2-runs tbody tr').length"
    assert browser.value(rows) == 40


def test_without_scripts_it_is_all_there(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["two"], width=DESK, script=False)
    document = browser.call("DOM.getDocument", depth=1)["root"]["nodeId"]
    assert browser.call("DOM.querySelector", nodeId=document, selector="body.no-script")["nodeId"] > 0
    for selector in ("figure svg .m", "table.sort tbody tr", "details"):
        assert browser.call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"] > 0
    assert browser.complaints == []


def test_hostile_text_does_nothing(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.open(pages["hostile"], width=DESK)
    assert browser.value("document.querySelectorAll('script').length") == 1
    assert browser.value("document.querySelectorAll('img').length") == 0
    assert not [event for event in browser.events if event.get("method") == "Page.javascriptDialogOpening"]


def test_a_thousand_runs(browser: Chromium, tmp_path: Path) -> None:
    page = written(tmp_path / "large.html", large(500, 10))
    assert page.stat().st_size < 3_000_000
    browser.open(page, width=DESK)
    assert browser.complaints == []
    assert "are drawn" in browser.value("document.body.textContent")


def test_a_hundred_thousand_measurements(browser: Chromium, tmp_path: Path) -> None:
    comparison = large(500, 100)
    assert sum(values.n for one in comparison.outcomes for values in one.arms) == 100_000
    before_s = time.process_time()
    page = written(tmp_path / "huge.html", comparison)
    # Time of the CPU: whatever else runs here does not count.
    assert time.process_time() - before_s < 10
    browser.open(page, width=DESK)
    browser.value("document.querySelector('.arms input').click()")
    browser.value("document.querySelector('#sources').scrollIntoView()")
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
