# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.compare.claims.file import parse_claim_file
from ktrial.judge.model.claim import EXAMPLES, change_range, parse_change, parse_claim, parse_printed
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Direction, Unit


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_error_can_be_read(example: str) -> None:
    claim = parse_claim(example.strip("'"))
    parse_change(claim.change, "s", "lower")


def test_a_claim_is_an_outcome_and_a_change() -> None:
    claim = parse_claim("bore: latency p50 43% lower")
    assert (claim.arm, claim.outcome, claim.change) == ("bore", "latency p50", "43% lower")
    claim = parse_claim("fio.read-bandwidth +12.5%")
    assert (claim.arm, claim.outcome, claim.change) == (None, "fio.read-bandwidth", "+12.5%")


@pytest.mark.parametrize("text", ["", "p50", "+5%", "p50 five", "p50 -5", "p50 5%", "p50 %", "p50 --5%", "a: b"])
def test_what_cannot_be_read_is_answered_with_examples(text: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_claim(text)
    assert "'p50 -43%'" in str(error.value.hint)


@pytest.mark.parametrize(
    "text, unit, direction, factor",
    [
        ("-35%", "s", "lower", 0.65),
        ("+54 %", "1/s", "higher", 1.54),
        ("35% lower", "s", "lower", 0.65),
        ("11% higher", "s", "lower", 1.11),
        ("1.8x faster", "s", "lower", 1 / 1.8),
        ("1.8x", "s", "lower", 1 / 1.8),
        ("1.8x", "1/s", "higher", 1.8),
        ("1.5 times as long", "s", "lower", 1.5),
        ("2.0x slower", "s", "lower", 2.0),
        ("2.0x slower", "1/s", "higher", 0.5),
        ("1.54 times as fast", "s", "lower", 1 / 1.54),
        ("20% worse", "score", "higher", 0.8),
        ("20% better", "score", "lower", 0.8),
        ("10% faster", "1/s", None, 1.1),
    ],
)
def test_what_a_change_says_of_the_value(text: str, unit: Unit, direction: Direction | None, factor: float) -> None:
    stated = parse_change(text, unit, direction)
    assert any(one.low < math.log(factor) < one.high for one in stated.ranges)
    assert all(abs(one.low - math.log(factor)) < 0.07 for one in stated.ranges)
    assert stated.sign == (1 if factor > 1 else -1)


def test_a_time_that_is_faster_may_be_meant_in_two_ways() -> None:
    stated = parse_change("9% faster", "s", "lower")
    assert [one.reading for one in stated.ranges] == ["as a change of speed", "in percent of the old value"]
    assert stated.ranges[0].overlaps(-math.log(1.09), -math.log(1.09))
    assert stated.ranges[1].overlaps(math.log(0.91), math.log(0.91))


def test_rounding_is_what_the_digits_say() -> None:
    (plain,) = parse_change("-35%", "s", "lower").ranges
    assert (plain.low, plain.high) == pytest.approx((math.log(0.645), math.log(0.655)))
    (fine,) = parse_change("-35.0%", "s", "lower").ranges
    assert (fine.low, fine.high) == pytest.approx((math.log(0.6495), math.log(0.6505)))
    (about,) = parse_change("~35% lower", "s", "lower").ranges
    assert (about.low, about.high) == pytest.approx((math.log(0.64), math.log(0.66)))


def test_the_wrong_base_is_recognised() -> None:
    """6.3 ms to 4.1 ms is 35 % lower; 6.3 is 54 % more than 4.1."""
    stated = parse_change("54% lower", "s", "lower")
    assert stated.wrong_base is not None
    assert stated.wrong_base.overlaps(math.log(4.1 / 6.3), math.log(4.1 / 6.3))
    assert parse_change("150% higher", "s", "lower").wrong_base is None


@given(st.floats(1, 99))
def test_right_and_wrong_base_are_never_the_same(size: float) -> None:
    text = f"-{size:.2f}%"
    stated = parse_change(text, "s", "lower")
    assert stated.wrong_base is not None
    right = stated.ranges[0]
    assert right.high < stated.wrong_base.low or size < 3


@pytest.mark.parametrize("text", ["101% lower", "250% less", "0x", "-120%"])
def test_impossible_changes(text: str) -> None:
    with pytest.raises(BadInput):
        parse_change(text, "s", "lower")


def test_a_word_that_does_not_tell_the_way() -> None:
    with pytest.raises(BadInput, match="cannot tell whether better means lower or higher"):
        parse_change("5% better", "score", None)
    assert parse_change("lower", "score", None).ranges[0].high == 0
    assert not parse_change("lower", "score", None).sized


def test_unchanged_is_within_the_margin() -> None:
    stated = parse_change("unchanged", "s", "lower", 0.05)
    assert stated.sign == 0
    assert stated.ranges[0].high == pytest.approx(math.log(1.05))


@pytest.mark.parametrize(
    "text, value, low, high, unit",
    [
        ("4,808 us", 4808, 4807.5, 4808.5, "us"),
        ("900K", 900e3, 899.5e3, 900.5e3, ""),
        ("79.800 sec", 79.8, 79.7995, 79.8005, "sec"),
        ("~12", 12, 11, 13, ""),
        ("22,328 MB/s", 22328, 22327.5, 22328.5, "MB/s"),
        ("6.93s", 6.93, 6.925, 6.935, "s"),
    ],
)
def test_printed_numbers(text: str, value: float, low: float, high: float, unit: str) -> None:
    found = parse_printed(text)
    assert (found.value, found.low, found.high) == pytest.approx((value, low, high))
    assert found.unit == unit


def test_the_range_of_a_ratio_of_printed_numbers() -> None:
    value, low, high = change_range(parse_printed("10.7 ms"), parse_printed("12.0 ms"))
    assert (value, low, high) == pytest.approx((math.log(12 / 10.7), math.log(11.95 / 10.75), math.log(12.05 / 10.65)))
    for bad in ("0", "-3"):
        with pytest.raises(BadInput, match="above zero"):
            change_range(parse_printed(bad), parse_printed("1"))
    with pytest.raises(BadInput, match="expected a printed number"):
        parse_printed("many")


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        claim = parse_claim(text)
        parse_change(claim.change, "s", "lower")
    except BadInput as error:
        assert error.hint


@pytest.mark.parametrize(
    "text, said",
    [
        (b"\xff", "not UTF-8 text (byte 0)"),
        (b"x = [", ":1: invalid TOML: "),
        (b"", "the file has no claims"),
        (b"[[change]]\nwhat='a'\nfrom='1'\nto='2'\n", "says"),
        (b"[[change]]\nwhat='a'\nfrom='1'\nto='2'\nsays='+1%'\nwho='me'\n", ":6:1: "),
        (
            b"[[tukey]]\nwhat='t'\ngroup=[]\npair=[{first='a',second='b',q='1'}]\n",
            "'a' is not a group of the [[tukey]] table 't'",
        ),
        (
            b"[[tukey]]\nwhat='t'\ngroup=[{name='a',mean='1',sd='1',n=1}]\npair=[]\n",
            "group 'a' of the [[tukey]] table 't' has n = 1",
        ),
    ],
)
def test_bad_files_of_claims(text: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=r"^claims\.toml:(\d+:)* ") as error:
        parse_claim_file(text, "claims.toml")
    assert said in str(error.value)
    assert "[[change]]" in str(error.value.hint) or "the groups of the table" in str(error.value.hint)
