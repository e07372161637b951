# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from ktrial.kit.percentile import (
    events_needed,
    events_of,
    events_text,
    longer,
    margin_of_tail,
    quantile_of,
    typical_events,
)


@pytest.mark.parametrize(
    "name, quantile",
    [
        ("latency-p99", 0.99),
        ("frame_p99_ms", 0.99),
        ("p99_9_ns", 0.999),
        ("p99.9", 0.999),
        ("p999", 0.999),
        ("P95", 0.95),
        ("latency-99th", 0.99),
        ("99.9th percentile", 0.999),
        ("p50", 0.5),
        ("http2", None),
        ("mp3_rate", None),
        ("step50", None),
        ("p9", None),
        ("max", None),
    ],
)
def test_percentiles_are_known_by_name(name: str, quantile: float | None) -> None:
    assert quantile_of(name) == quantile


@pytest.mark.parametrize("quantile, needed", [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10_000)])
def test_ten_events_lie_beyond_a_percentile(quantile: float, needed: int) -> None:
    assert events_needed(quantile) == needed


def test_margins_grow_with_the_tail() -> None:
    assert [margin_of_tail(one) for one in (None, 0.5, 0.95, 0.99, 0.999)] == [0.02, 0.02, 0.05, 0.1, 0.1]


def test_what_would_do_is_told_in_figures() -> None:
    assert events_text(2500, 0.999) == "2,500 events in a run, 10,000 are needed"
    assert longer(2500, 0.999) == "runs 4 times as long"
    assert longer(999, 0.99) == "runs 1.1 times as long"
    assert longer(0, 0.99) == "runs 1000 times as long"


def test_the_arm_with_fewest_events_counts_by_its_median_run() -> None:
    assert typical_events([[5000, 900, 5000], [2000, 2000]]) == 2000
    assert typical_events([[], [10]]) == 10
    assert typical_events([[], []]) is None


@pytest.mark.parametrize(
    "details, events",
    [
        # A histogram of one thing, with what lies beyond its end.
        ({"histogram_ns": {"1000": 70, "2000": 20}}, {"latency-p99": 90, "read-p99": 90, "wakeup-p99": 90}),
        ({"histogram_ns": {"1000": 70}, "beyond": 3}, {"latency-p99": 73, "read-p99": 73, "wakeup-p99": 73}),
        # fio: of each direction; of a single one it is that of the run.
        ({"histogram_ns": {"read": {"1": 5, "2": 6}, "write": {"1": 7}}}, {"read-p99": 11}),
        ({"histogram_ns": {"read": {"1": 5, "2": 6}}}, {"latency-p99": 11, "read-p99": 11, "wakeup-p99": 11}),
        # schbench tells samples of each thing, an own load counts beside its histogram.
        ({"samples": {"wakeup": 40, "request": 9}}, {"wakeup-p99": 40}),
        (
            {"histogram_ns": {"1": 8}, "results": {"wakeup_count": 3}},
            {"latency-p99": 8, "read-p99": 8, "wakeup-p99": 3},
        ),
        ({"requests": 12}, {"latency-p99": 12, "read-p99": 12, "wakeup-p99": 12}),
        ({"histogram_ns": {}, "samples": None, "results": None}, {}),
        ({}, {}),
    ],
)
def test_events_are_counted_where_a_run_tells_them(details: dict[str, Any], events: dict[str, int]) -> None:
    assert events_of(details, ["latency-p99", "read-p99", "wakeup-p99"]) == events
