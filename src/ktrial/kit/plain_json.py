# SPDX-License-Identifier: Apache-2.0
"""JSON for people: it escapes characters that a terminal or editor would obey or hide.

All JSON that ktrial prints or writes to a user's file goes through this module. The escapes do not change its meaning.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ktrial.kit.plain_text import UNPLAIN


def line(value: Any) -> str:
    return _escaped(msgspec.json.encode(value).decode()) + "\n"


def document(value: Any, *, indent: int = 1) -> bytes:
    return _escaped(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()).encode() + b"\n"


def _escaped(text: str) -> str:
    return UNPLAIN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    """Return the escape of a character: four hexadecimal digits, or two escapes if it is a surrogate pair."""
    halves = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))
