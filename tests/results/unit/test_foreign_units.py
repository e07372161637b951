# SPDX-License-Identifier: Apache-2.0
"""Units as others spell them."""

from __future__ import annotations

import pytest

from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.json_strict import NotStrictJson, decode
from ktrial.results.importers._units import json_signed, scale_of, signed_number


@pytest.mark.parametrize(
    "unit, number, base, value",
    [
        ("ms", "12.5", "s", 0.0125),
        ("Seconds", "101.2", "s", 101.2),
        ("µs", "3", "s", 3e-6),
        ("MB/s", "1.5", "B/s", 1.5e6),
        ("MiB/s", "1", "B/s", 1048576.0),
        ("Mbit/s", "8", "B/s", 1e6),
        ("%", "12", "ratio", 0.12),
        ("Frames Per Second", "60", "1/s", 60.0),
        ("KiB", "2", "B", 2048.0),
        ("mW", "5", "W", 0.005),
    ],
)
def test_into_base_units(unit: str, number: str, base: str, value: float) -> None:
    scale = scale_of(unit)
    assert scale is not None
    assert (scale.unit, scale.value(number, "f", 1, "a value")) == (base, value)


@pytest.mark.parametrize("unit", ["MIPS", "", "mb", "mB/s", "Mb/s", "m", "furlong"])
def test_what_could_mean_two_things_is_not_known(unit: str) -> None:
    assert scale_of(unit) is None


@pytest.mark.parametrize("text", ["1", "-1.5", "+2", ".5", "3.", "1e-9", " 7 "])
def test_numbers(text: str) -> None:
    assert float(signed_number(text, "f", 1, "a value")) == float(text)


@pytest.mark.parametrize("text", ["", "1,5", "1.000,5", "nan", "inf", "-inf", "0x10", "1_000", "١", "1e999", "1 2"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(UnreadableOutput) as caught:
        signed_number(text, "f", 7, "a value")
    assert caught.value.message.startswith("f:7: ")
    assert ("instead of a comma" in caught.value.message) == ("," in text)


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf")])
def test_what_is_no_number_in_json(value: object) -> None:
    with pytest.raises(UnreadableOutput, match="a finite number"):
        json_signed(value, "f", "x")


@pytest.mark.parametrize("value", [10**31, -(10**400), 1e31])
def test_numbers_too_large_are_refused_as_such(value: float) -> None:
    with pytest.raises(UnreadableOutput, match="is not a number below 1e30"):
        json_signed(value, "f", "x")


def test_the_line_of_a_nan_is_told() -> None:
    with pytest.raises(NotStrictJson) as caught:
        decode('{"a": "NaN",\n "b": [1,\n NaN]}')
    assert caught.value.line == 3
