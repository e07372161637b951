# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import tomllib
import unicodedata

import pytest

from ktrial.kit import plain_json
from ktrial.kit.plain_text import plain
from ktrial.kit.toml import quoted

#: All that a terminal obeys or that turns or hides text: categories of Unicode, by its own table.
STEERING = [chr(number) for number in range(0x110000) if unicodedata.category(chr(number)) in {"Cc", "Zl", "Zp"}]
#: Directions and what has no width.
HIDING = [chr(number) for number in [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070)]]
HIDING += ["\N{ARABIC LETTER MARK}", "\ufeff", "\N{SOFT HYPHEN}", "\U000e0001", "\U000e0041"]


def test_nothing_of_it_stands_in_json_and_all_of_it_is_said() -> None:
    value = {one: [f"a{one}b"] for one in [*STEERING, *HIDING]} | {"é ✓": "日本 \\u0041 \U0001f600"}
    for text in (plain_json.line(value), plain_json.document(value).decode()):
        assert json.loads(text) == value
        assert not {*STEERING, *HIDING, "\n"} & set(text.replace("\n", ""))
        assert "é ✓" in text
        assert "日本 \\\\u0041 \U0001f600" in text
    assert plain_json.line({"a": [1]}) == '{"a":[1]}\n'
    assert plain_json.document({"a": [1]}, indent=2) == b'{\n  "a": [\n    1\n  ]\n}\n'


def test_escapes_are_those_of_json() -> None:
    assert plain_json.line("\x7f\x9b\u202e\ufeff\U000e0001") == '"\\u007f\\u009b\\u202e\\ufeff\\udb40\\udc01"\n'


def test_toml_has_its_own_beyond_four_digits() -> None:
    value = "".join([*STEERING, *HIDING, '"\\é\U0001f600'])
    text = quoted(value)
    assert tomllib.loads(f"a = {text}") == {"a": value}
    assert not {*STEERING, *HIDING} & set(text)
    assert quoted("\U000e0001") == '"\\U000e0001"'


@pytest.mark.parametrize("one", [*STEERING, *HIDING, "\ud800"])
def test_text_shows_it(one: str) -> None:
    assert plain(f"a{one}b") == (f"a{one}b" if one in "\n\t" else f"a{ascii(one)[1:-1]}b")


def test_other_text_stays() -> None:
    assert plain("é ✓ 日本\U0001f600 \n\t") == "é ✓ 日本\U0001f600 \n\t"
