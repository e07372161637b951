# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kernels.config.kconfig_expression import demands, level, read_expression, show_expression, words
from ktrial.kit.errors import UnreadableOutput

VALUES = {"A": "y", "B": "m", "PAHOLE_VERSION": "124", "NAME": '"text"'}


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("A", 2),
        ("B", 1),
        ("C", 0),
        ("!C", 2),
        ("!B", 1),
        ("A && B", 1),
        ("B || A", 2),
        ("!A || (B && C)", 0),
        ("A && $(success,test)", None),
        ("C && $(success,test)", 0),
        ("A || $(cc-option,-mfoo(x))", 2),
        ("PAHOLE_VERSION >= 121", 2),
        ("PAHOLE_VERSION < 0x10", 0),
        ('NAME = "text"', 2),
        ("C != n", 0),
        ("A=y && C=n # and a comment", 2),
        ("!(A = y)", 0),
        ("$(cc-name) = gcc", None),
        ("y", 2),
        ("NAME > 3", 0),
    ],
)
def test_what_a_condition_is_worth(text: str, wanted: int | None) -> None:
    assert level(read_expression(text), VALUES) == wanted


def test_its_parts() -> None:
    found = read_expression("A && (B || !C) && !(D = y) && E >= 3")
    assert [show_expression(one) for one in demands(found)] == ["A", "B || !C", "!(D = y)", "E >= 3"]
    assert show_expression(found) == "A && (B || !C) && !(D = y) && E >= 3"
    assert words(found) == ("A", "B", "C", "D", "E")
    assert show_expression(read_expression('A = "x" || $(shell,a (b))')) == 'A = "x" || $(shell,a (b))'


@pytest.mark.parametrize("text", ["", "A &&", "(A", "A B", "A = ", "$(open", "&& A", "(" * 500, "!" * 500 + "A"])
def test_what_is_none_is_said(text: str) -> None:
    with pytest.raises(UnreadableOutput, match="not valid in"):
        read_expression(text)


@settings(max_examples=50)
@given(st.text(alphabet="AByn01 &|!()=<>\"'$,#", max_size=60))
def test_anything_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UnreadableOutput):
        found = read_expression(text)
        assert level(read_expression(show_expression(found)), VALUES) == level(found, VALUES)
