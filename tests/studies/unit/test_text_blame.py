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
from ktrial.studies.blame.cost import cost_of, settle_seconds
from ktrial.studies.blame.model import Blame, Culprit, Factor, Recovery
from ktrial.studies.blame.text import blame_text, dry_run_text, question_text, screening_text
from ktrial.trial.outcome.text import screening_line
from ktrial.trial.protocol.file import DesignFile
from ktrial.trial.protocol.forecast import last_run_seconds
from tests.support.blame import TASKS, question
from tests.support.knobs import catalog

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


@pytest.mark.parametrize(
    "changes, steps",
    [
        ({}, [(14, 50), (24, 144), (27, 75), (14, 50)]),
        ({"known": "worse"}, [(24, 144), (27, 75), (14, 50)]),
        ({"known": "either", "cap": 12}, [(24, 24), (14, 50)]),
        ({"known": "better", "budget": 9}, [(24, 144), (27, 27), (14, 18)]),
        ({"known": "better", "budget": 60}, [(24, 144), (36, 180), (18, 120)]),
    ],
)
def test_the_cost_is_that_of_each_trial(changes: dict[str, object], steps: list[tuple[int, int]]) -> None:
    assert [(one.least, one.most) for one in cost_of(msgspec.structs.replace(question(4), **changes))] == steps


def test_a_dry_run_lists_the_suspects_and_the_time() -> None:
    asked = question(3, known="worse")
    knob = Factor(name="vm.a + vm.b", set={"vm.a@x": "5", "vm.b": 7})
    asked = msgspec.structs.replace(asked, factors=(*asked.factors, knob, Factor(name="boot:nosmt", boot=("nosmt",))))
    text = dry_run_text(asked, 2.0, "", width=80)
    assert "s1           1\n" in text
    assert "vm.a + vm.b  5, 7\n" in text
    assert "boot:nosmt   on\n" in text
    assert "find the suspect                  24 to 144  48 s to 4 min 48 s\n" in text
    assert "together                          65 to 269  2 min 10 s to 8 min 58 s\n" in text
    unknown = dry_run_text(asked, None, "nobody ran it", width=80)
    assert "24 to 144  ?\n" in unknown
    assert "time unknown: nobody ran it\n" in unknown


def test_the_time_is_that_of_the_newest_run_with_the_same_parameters() -> None:
    def run(seconds: float, *argv: str, **parameters: object) -> dict[str, object]:
        return {
            "benchmark": "tool",
            "parameters": parameters,
            "argv": argv,
            "resources": {"wall_ns": round(seconds * 1e9)},
        }

    found = [run(9, "/bin/tool", "-x", n=2), run(3, "/bin/tool", "-y"), run(2, "/bin/tool", "-x"), run(1)]
    assert last_run_seconds(found, TASKS, ()) == 3
    assert last_run_seconds(found, TASKS, ("tool", "-x")) == 2
    assert last_run_seconds(found, TASKS, ("tool", "-z")) is None
    assert last_run_seconds([], TASKS, ()) is None


def test_the_longest_wait_of_a_suspect_counts() -> None:
    asked = question(2)
    assert settle_seconds(asked, {}) == 0
    trial = msgspec.structs.replace(asked.trial, design=DesignFile())
    slow = Factor(name="vm.dirty_ratio", set={"vm.dirty_ratio": "5"})
    asked = msgspec.structs.replace(asked, trial=trial, factors=(*asked.factors, slow))
    assert settle_seconds(asked, catalog().knobs) == catalog().knobs["vm.dirty_ratio"].settle_s > 0
