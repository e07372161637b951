# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.judge.model.verdict import Effect
from ktrial.judge.model.words import (
    change_words,
    effect_phrase,
    effect_text,
    interval_phrase,
    percent_change,
    percent_text,
    range_text,
    range_words,
    size_text,
    times_words,
    value_log_ratio,
)
from ktrial.kit.outcome import Direction, Unit

UNITS = st.sampled_from(get_args(Unit))
DIRECTIONS: st.SearchStrategy[Direction | None] = st.sampled_from(["lower", "higher", None])
LOGS = st.floats(-8, 8, allow_nan=False)
LESS = re.compile(r"([\d.]+) % (less|lower) ")
MORE = re.compile(r"([\d.]+) % (more|higher) ")


def effect(estimate: float, low: float | None = None, high: float | None = None, **fields: object) -> Effect:
    return Effect(estimate=estimate, low=low, high=high, method="by hand", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "old, new, unit, words, times",
    [
        # Average latency of threads, 6.3 ms and 4.1 ms; "55 % lower" is of the wrong base.
        (6.3, 4.1, "s", "35 % less time", "1.54 times as fast"),
        (4808, 52, "s", "98.9 % less time", "92.5 times as fast"),
        (3581, 52, "s", "98.5 % less time", "68.9 times as fast"),
        (57, 88, "1/s", "54 % higher rate", "1.54 times the rate"),
        (2.0, 3.0, "s", "50 % more time", "1.5 times as long"),
        (100.0, 50.0, "score", "50 % lower score", "0.5 times the score"),
        (1.0, 0.00004, "s", "99.996 % less time", "2.5e+04 times as fast"),
        (1.0, 92.0, "B/s", "92 times the rate", "92 times the rate"),
        (1000.0, 999.5, "J", "0.05 % less energy", "1 times the energy"),
        (5.0, 5.0, "s", "the same time", "1 times as fast"),
    ],
)
def test_published_figures(old: float, new: float, unit: Unit, words: str, times: str) -> None:
    ratio = math.log(new / old)
    assert change_words(ratio, unit) == words
    assert times_words(ratio, unit) == times.replace("2.5e+04", "25000")


def test_a_phrase_holds_both_readings() -> None:
    score = -math.log(4.1 / 6.3)
    assert effect_phrase(effect(score), "s", "lower") == "35 % less time (1.54 times as fast)"
    assert effect_phrase(effect(score), "1/s", "higher") == "54 % higher rate (1.54 times the rate)"
    assert interval_phrase(effect(score, 0.36, 0.49), "s", "lower") == "95 % interval 30 % to 39 % less"
    assert effect_text(effect(score, 0.36, 0.49), "s", "lower") == ("-35 %", "-39 % to -30 %")
    assert interval_phrase(effect(0.0, -0.02, 0.04), "1/s", "higher") == "95 % interval 2 % less to 4.1 % more"
    assert effect_phrase(effect(0.0), "s", "lower") == "the same time"
    assert effect_text(None, "s", None) == ("-", "-")


def test_differences_are_told_in_their_unit() -> None:
    told = effect(0.003, 0.001, 0.005, scale="difference")
    assert effect_phrase(told, "s", "lower") == "3 ms less time"
    assert interval_phrase(told, "s", "lower") == "95 % interval -5 ms to -1 ms"
    assert effect_text(told, "count", "higher") == ("+0.003", "+0.001 to +0.005")
    assert effect_text(effect(2048.0, scale="difference"), "B", "lower") == ("-2 KiB", "-")


def test_an_interval_that_begins_at_nothing() -> None:
    assert range_words(0.0, math.log(1.05)) == "0 % to 5 % more"
    assert range_words(math.log(0.95), 0.0) == "0 % to 5 % less"
    assert range_words(math.log(0.9), math.log(0.8)) == "10 % to 20 % less"
    assert range_words(math.log(378), math.log(431)) == "378 to 431 times as much"
    assert range_words(math.log(0.5), math.log(12)) == "0.5 to 12 times as much"


def test_many_times_as_much_is_no_percentage_in_a_table() -> None:
    effect = Effect(estimate=-math.log(406), low=-math.log(431), high=-math.log(378), method="by hand")
    assert effect_text(effect, "s", "lower") == ("406x", "378x to 431x")
    less = Effect(estimate=math.log(406), low=math.log(378), high=math.log(431), method="by hand")
    assert effect_text(less, "s", "lower")[0] == "-99.75 %"


def test_ends_that_look_alike_get_more_digits() -> None:
    low, high = math.log(1.9987), math.log(2.0014)
    assert range_text(low, high) == "+99.87 % to +100.1 %"
    assert range_words(low, high) == "99.87 % to 100.1 % more"
    assert range_text(low, low) == "+100 % to +100 %"
    assert range_text(math.log(0.97977), math.log(1.02011)) == "-2 % to +2 %"


def test_no_number_is_no_effect() -> None:
    with pytest.raises(ValueError, match="must be a number"):
        percent_text(math.nan)


@given(LOGS, UNITS)
def test_words_and_factors_cannot_disagree(ratio: float, unit: Unit) -> None:
    """What a phrase says, read back as a reader would: a percentage is of the old value, whichever way it goes."""
    words, times = change_words(ratio, unit), times_words(ratio, unit)
    factor = float(times.split()[0])
    if unit == "s":
        factor = 1 / factor if times.endswith("fast") else factor
    assert math.log(factor) == pytest.approx(ratio, abs=0.006)
    less, more = LESS.match(words), MORE.match(words)
    if less is not None:
        assert ratio < 0
        assert float(less[1]) < 100
        left = 1 - float(less[1]) / 100
        assert left == pytest.approx(math.exp(ratio), rel=0.06, abs=0.0051)
    elif more is not None:
        assert ratio > 0
        assert 1 + float(more[1]) / 100 == pytest.approx(math.exp(ratio), rel=0.006)
    else:
        assert words == times or (words.startswith("the same") and abs(ratio) < 1e-4)


@given(st.floats(0.05, 5), UNITS)
def test_a_percentage_of_the_wrong_base_is_never_said(size: float, unit: Unit) -> None:
    """Of what became less by a factor f, "1 - f" of it is gone, never "1 / f - 1"."""
    said = LESS.match(change_words(-size, unit))
    assert said is not None
    assert float(said[1]) == pytest.approx(-100 * math.expm1(-size), abs=0.51)
    assert abs(float(said[1]) - 100 * math.expm1(size)) > 0.1 or size < 0.06


@given(st.floats(allow_nan=False), UNITS)
def test_no_number_is_too_large(ratio: float, unit: Unit) -> None:
    for text in (percent_text(ratio), change_words(ratio, unit), times_words(ratio, unit)):
        assert 0 < len(text) < 60


@given(LOGS, DIRECTIONS)
def test_direction_turns_the_score_and_not_the_words(score: float, direction: Direction | None) -> None:
    ratio = value_log_ratio(score, direction)
    assert ratio == (-score if direction == "lower" else score)
    sign = percent_text(ratio)[0]
    assert sign in "+-0"
    assert sign == "0" or (sign == "-") == (percent_change(ratio) < 0)


@given(LOGS, LOGS)
def test_an_interval_names_both_its_ends(one: float, other: float) -> None:
    text = range_words(one, other)
    assert text == range_words(other, one)
    assert text.count("%") == (0 if max(one, other) > math.log(11) else 2)


@pytest.mark.parametrize("unit, text", [("count", "lower count"), ("s", "less time"), ("1/s", "lower rate")])
def test_a_noun_has_the_adjective_that_goes_with_it(unit: Unit, text: str) -> None:
    assert change_words(math.log(0.5), unit) == f"50 % {text}"


@pytest.mark.parametrize(
    "size, text",
    [(0.0, "0 %"), (0.004, "0.4 %"), (0.33, "39 %"), (0.83, "130 %"), (2.5, "12 times"), (9.68, "16000 times")],
)
def test_sizes_have_two_digits_and_no_exponent(size: float, text: str) -> None:
    assert size_text(size) == text
    assert "e+" not in size_text(1e4)
