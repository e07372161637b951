# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import xml.etree.ElementTree as ET

import altair
import msgspec
import pytest

from ktrial.judge.model.judgement import Coefficient, Screened
from ktrial.judge.model.verdict import Effect
from ktrial.reports.charts.coefficients import coefficients_chart
from ktrial.reports.charts.drawing import Style
from ktrial.reports.charts.svg import svg_bytes
from ktrial.studies.blame.model import Blame, Culprit, Factor, Recovery
from ktrial.studies.blame.text import blame_text, question_text, screening_text
from ktrial.trial.outcome.text import screening_line
from tests.support.blame import question

EFFECT = Effect(estimate=-0.105, low=-0.139, high=-0.083, method="walsh")


def screened(outcome: str = "tool.time", role: str = "primary", named: str = "b") -> Screened:
    rows = tuple(
        Coefficient(setting=name, effect=effect, low=effect - 0.02, high=effect + 0.02, named=name == named)
        for name, effect in (("a", 0.001), ("b", -0.1), ("<c>", 0.03))
    )
    return msgspec.convert(
        {"outcome": outcome, "role": role, "blocks": 12, "coefficients": msgspec.to_builtins(rows)}, Screened
    )


BLAME = Blame(
    name="blame-x-1",
    factors=("a", "b", "<c>"),
    known="worse",
    culprits=(Culprit(factors=("b",), kind="alone", verdict="worse", effect=EFFECT),),
    suspects=("a",),
    reason="nothing of the effect remains without them",
    recoveries=(Recovery(outcome="tool.time", fate="recovered", all=EFFECT, without=None),),
    screenings=((screened(), screened("tool.rate", "exploratory", "none")),),
    trials=("t-1", "t-2"),
    runs=64,
)


def test_the_answer_tells_who_how_much_and_what_it_rests_on() -> None:
    text = blame_text(BLAME, width=80)
    assert text.startswith("blame-x-1: responsible out of 3 settings: b\n")
    # exp(-0.105) = 0.9003, exp(-0.139) = 0.8702, exp(-0.083) = 0.9204
    assert "b        alone  -10 %  -13 % to -8 %" in text
    assert "tool.time  -10 %  -             recovered" in text
    assert "suspected but not confirmed: a" in text
    assert "64 runs in t-1, t-2" in text


def test_it_says_that_none_can_be_named() -> None:
    text = blame_text(msgspec.structs.replace(BLAME, culprits=(), recoveries=()), width=80)
    assert text.startswith("blame-x-1: none of 3 settings was found responsible\n")


def test_what_is_left_out_or_taken_together_is_said_before_the_start() -> None:
    factors = (*question(2).factors, Factor(name="x + y", set={"x@sda": 1, "y@sda": 2}))
    asked = msgspec.structs.replace(question(2), factors=factors)
    text = question_text(asked, {"vm.swappiness": "in force already"}, width=100)
    assert "3 settings to test" in text
    assert "x + y: the kernel changes these together" in text
    assert "  skipped: vm.swappiness: in force already" in text


def test_a_screening_by_itself_leaves_out_what_nobody_asked_for() -> None:
    text = screening_text("t", BLAME.screenings[0], "suspects are found", width=80)
    assert "b        -9.5 %  -11 % to -7.7 %   suspected" in text
    assert "tool.rate" not in text
    assert screening_line(12, 72, [screened()]) == "block 12/72: suspected: b"
    assert screening_line(12, 72, [screened(named="none")]) == "block 12/72: no suspects yet"


def test_the_picture_is_valid_and_shows_every_setting_in_its_place() -> None:
    chart = coefficients_chart("x", [[screened(), screened("tool.p99", "secondary")], [screened()]], Style(width=900))
    altair.Root.validate(chart.spec)
    assert [row[2] for row in chart.table.rows] == ["b", "<c>", "a"] * 3
    assert len({panel["layer"][2]["name"] for panel in chart.spec["vconcat"]}) == 3
    ET.fromstring(svg_bytes(chart))


def test_an_interval_without_end_stays_in_the_picture() -> None:
    rows = tuple(msgspec.structs.replace(one, low=-float("inf"), high=float("inf")) for one in screened().coefficients)
    chart = coefficients_chart("x", [[msgspec.structs.replace(screened(), coefficients=rows)]], Style(width=900))
    values = chart.spec["vconcat"][0]["data"]["values"]
    assert values[0]["low"] == pytest.approx(-0.11)
    assert chart.table.rows[0][4] == "-"
