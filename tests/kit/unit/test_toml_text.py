# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from ktrial.kit.errors import BadInput
from ktrial.kit.toml import parse, parse_bytes


class Design(msgspec.Struct, forbid_unknown_fields=True):
    cap: int = 0


class Arm(msgspec.Struct, forbid_unknown_fields=True):
    cap: int = 0


class File(msgspec.Struct, forbid_unknown_fields=True):
    cap: int = 0
    design: Design = msgspec.field(default_factory=Design)
    arm: list[Arm] = []


@pytest.mark.parametrize(
    "text, told",
    [
        ("cap = 1\n[design]\n  cap = 'x'\n", "f.toml:3:3: design.cap: expected `int`, got `str`"),
        ("[[arm]]\ncap = 1\n[[arm]]\ncap = 'x'\n", "f.toml:4:1: arm[1].cap: expected `int`, got `str`"),
        ("cap = 1\ncup = 2\n", "f.toml:2:1: object contains unknown field `cup`"),
        ("cap = 1\n[design]\ncup = 2\n", "f.toml:3:1: design: object contains unknown field `cup`"),
        ("cap = 1 2\n", "f.toml:1:9: invalid TOML: expected newline or end of document after a statement"),
    ],
)
def test_the_place_is_told(text: str, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text, "f.toml", File, "try another")
    assert (caught.value.message, caught.value.hint) == (told, "try another")


def test_what_is_right_is_read_and_what_is_no_text_is_refused() -> None:
    assert parse_bytes(b"design.cap = 7", "f.toml", File, "") == File(design=Design(cap=7))
    with pytest.raises(BadInput, match=r"f\.toml:1:2: not UTF-8 text \(byte 1\)"):
        parse_bytes(b"c\xff", "f.toml", File, "")
