# SPDX-License-Identifier: Apache-2.0
"""Pictures that only trials have."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping

import numpy as np
import pytest
from msgspec.structs import replace

from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.trial_summary import ToldArm
from ktrial.reports.charts import comparison_charts
from ktrial.reports.charts.drawing import PAGE, Chart, Style
from ktrial.reports.charts.svg import inline_svg
from tests.support.comparisons import two_arms
from tests.support.told_trials import a_trial

WIDE = Style(palette=PAGE, width=900, titled=False)


def charts(comparison: Comparison, style: Style = WIDE) -> dict[str, Chart]:
    return {chart.name: chart for chart in comparison_charts(comparison, style)}


def places(chart: Chart) -> list[tuple[float, float]]:
    """Where the marks are, from the top left of their own panel."""
    root = ET.fromstring(inline_svg(chart, "f1"))
    marks = [one for one in root.iter() if "m" in one.get("class", "").split()]
    return [(float(one.get("x", "nan")), float(one.get("y", "nan"))) for one in marks]


def with_sets(sets: Mapping[str, Mapping[str, str]]) -> Comparison:
    """The trial whose arms set this."""
    told = a_trial().told()
    assert told.trial is not None
    arms = tuple(ToldArm(arm=one.arm, changes=sets.get(one.arm, {})) for one in told.trial.arms)
    return replace(told, trial=replace(told.trial, arms=arms))


def test_what_is_no_trial_has_none_of_them() -> None:
    assert not {"course", "visits", "response"} & set(charts(two_arms(4)))


def test_the_course_has_a_row_and_a_mark_for_each_block_of_each_arm() -> None:
    told = a_trial().told()
    assert told.trial is not None
    chart = charts(told)["course"]
    assert len(chart.table.rows) == len(told.trial.looks) == len(places(chart))
    assert [row[:2] for row in chart.table.rows[:2]] == [("1", "sw10"), ("2", "sw10")]
    last = [row for row in chart.table.rows if row[5] != "open"]
    assert [(row[1], row[4], row[5]) for row in last] == [
        ("sw10", "yes", "better"),
        ("sw60", "yes", "equivalent"),
        ("sw180", "yes", "worse"),
        ("placebo", "yes", "equivalent"),
    ]


def test_the_response_is_true_to_scale_with_better_above() -> None:
    told = a_trial().told()
    chart = charts(told)["response"]
    assert [row[0] for row in chart.table.rows] == ["10", "60", "180"]
    assert chart.table.rows[0][1:3] == ("sw10", "+6.5 %")
    estimates = [one.effect.estimate for one in told.outcomes[0].contrasts[:3] if one.effect is not None]
    x, y = zip(*places(chart), strict=True)
    slope, start = np.polyfit([10, 60, 180], x, 1)
    assert slope > 0
    assert x == pytest.approx([slope * value + start for value in (10, 60, 180)], abs=0.2)
    slope, start = np.polyfit(estimates, y, 1)
    assert slope < 0, "better is above"
    assert y == pytest.approx([slope * value + start for value in estimates], abs=0.2)


def test_values_over_decades_lie_on_a_logarithmic_axis() -> None:
    found = with_sets({"sw10": {"vm.x": "1"}, "sw60": {"vm.x": "100"}, "sw180": {"vm.x": "10000"}})
    x = [place[0] for place in places(charts(found)["response"])]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)


def test_words_stand_beside_each_other_in_their_order() -> None:
    sets = {"sw10": "zstd", "sw60": "lz4", "sw180": "lzo-rle"}
    found = with_sets({arm: {"zram:comp_algorithm": value} for arm, value in sets.items()})
    chart = charts(found)["response"]
    assert [row[0] for row in chart.table.rows] == ["zstd", "lz4", "lzo-rle"]
    x = [place[0] for place in places(chart)]
    assert x == sorted(x)


def test_one_knob_of_several_devices_is_one_knob() -> None:
    sets = {
        arm: {"queue:nr_requests@sda": value, "queue:nr_requests@sdb": value}
        for arm, value in (("sw10", "64"), ("sw60", "128"))
    }
    assert charts(with_sets(sets))["response"].table.headers[0] == "queue:nr_requests"


def test_of_a_grid_of_two_knobs_there_is_a_curve_for_each_value_of_the_other() -> None:
    sets = {"sw10": {"vm.a": "1", "vm.b": "2"}, "sw60": {"vm.a": "5", "vm.b": "2"}, "sw180": {"vm.a": "9", "vm.b": "2"}}
    assert charts(with_sets(sets))["response"].table.headers[0] == "vm.a", "the other is the same in all"
    sets["sw180"] = {"vm.a": "9", "vm.b": "3"}
    found = charts(with_sets(sets))
    assert found["response"].table.headers[0] == "vm.a, vm.b = 2"
    assert [row[:2] for row in found["response"].table.rows] == [("1", "sw10"), ("5", "sw60")]
    assert "response-2" not in found, "one value is not a curve"


def test_curves_beside_a_value_as_found_and_beside_another_are_two() -> None:
    sets = {"sw10": {"vm.a": "1"}, "sw60": {"vm.a": "5"}, "sw180": {"vm.a": "1", "vm.b": "2"}}
    sets["placebo"] = {"vm.a": "5", "vm.b": "2"}
    found = charts(with_sets(sets))
    heads = [found[name].table.headers[0] for name in ("response", "response-2")]
    assert heads == ["vm.a", "vm.a, vm.b = 2"]


@pytest.mark.parametrize(
    "sets",
    [
        {"sw10": {"vm.a": "1"}, "sw60": {"vm.b": "1"}},
        {"sw10": {"vm.a": "1", "vm.b": "1"}, "sw60": {"vm.a": "2", "vm.b": "2"}},
        {"sw10": {"vm.a": "1"}},
        {},
    ],
)
def test_arms_that_are_no_values_of_one_knob_have_no_curve(sets: dict[str, dict[str, str]]) -> None:
    assert "response" not in charts(with_sets(sets))


def test_void_blocks_are_drawn_and_crossed_out() -> None:
    chart = charts(a_trial().told())["visits"]
    assert chart.table.rows[2][2] == "void: the machine slept 3 s"
    assert chart.table.rows[1][3] == "sw180"
    svg = inline_svg(chart, "f1")
    crosses = [one for one in ET.fromstring(svg).iter() if one.text == "\N{MULTIPLICATION SIGN}"]
    assert len(crosses) == 5 + 1, "the void block's five turns, and the run that failed"


def test_no_number_is_infinite() -> None:
    told = a_trial().told()
    assert told.trial is not None
    looks = (replace(told.trial.looks[0], estimate=3.0), *told.trial.looks[1:])
    chart = charts(replace(told, trial=replace(told.trial, looks=looks)))["course"]
    assert all(math.isfinite(one) for place in places(chart) for one in place), "the first block is cut at the edge"
    heights = [place[1] for place in places(chart)]
    assert min(heights) >= -1
