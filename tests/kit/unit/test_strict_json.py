# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit import toml
from ktrial.kit.errors import BadInput
from ktrial.kit.json_strict import NotStrictJson, decode, decode_as


@pytest.mark.parametrize(
    "text, item",
    [
        (r'{"a": "\ud800"}', "ud800"),
        (r'{"\uDFFF": 1}', "uDFFF"),
        (r'["\\\ud800"]', "ud800"),
        (r'["\ud83d\ude00\udc00"]', "udc00"),
        (r'["\ud83d\ud83d\ude00"]', "ud83d"),
        (r'["\ud83dx"]', "ud83d"),
    ],
)
def test_half_a_character_is_refused_with_its_line(text: str, item: str) -> None:
    with pytest.raises(NotStrictJson, match="half of a surrogate pair") as caught:
        decode("\n\n" + text)
    assert (caught.value.line, caught.value.item) == (3, item)


@given(st.text(alphabet='\\ud83dDE0x\U0001f600"é\x9b'))
def test_whole_characters_are_read_however_they_are_written(text: str) -> None:
    assert decode(json.dumps({text: text})) == {text: text}
    assert decode(json.dumps([text], ensure_ascii=False)) == [text]


class Flat(msgspec.Struct):
    """A document that knows nothing of what is nested in it."""

    name: str = ""


@pytest.mark.parametrize("shape", [Flat, msgspec.json.Decoder(Flat), object])
@pytest.mark.parametrize(
    "data", [b'{"x":' + b"[" * 100_000, b'{"x":' * 100_000, b'{"name":"\xff"}', b'{"name":"\\ud800"}']
)
def test_a_typed_document_has_one_error(data: bytes, shape: type[Flat]) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_as(data, shape)


def test_nested_toml_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"f\.toml: cannot read TOML: nested too deeply"):
        toml.parse("a = " + "[" * 100_000, "f.toml", Flat, "hint")
