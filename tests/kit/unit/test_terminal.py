# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.tables import clean, columns, labelled, table

ROWS = [("vm.swappiness", "60", "10", "a longer text that has to be wrapped somewhere"), ("a.b", "1", "", "x")]


def test_a_table_as_it_is() -> None:
    assert table(("knob", "now", "wanted", "meaning"), ROWS, width=48).splitlines() == [
        "knob           now  wanted  meaning",
        "────────────────────────────────────────────────",
        "vm.swappiness  60   10      a longer text that",
        "                            has to be wrapped",
        "                            somewhere",
        "a.b            1            x",
    ]


def test_a_column_without_any_text_takes_no_room() -> None:
    assert table(("knob", ""), [("a.b", "")], width=20).splitlines() == ["knob", "──────", "a.b"]


words = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


@given(st.lists(st.tuples(words, words, words), max_size=6), st.integers(60, 120))
def test_never_wider_than_asked_and_no_word_is_lost(rows: list[tuple[str, str, str]], width: int) -> None:
    text = table(("a", "b", "c"), rows, width=width)
    assert max(map(len, text.splitlines())) <= width
    shown = "".join(text.split())
    assert sorted(shown.replace("─", "")) == sorted("".join("abc" + "".join(map("".join, rows))).replace(" ", ""))


def test_foreign_text_cannot_steer_the_terminal() -> None:
    assert clean("a\x1b[31mred\r\n\x07") == "a�[31mred� �"
    assert "\x1b" not in table(("a",), [("\x1b[2J",)], width=60)


def test_labelled_wraps_below_the_text() -> None:
    assert labelled("what", "one two three", width=24, label_columns=12) == "what        one two\n            three"
    assert labelled("a-long-label", "one", width=24, label_columns=12) == "a-long-label one"


@pytest.mark.parametrize("said, width", [("100", 100), ("40", 60), ("0", 80), ("-5", 80), ("wide", 80), ("", 80)])
def test_width_without_a_terminal(monkeypatch: pytest.MonkeyPatch, said: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", said)
    monkeypatch.setattr("os.get_terminal_size", lambda descriptor: (_ for _ in ()).throw(OSError()))
    assert columns() == width
