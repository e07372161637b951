# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.judge.model.comparison import Comparison, Point
from ktrial.reports.charts.drawing import Chart, Style
from ktrial.reports.charts.runs import of_outcome
from ktrial.reports.html import html_page
from ktrial.reports.markdown import markdown
from ktrial.reports.run_conditions import by_arm, worth_showing
from tests.support.comparisons import measured


def shown(*runs: dict[str, float], temperature_c: float | None = None) -> list[str]:
    points = [Point(value=1.0, run=str(at), conditions=one, temperature_c=temperature_c) for at, one in enumerate(runs)]
    return [one.name for one in worth_showing(points)]


@pytest.mark.parametrize(
    "runs, names",
    [
        ([{}, {}], []),
        ([{"frequency_hz": 3.2e9}, {"frequency_hz": 3.2e9}], []),
        ([{"frequency_hz": 3.2e9}, {"frequency_hz": 2.4e9}], ["frequency_hz"]),
        ([{"throttled_share": 0.0}, {"throttled_share": 0.0}], []),
        ([{"throttled_share": 0.1}, {"throttled_share": 0.1}], ["throttled_share"]),
        ([{"steal_share": 0.02}, {}], ["steal_share"]),
        ([{"kernel_warnings": 1.0}], ["kernel_warnings"]),
        ([{"pressure_cpu_share": 0.5}, {"pressure_cpu_share": 0.501}], []),
        ([{"pressure_cpu_share": 0.5}, {"pressure_cpu_share": 0.52}], ["pressure_cpu_share"]),
    ],
)
def test_what_was_measured_and_varies_or_matters_is_shown(runs: list[dict[str, float]], names: list[str]) -> None:
    assert shown(*runs) == names


def test_the_temperature_is_always_shown_where_it_is_known() -> None:
    assert shown({}, {}, temperature_c=50.0) == ["temperature_c"]


def chart(made: Comparison, place: int) -> Chart:
    (found,) = of_outcome(made, made.outcomes[place], Style())
    return found


def test_each_condition_is_a_panel_under_the_runs_of_the_first_outcome() -> None:
    made = measured(31, 2)
    first, second = chart(made, 0), chart(made, 1)
    panels = first.spec["vconcat"][1:]
    titles = [panel["layer"][1]["data"]["values"][0]["title"] for panel in panels]
    assert titles == ["°C at start", "% of time throttled", "% waiting for CPU"]
    waited = [one["shown"] for one in panels[2]["layer"][0]["data"]["values"]]
    assert max(waited) == pytest.approx(3.0)
    assert len(waited) == 62
    assert first.table.headers[-3:] == tuple(titles)
    assert all(len(row) == len(first.table.headers) for row in first.table.rows)
    assert "vconcat" not in second.spec, "the same runs: once is enough"
    assert made.outcomes[0].name in second.caption


def test_each_arm_has_its_median_with_the_ends() -> None:
    rows = {row[0]: row[1:] for row in by_arm(measured(31, 1))}
    assert rows["% of time throttled"] == ("25", "25")
    assert rows["% waiting for CPU"] == ("1.5 (0.0 to 3.0)",) * 2
    assert "clock, GHz" not in rows, "it never changed"
    for text in (markdown(measured(31, 1)), html_page(measured(31, 1))):
        assert "1.5 (0.0 to 3.0)" in text
