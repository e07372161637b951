# SPDX-License-Identifier: Apache-2.0
"""Strict JSON for measurements: one document, no repeated keys, finite numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Container
from functools import partial
from typing import Any, TypeVar

import msgspec

from ktrial.kit.errors import in_lower_case

#: Messages quote this many characters before and after a fault.
_AROUND = 20
#: The rest of a word or number that was cut off at the end of the text.
_CUT = re.compile(r"[a-z]{1,4}|[-.eE+]{1,2}")
_CONSTANTS = ("NaN", "Infinity", "-Infinity")
_CONSTANT = re.compile(r"(?<=[\s\[:,])-?(?:NaN|Infinity)(?=[\s,\]}])")

_HALF = "\\ud"
#: Escapes in JSON: a surrogate pair is one character; `half` matches a surrogate that stands alone.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)

T = TypeVar("T")


class NotStrictJson(ValueError):
    """Invalid JSON: `item` is the text at the fault, `wanted` what was expected, `line` the line number if known."""

    def __init__(self, line: int | None, item: str, wanted: str) -> None:
        super().__init__(f"{item!r} is not {wanted}")
        self.line = line
        self.item = item
        self.wanted = wanted


def decode(text: str, repeated: Container[str] = ()) -> Any:
    """Decode a document. Raise NotStrictJson if it is invalid.

    A key in `repeated` may occur again; its last value counts.
    """
    import json  # slow to load, and most commands read only replies of the agent

    try:
        document = json.loads(
            text, object_pairs_hook=partial(_table, repeated), parse_constant=_refuse, parse_float=_finite
        )
        _check_characters(text)
        return document
    except json.JSONDecodeError as error:
        item = text[max(0, error.pos - _AROUND) : error.pos + _AROUND]
        raise NotStrictJson(error.lineno, item, f"complete JSON ({_why(error.msg)})") from None
    except NotStrictJson as error:
        if found := _CONSTANT.search(text) if error.item in _CONSTANTS else None:
            error.line = text.count("\n", 0, found.start()) + 1
        raise
    except RecursionError:
        raise NotStrictJson(None, "", "readable JSON: it is nested too deeply") from None
    except ValueError as error:
        raise NotStrictJson(None, "", f"readable JSON: {in_lower_case(str(error))}") from None


def decode_as(data: bytes | str, shape: type[T] | msgspec.json.Decoder[T]) -> T:
    """Decode a document as `shape`. Raise msgspec.DecodeError on failure, also for deep nesting and invalid UTF-8."""
    try:
        return shape.decode(data) if isinstance(shape, msgspec.json.Decoder) else msgspec.json.decode(data, type=shape)
    except msgspec.DecodeError as error:
        raise type(error)(in_lower_case(str(error))) from None
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8: {error.reason} at byte {error.start} of a text") from None


def _why(message: str) -> str:
    return in_lower_case(message).removesuffix(" starting at")


def _check_characters(text: str) -> None:
    """Raise NotStrictJson for an unpaired surrogate: no file, database or terminal accepts it."""
    for found in _ESCAPE.finditer(text) if _HALF in text.lower() else ():
        if found["half"] is not None:
            line = text.count("\n", 0, found.start()) + 1
            raise NotStrictJson(line, found["half"], "a complete character, only half of a surrogate pair")


def fault(text: str) -> str | None:
    """Describe where JSON text breaks off or is invalid. Return None if it is complete, or is not meant as JSON."""
    import json

    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        end = len(text.rstrip())
        if error.msg.startswith("Extra data"):
            return None
        if error.pos >= end or error.msg.startswith("Unterminated string") or _CUT.fullmatch(text[error.pos : end]):
            line, column = text.count("\n", 0, end) + 1, end - text.rfind("\n", 0, end) - 1
            return f"its JSON breaks off after line {line}, column {column}"
        return f"its JSON is broken at line {error.lineno}, column {error.colno} ({_why(error.msg)})"
    except (ValueError, RecursionError):
        return None
    return None


def _table(repeated: Container[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen and key not in repeated:
                raise NotStrictJson(None, key, "the only key of this name in its JSON object")
            seen.add(key)
    return result


def _refuse(name: str) -> Any:
    raise NotStrictJson(None, name, "a finite number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotStrictJson(None, text, "a finite number")
    return value
