# SPDX-License-Identifier: Apache-2.0
"""Charts: valid Vega-Lite, marks where the numbers are, nothing foreign among the elements."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import altair
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.judge.model.comparison import Comparison, Point
from ktrial.judge.model.verdict import Effect
from ktrial.kit.outcome import Direction
from ktrial.reports.charts import comparison_charts, outcome_charts
from ktrial.reports.charts.blocks import _quoted
from ktrial.reports.charts.differences import round_differences
from ktrial.reports.charts.drawing import PAGE, Chart, Style, cast_of, labels, spread_labels, value_axis
from ktrial.reports.charts.forest import ticks
from ktrial.reports.charts.quantiles import quantile_of
from ktrial.reports.charts.runs import PlacedMeasurement, select, thin
from ktrial.reports.charts.spread import bins, five_numbers
from ktrial.reports.charts.svg import inline_svg, png_bytes, svg_bytes, svg_text
from tests.support.comparisons import HOSTILE, arm_values, four_arms, hostile, large, two_arms
from tests.support.told_trials import a_trial, hostile_trial

PLAIN = Style()
ALL = {"two": two_arms(6), "four": four_arms(5), "large": large(110, 1), "hostile": hostile()}
ALL |= {"trial": a_trial().told(), "hostile-trial": hostile_trial()}


def charts(comparison: Comparison, style: Style = PLAIN) -> list[Chart]:
    made = [*comparison_charts(comparison, style)]
    for outcome in comparison.outcomes[:2]:
        made += outcome_charts(comparison, outcome, style)
    return made


def marks(markup: str) -> list[ET.Element]:
    return [one for one in ET.fromstring(markup).iter() if "m" in one.get("class", "").split()]


def test_specifications_are_valid() -> None:
    every = {chart.name: chart for name in ("two", "four", "large", "trial") for chart in charts(ALL[name])}
    assert set(every) == {
        "course",
        "visits",
        "response",
        "forest",
        "ratios",
        "quantiles-1",
        "runs",
        "blocks",
        "spread",
        "pairs",
    }
    for chart in [*every.values(), comparison_charts(ALL["hostile"], Style())[0]]:
        altair.Root.validate(chart.spec)


def test_charts_of_some_kinds_are_drawn_alone() -> None:
    names = [chart.name for chart in comparison_charts(ALL["trial"], Style())]
    only = [chart.name for chart in comparison_charts(ALL["trial"], Style(), ("forest", "course"))]
    without = [chart.name for chart in comparison_charts(ALL["trial"], Style(), without=("forest", "course"))]
    assert (only, sorted(only + without)) == (["forest", "course"], sorted(names))
    assert "forest" not in without


def test_which_charts_there_are() -> None:
    assert [chart.name for chart in comparison_charts(ALL["two"], Style())] == ["forest", "quantiles-1"]
    assert [chart.name for chart in comparison_charts(ALL["four"], Style())] == ["forest", "ratios"]
    first = ALL["four"].outcomes[0]
    assert [one.name for one in outcome_charts(ALL["four"], first, Style())] == ["runs", "blocks", "spread", "pairs"]


def test_a_chart_with_marks_has_a_row_for_each() -> None:
    for name in ("two", "four", "large", "trial"):
        for chart in charts(ALL[name], Style(palette=PAGE)):
            assert chart.table.rows
            assert {len(row) for row in chart.table.rows} == {len(chart.table.headers)}
            if chart.marks:
                assert len(marks(inline_svg(chart, "f1"))) == len(chart.table.rows), chart.name


def test_the_forest_is_true_to_scale() -> None:
    comparison = ALL["two"]
    chart = comparison_charts(comparison, Style(palette=PAGE))[0]
    estimates = [one.contrasts[0].effect.estimate for one in comparison.outcomes if one.contrasts[0].effect is not None]
    drawn = [float(one.get("x", "nan")) for one in marks(inline_svg(chart, "f1"))]
    slope, zero = np.polyfit(estimates, drawn, 1)
    assert slope > 0, "better is to the right"
    assert np.abs(np.polyval([slope, zero], estimates) - drawn).max() < 0.15
    bands = [
        one
        for one in ET.fromstring(inline_svg(chart, "f1")).iter()
        if one.get("fill") == "var(--band)" and one.tag.endswith("path")
    ]
    widths = [float(band.get("d", "").split("h")[1].split("v")[0]) for band in bands]
    margins = [2 * slope * math.log(1 + one.margin) for one in comparison.outcomes]
    assert widths == pytest.approx(margins, abs=0.2)


def test_runs_are_true_to_scale() -> None:
    outcome = ALL["four"].outcomes[0]
    chart = outcome_charts(ALL["four"], outcome, Style(palette=PAGE))[0]
    points = {point.place: point.value for values in outcome.arms for point in values.points}
    drawn = marks(inline_svg(chart, "f1"))
    values = [points[place] for place in sorted(points, key=lambda place: place or 0)]
    slope, top = np.polyfit(values, [float(one.get("y", "nan")) for one in drawn], 1)
    assert slope < 0, "more is above"
    assert np.abs(np.polyval([slope, top], values) - [float(one.get("y", "nan")) for one in drawn]).max() < 0.15
    across = [float(one.get("x", "nan")) for one in drawn]
    assert max(np.diff(across)) - min(np.diff(across)) < 0.15


def test_ticks_are_round_ratios() -> None:
    assert ticks(math.log(1.25), 2) == pytest.approx([-math.log(1.2), -math.log(1.1), 0, math.log(1.1), math.log(1.2)])
    # A tick at 1e200: the logarithm of 10, two hundred times.
    assert ticks(800.0, 2) == pytest.approx([-200 * math.log(10), 0, 200 * math.log(10)])
    assert ticks(math.log(431), 4) == pytest.approx([number * math.log(4) for number in range(-4, 5)])


@given(st.floats(min_value=1e-9, max_value=1e9), st.integers(1, 4))
def test_differences_have_round_ticks_on_both_sides(reach: float, each_side: int) -> None:
    found = round_differences(reach, each_side)
    assert 3 <= len(found) <= 2 * each_side + 1
    assert found == [-one for one in reversed(found)]
    assert max(found) <= reach
    assert f"{found[-1] / (len(found) // 2):.0e}"[0] in "1245"


def around_zero(direction: Direction | None = "lower") -> Comparison:
    """An outcome whose values are around zero, 3 us less in the arm, and one that is a ratio."""
    two = ALL["two"]
    effect = Effect(estimate=3e-6, low=1e-6, high=5e-6, scale="difference", method="by hand")
    first, *others = two.outcomes
    contrast = msgspec.structs.replace(first.contrasts[0], effect=effect)
    changed = msgspec.structs.replace(first, direction=direction, contrasts=(contrast,))
    return msgspec.structs.replace(two, outcomes=(changed, *others))


def test_differences_have_a_picture_of_their_own() -> None:
    made = {chart.name: chart for chart in comparison_charts(around_zero(), Style(width=900))}
    assert len(made["forest"].table.rows) == len(ALL["two"].outcomes) - 1
    (row,) = made["differences"].table.rows
    assert row[2:4] == ("-3 us", "-5 us to -1 us")
    drawn = svg_text(made["differences"])
    assert "difference from the control" in drawn
    stock = around_zero().outcomes[0].arms[0]
    (axis,) = [panel["layer"][0]["encoding"]["x"] for panel in made["differences"].spec["vconcat"]]
    assert axis["scale"]["domain"][1] == pytest.approx(1.08 * 1.5 * 0.02 * stock.median * 1e6)


def test_without_a_direction_no_side_is_called_better() -> None:
    made = {chart.name: chart for chart in comparison_charts(around_zero(None), Style(width=900))}
    words = svg_text(made["differences"])
    assert "better" not in words.replace("▲ better", "")
    assert "nobody said which way is better" in made["differences"].caption


def texts(chart: Chart) -> list[tuple[float, str]]:
    """(x, text) of what stands beside the rows of a wide picture."""
    every = [one for one in ET.fromstring(svg_text(chart)).iter() if one.tag.endswith("text")]
    found = [(one.get("transform", ""), "".join(one.itertext())) for one in every]
    return [(float(place.split("(")[1].split(",")[0]), text) for place, text in found if place.startswith("translate(")]


def test_long_intervals_do_not_run_into_the_verdict() -> None:
    effect = Effect(estimate=6.0, low=5.93, high=23.06, method="by hand")
    first = ALL["two"].outcomes[0]
    contrast = msgspec.structs.replace(first.contrasts[0], effect=effect, verdict="better")
    wide = msgspec.structs.replace(first, direction="higher", contrasts=(contrast,))
    comparison = msgspec.structs.replace(ALL["two"], outcomes=(wide,))
    beside = {text: x for x, text in texts(comparison_charts(comparison, Style(width=900))[0])}
    (interval,) = [text for text in beside if "x to " in text]
    assert beside["▲ better"] - beside[interval] > 6.5 * len(interval)


@given(st.floats(min_value=1e-4, max_value=500), st.integers(2, 4))
def test_ticks_stay_within(reach: float, each_side: int) -> None:
    found = ticks(reach, each_side)
    assert found == sorted(found)
    assert len(found) <= 2 * each_side + 1
    assert max(found) <= reach


def shown(values: list[float]) -> list[PlacedMeasurement]:
    return [PlacedMeasurement(0, place, Point(value=value, run="r")) for place, value in enumerate(values)]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=300), st.integers(2, 60))
def test_thinning_keeps_the_ends(values: list[float], most: int) -> None:
    kept = thin(shown(values), most)
    assert len(kept) <= max(most, 2)
    assert {min(values), max(values)} <= {one.point.value for one in kept}
    assert all(one.at < other.at for one, other in pairwise(kept))


def test_thinning_is_told() -> None:
    comparison = ALL["large"]
    outcome = comparison.outcomes[0]
    style = Style(most_points=50)
    selection = select(outcome, cast_of(comparison), style)
    assert len(selection.shown) <= 50
    caption = outcome_charts(comparison, outcome, style)[0].caption
    assert f"{len(selection.shown)} of 220 runs are drawn" in caption


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_five_numbers_are_those_of_numpy(values: list[float]) -> None:
    assert five_numbers(values) == pytest.approx(np.percentile(values, [0, 25, 50, 75, 100]), rel=1e-9, abs=1e-6)


def test_bins_are_those_of_numpy() -> None:
    outcome = ALL["large"].outcomes[0]
    values = [point.value for point in outcome.arms[0].points]
    axis = value_axis(outcome, values)
    width = np.diff(np.histogram_bin_edges(values, "fd")[:2])[0] * 220 ** (1 / 3) / 220 ** (1 / 3)
    quartiles = np.percentile(values, [25, 75])
    wanted = 2 * (quartiles[1] - quartiles[0]) / len(values) ** (1 / 3)
    assert width == pytest.approx(wanted, rel=0.2)
    assert bins(values, axis) == max(8, min(40, math.ceil((axis.high - axis.low) * axis.factor / wanted)))


def test_many_runs_make_histograms_whose_shares_are_whole() -> None:
    chart = outcome_charts(ALL["large"], ALL["large"].outcomes[0], Style())[2]
    assert chart.title == "Distribution of values"
    for panel in chart.spec["vconcat"]:
        assert sum(value["share"] for value in panel["data"]["values"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("latency.p99", ("latency.p*", 99.0)),
        ("p99_9_ns", ("p*_ns", 99.9)),
        ("p999", ("p*", 99.9)),
        ("p50", ("p*", 50.0)),
        ("late_p99_ms", ("late_p*_ms", 99.0)),
        ("http2", None),
        ("mp3_rate", None),
    ],
)
def test_quantiles_are_known_by_name(name: str, expected: tuple[str, float] | None) -> None:
    assert quantile_of(name) == expected


@given(st.lists(st.floats(0, 200), min_size=1, max_size=8))
def test_labels_keep_apart(wanted: list[float]) -> None:
    placed = sorted(spread_labels(wanted, 14, 0, 200))
    assert all(other - one >= 14 - 1e-9 for one, other in pairwise(placed))
    assert placed[-1] <= 200


@pytest.mark.parametrize("values", [[0.0, 0.0], [5.0], [-3.0, 2.0], [1e-9, 1e9], [7.0, 7.0], [-1e308, 1e308]])
def test_values_that_are_no_ordinary_ones(values: list[float]) -> None:
    points = [Point(value=value, run=f"r{place}") for place, value in enumerate(values)]
    zero = any(value == 0 for value in values)
    arm = (
        arm_values("one", points)
        if not zero
        else msgspec.structs.replace(arm_values("one", [Point(value=1.0, run="r")]), points=tuple(points), median=0.0)
    )
    outcome = msgspec.structs.replace(ALL["two"].outcomes[0], arms=(arm,), contrasts=())
    comparison = msgspec.structs.replace(ALL["two"], control="one", outcomes=(outcome,))
    for chart in charts(comparison, Style(palette=PAGE)):
        assert "NaN" not in inline_svg(chart, "f1"), chart.name


@given(st.text(max_size=30))
def test_a_quoted_text_is_one_string_of_an_expression(text: str) -> None:
    inner = _quoted(text)[1:-1]
    assert set(inner) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\\{}")


def test_hostile_text_stays_text() -> None:
    for chart in [*charts(ALL["hostile"], Style(palette=PAGE)), *charts(ALL["hostile-trial"], Style(palette=PAGE))]:
        for markup in (svg_bytes(chart).decode(), inline_svg(chart, "f1")):
            root = ET.fromstring(markup)
            assert not any((ord(one) < 32 and one != "\n") or ord(one) in {0x9B, 0x202E} for one in markup)
            for element in root.iter():
                assert element.tag.rpartition("}")[2] not in {"script", "image", "foreignObject", "a", "style"}
                for name, value in element.attrib.items():
                    assert not name.startswith("on")
                    assert not name.endswith("href") or value.startswith("#")
    assert "<script>" in HOSTILE


def test_the_same_comparison_gives_the_same_picture() -> None:
    one, two = (comparison_charts(two_arms(6), Style())[0] for _ in range(2))
    assert svg_bytes(one) == svg_bytes(two)
    assert png_bytes(one, scale=1).startswith(b"\x89PNG\r\n")


def test_a_reference_to_a_symbol_finds_it() -> None:
    for chart in charts(ALL["two"], Style(palette=PAGE))[:4]:
        root = ET.fromstring(inline_svg(chart, "f7"))
        names = {one.get("id") for one in root.iter() if one.get("id")}
        used = {one.get("href", "#")[1:] for one in root.iter() if one.get("href")}
        assert used <= names
        assert all((name or "").startswith("f7-") for name in names)


def test_long_names_of_arms_stay_apart() -> None:
    names = [f"configuration-number-{number}-with-a-long-name" for number in (0, 1, 14)]
    found = labels(["stock", *names], 14)
    assert list(found.values()) == ["stock", "…on-number-0…", "…on-number-1…", "…on-number-14…"]
    assert labels(["stock", "linux-6.18-bore", "linux-6.18-eevdf"])["linux-6.18-bore"] == "…6.18-bore"


def test_names_that_differ_at_their_beginning_keep_it() -> None:
    assert labels(["stock", "linux-6.18-with-bore-patches"]) == {
        "stock": "stock",
        "linux-6.18-with-bore-patches": "linux-6.18-…",
    }
    assert labels(["a\x1b[31m"]) == {"a\x1b[31m": "a\N{REPLACEMENT CHARACTER}[31m"}


@given(st.lists(st.text(st.sampled_from("ab-"), max_size=40), unique=True, max_size=6), st.integers(4, 20))
def test_labels_fit_their_room(names: list[str], limit: int) -> None:
    found = labels(names, limit)
    assert list(found) == names
    assert all(len(text) <= limit for text in found.values())
    assert all(found[name] == name for name in names if len(name) <= limit)


def test_charts_tell_arms_with_long_names_apart() -> None:
    made = four_arms()
    data = msgspec.json.encode(made)
    for place, arm in enumerate(("swappiness10", "mglru", "micro-stutter")):
        data = data.replace(f'"{arm}"'.encode(), f'"a-kernel-with-a-long-name-{place}-of-mine"'.encode())
    long = msgspec.json.decode(data, type=Comparison)
    style = Style(width=900)
    drawn = [*comparison_charts(long, style), *outcome_charts(long, long.outcomes[0], style)]
    checked = 0
    for chart in drawn:
        words = svg_text(chart)
        shown = [place for place in range(3) if f"-name-{place}" in words]
        assert shown in ([], [0, 1, 2]), chart.name
        checked += bool(shown)
    assert checked >= 5


def test_an_outcome_that_nobody_asked_about_has_no_verdict_in_any_picture() -> None:
    made = ALL["trial"]
    explored = [one.name for one in made.outcomes if one.role == "exploratory"]
    assert explored
    (forest,) = [chart for chart in comparison_charts(made, Style(width=900)) if chart.name == "forest"]
    words = {row[0]: row[-1] for row in forest.table.rows}
    assert {words[name] for name in explored if name in words} == {"explored"}
    drawn = svg_text(forest)
    assert "explored" in drawn
    assert "? inconclusive" not in drawn
