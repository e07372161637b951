# SPDX-License-Identifier: Apache-2.0
"""What ktrial must know of a query, and the query of a stretch."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.live.sources.promql import read_query
from tests.support.long_lines import filled, slower


@pytest.mark.parametrize(
    "text, over",
    [
        ("up", "avg_over_time(up[90ms])"),
        ('sum(rate(a_total{b="}["}[$__rate_interval]))', 'sum(rate(a_total{b="}["}[90ms]))'),
        (
            "sum by (le, on) (rate(a[1m])) / on (x) group_left () c",
            "sum by (le, on) (rate(a[90ms])) / on (x) group_left () avg_over_time(c[90ms])",
        ),
        ("sum(a) by (b)", "sum(avg_over_time(a[90ms])) by (b)"),
        ('{__name__="a", b!~"c"} > bool 5 # and (', 'avg_over_time({__name__="a", b!~"c"}[90ms]) > bool 5 # and ('),
        ("a and b unless inf - 1e3", "avg_over_time(a[90ms]) and avg_over_time(b[90ms]) unless inf - 1e3"),
        ("job:a:rate5m", "avg_over_time(job:a:rate5m[90ms])"),
    ],
)
def test_a_query_of_a_stretch(text: str, over: str) -> None:
    assert read_query(text, "--metric").over(90) == over


def test_the_query_of_a_moment_changes_ranges_only() -> None:
    assert read_query("rate(a[5m]) / b", "--metric").within(90) == "rate(a[90ms]) / b"


def test_the_function_around_a_selector_is_known() -> None:
    query = read_query('sum by (x) (rate(a[1m])) / count(b) + c - sum(max_over_time({__name__="d"}[1m]))', "--metric")
    assert [(one.name, one.function, one.has_range) for one in query.selectors] == [
        ("a", "rate", True),
        ("b", "count", False),
        ("c", None, False),
        ("d", "max_over_time", True),
    ]


def test_a_quantile_of_a_whole_histogram_is_known() -> None:
    query = read_query("histogram_quantile(0.99, sum by (le) (rate(h_bucket[1m])))", "--metric")
    assert (query.quantile, query.buckets) == (0.99, " sum by (le) (rate(h_bucket[1m]))")
    assert read_query("histogram_quantile(0.9, a) + (b)", "--metric").quantile is None
    assert read_query("histogram_quantile(0.9, a) * 1000", "--metric").quantile is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 + 2",
        "a{",
        "rate(a[5m",
        'a{b="c}',
        "a offset 1d",
        "a @ end()",
        "rate(a[1m])[5m:]",
        "a[5m:1m]",
        "a;b",
        "a" * 9000,
    ],
)
def test_what_cannot_be_read_over_a_stretch_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--metric") as error:
        read_query(text, "--metric")
    assert error.value.hint


@given(st.text(alphabet="ab(){}[]\"'`\\,=~ 5m:offsetby+-@#\n$"))
def test_any_query_is_read_or_refused(text: str) -> None:
    try:
        query = read_query(text, "--metric")
    except BadInput as error:
        assert error.hint
    else:
        assert query.over(90).count("[90ms]") >= len(query.selectors)


@pytest.mark.parametrize("part", ["(", "a{", '"', "a[", "by(", "sum by ", "a+", "`", "1.", "#"])
def test_reading_takes_no_longer_than_the_text_is_long(part: str) -> None:
    assert (
        slower(lambda data: read_query(data.decode(), "--metric"), partial(filled, part.encode()), (1024, 8192)) is None
    )
