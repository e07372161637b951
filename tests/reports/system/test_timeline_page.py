# SPDX-License-Identifier: Apache-2.0
"""The time line of a diagnosis in a real browser: zoomed by wheel, keys, buttons and dragging, and there without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.judge.model.interval import Interval
from ktrial.watch.diagnosis.model import Cause, Diagnosis, Lane, PhaseFound, PressureLine
from ktrial.watch.diagnosis.page import diagnosis_page
from tests.support.chromium import Chromium

HOSTILE = "</title><script>alert(1)</script>"
PLUS, ARROW_RIGHT, ZERO = 187, 39, 48
_SEEN = "document.querySelector('figure.timeline p[aria-live]').textContent"
_COUNT = "document.querySelectorAll('figure.timeline svg .{}').length"


def found() -> Diagnosis:
    """An hour with a stutter each minute; in the last half a cause for a tenth of each second."""
    share = Interval(estimate=0.01)
    cause = Cause(id="direct-reclaim", name=HOSTILE, what="", standing="named", overlapping=9)
    return Diagnosis(
        name=HOSTILE,
        length_s=3600,
        frames=100_000,
        frame_kind="frame",
        definition="longer than 50 ms",
        stutters=60,
        late_share=share,
        per_hour=Interval(estimate=60.0),
        phases=(
            PhaseFound(name="warm-up", begin_s=0, end_s=900, stutters=15, late_share=share, per_hour=share),
            PhaseFound(name="steady state", begin_s=900, end_s=3600, stutters=45, late_share=share, per_hour=share),
        ),
        told_by=(),
        causes=(cause,),
        unexplained=0,
        late=tuple((60.0 * one, 0.1) for one in range(60)),
        lanes=(Lane(cause="direct-reclaim", spans=tuple((1800.0 + one, 1800.1 + one) for one in range(1800))),),
        pressures=(PressureLine(name="memory pressure", step_s=36.0, values=(0.1, 0.5, None, 0.2) * 25),),
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(browser: Chromium, tmp_path: Path) -> Chromium:
    path = tmp_path / "page.html"
    path.write_text(diagnosis_page([(found(), ())]), encoding="utf-8")
    browser.open(path, width=1100)
    return browser


def bounds(page: Chromium) -> tuple[float, ...]:
    return tuple(float(one) for one in re.findall(r"[\d.]+", page.value(_SEEN)))


def test_it_loads_quietly_and_shows_all(page: Chromium, tmp_path: Path) -> None:
    assert page.complaints == []
    assert page.value("document.title").startswith("Diagnosis: </title>")
    assert page.value(_SEEN) == "whole recording"
    assert page.value(_COUNT.format("late")) == 60
    assert page.value(_COUNT.format("span")) < 5, "what lies within a dot is one bar"
    assert page.value("document.documentElement.scrollWidth") <= 1100
    page.screenshot(tmp_path / "all.png")


def test_keys_zoom_and_move(page: Chromium) -> None:
    page.value("document.querySelector('figure.timeline svg').focus()")
    page.key("+", PLUS)
    assert page.value(_SEEN) == "from 900 to 2700 s"
    page.key("ArrowRight", ARROW_RIGHT)
    assert page.value(_SEEN) == "from 1260 to 3060 s"
    for _ in range(7):
        page.key("+", PLUS)
    assert page.value(_COUNT.format("span")) >= 13, "closer, single stretches are seen"
    page.key("0", ZERO)
    assert page.value(_SEEN) == "whole recording"


def test_the_wheel_zooms_to_where_it_points_and_dragging_moves(page: Chromium) -> None:
    box = page.value("(({x, y, width}) => [x, y, width])(document.querySelector('svg').getBoundingClientRect())")
    place = {"x": box[0] + box[2] * (190 + 690 * 0.75) / 900, "y": box[1] + 60}
    page.call("Input.dispatchMouseEvent", type="mouseWheel", **place, deltaX=0, deltaY=-100)
    assert bounds(page) == pytest.approx((540, 3420), abs=3)
    pressed = {"button": "left", "clickCount": 1}
    page.call("Input.dispatchMouseEvent", type="mousePressed", **place, **pressed)
    moved = {**place, "x": place["x"] + box[2] * 690 / 900 / 8}
    page.call("Input.dispatchMouseEvent", type="mouseMoved", **moved, **pressed)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", **moved, **pressed)
    assert bounds(page) == pytest.approx((180, 3060), abs=6)


def test_buttons_do_the_same_and_what_lies_outside_is_left_out(page: Chromium) -> None:
    page.value("document.querySelector('.zoom button').click()")
    assert page.value(_SEEN) == "from 900 to 2700 s"
    assert page.value(_COUNT.format("late")) == 31
    assert page.value("document.querySelectorAll('.zoom button').length") == 5


def test_without_a_script_the_picture_stands(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(diagnosis_page([(found(), ())]), encoding="utf-8")
    browser.open(path, width=1100, script=False)
    browser.screenshot(tmp_path / "still.png")
    text = path.read_text()
    assert text.count("<svg") == 1
    assert "warm-up" in text
    assert (tmp_path / "still.png").stat().st_size > 20_000
