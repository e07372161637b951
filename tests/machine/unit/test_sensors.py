# SPDX-License-Identifier: Apache-2.0
"""Summaries of samples: levels, counters, wraps, resets, gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.machine.sensors import Samples, Sensor, Summary, summarise
from tests.support.samples import LEVEL, NARROW, TICKS, document, samples


def summary(values: Sequence[int | None], sensor: Sensor) -> Summary:
    return summarise(samples({"x": values}, {"x": sensor}))["x"]


def test_a_level_is_told_in_its_unit() -> None:
    assert summary([40_000, None, 50_500, 44_500], LEVEL) == Summary(
        unit="C", kind="level", n=3, first=40.0, last=44.5, minimum=40.0, maximum=50.5, mean=45.0
    )


def test_what_was_never_read_has_no_numbers() -> None:
    assert summary([None, None], LEVEL) == Summary(unit="C", kind="level", n=0)
    assert summary([None, None], TICKS) == Summary(unit="s", kind="counter", n=0)


def test_a_counter_grows_also_over_a_gap() -> None:
    told = summary([1000, 1050, None, 1250], TICKS)
    assert (told.first, told.last, told.difference) == (10.0, 12.5, 2.5)
    assert (told.minimum, told.maximum) == (0.5, 1.0)
    assert told.mean == pytest.approx(2.5 / 3)
    assert not told.fell


def test_one_value_of_a_counter_tells_no_growth() -> None:
    told = summary([7], TICKS)
    assert (told.n, told.first, told.difference, told.mean) == (1, 0.07, None, None)


def test_a_counter_that_wraps_grows_on() -> None:
    told = summary([2**32 - 10, 2**32 - 1, 4], NARROW)
    assert told.difference == 14
    assert not told.fell


@pytest.mark.parametrize("values", [[10**9, 5], [2**32 - 10, 2**32 - 20]])
def test_a_counter_that_was_reset_tells_no_growth(values: list[int]) -> None:
    sensor = msgspec.structs.replace(NARROW, bits=64)
    told = summary(values, sensor)
    assert told.fell
    assert (told.difference, told.mean) == (None, None)
    assert (told.first, told.last) == (values[0], values[1])


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_a_narrow_counter_tells_its_growth_however_often_it_wraps(start: int, steps: list[int]) -> None:
    values = [start]
    for step in steps:
        values.append((values[-1] + step) % 2**32)
    assert summary(values, NARROW).difference == sum(steps)


@pytest.mark.parametrize(
    "change, why",
    [
        ({"columns": {"x": [1]}}, "does not have"),
        ({"columns": {}}, "columns and units"),
        ({"times_ns": [2, 2]}, "do not increase"),
        ({"kept_of": 0}, "kept_of"),
        ({"ended": "bored"}, "ended"),
    ],
)
def test_samples_that_do_not_fit_together_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(document({"x": [1, 2]}, {"x": LEVEL}) | change, Samples)
