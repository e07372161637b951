# SPDX-License-Identifier: Apache-2.0
"""Helpers for readers of benchmark tools' output: text, strict numbers, base units, strict JSON.

A reader is a pure function from bytes to a record. It skips unknown lines. It raises `UnreadableOutput` for a line that
it knows but cannot read, and for a text in which it recognises nothing: no failure ever becomes 0.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Container, Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.json_strict import NotStrictJson, decode

#: A message quotes at most this many characters of an offending text.
SHOWN_CHARACTERS = 120
#: No tool counts or measures anything larger.
LARGEST = 10**30
#: Unit in a tool's output -> base unit, numerator, denominator.
SCALES: Mapping[str, tuple[str, int, int]] = {
    "s": ("s", 1, 1),
    "ms": ("s", 1, 1_000),
    "us": ("s", 1, 1_000_000),
    "ns": ("s", 1, 1_000_000_000),
    "1/s": ("1/s", 1, 1),
    "B/s": ("B/s", 1, 1),
    "bit/s": ("B/s", 1, 8),
    "KiB/s": ("B/s", 1024, 1),
    "MiB/s": ("B/s", 1024**2, 1),
    "GiB/s": ("B/s", 1024**3, 1),
    "count": ("count", 1, 1),
    "score": ("score", 1, 1),
}
_DECIMAL = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_COMMA = re.compile(r"-?\d+,\d+", re.ASCII)


class Quantity(msgspec.Struct, frozen=True):
    """A number that a tool printed: `value` in the base unit, `original` as printed, with its unit."""

    value: float
    original: str


def for_message(text: str) -> str:
    """Return a text cut to the length that a message may quote."""
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def unreadable(source: str, line: int | None, item: str, wanted: str) -> UnreadableOutput:
    """Return the error that all readers raise, with `item` cut to the length that a message may quote."""
    return UnreadableOutput(source, line, for_message(item), wanted)


def unreadable_value(source: str, value: object, wanted: str) -> UnreadableOutput:
    """Return the error for a value of a JSON document, which the message shows as JSON."""
    import json  # slow to load

    return UnreadableOutput(source, None, for_message(json.dumps(value)), wanted, is_json=True)


@contextlib.contextmanager
def with_hint(hint: str) -> Iterator[None]:
    """Add a hint to an UnreadableOutput that has none: the caller of a reader knows what the user can do."""
    try:
        yield
    except UnreadableOutput as error:
        error.hint = error.hint or hint
        raise


def decode_output(data: bytes, source: str) -> str:
    """Return the text of an output. Raise UnreadableOutput if it is empty, binary or not UTF-8."""
    if not data.strip():
        raise UnreadableOutput(source, None, "", "text: it is empty")
    if b"\0" in data:
        raise UnreadableOutput(source, data.count(b"\n", 0, data.index(b"\0")) + 1, "\0", "text: it is binary")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableOutput(source, line, data[error.start : error.start + 8].hex(" "), "UTF-8 text") from None


def numbered(data: bytes, source: str) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of each line of an output, without line ends."""
    return _lines(decode_output(data, source))


def ended_lines(data: bytes, source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines like `numbered`. Raise UnreadableOutput if the last line is cut off: digits may be missing."""
    text = decode_output(data, source)
    if not text.endswith("\n"):
        *_, last = text.rpartition("\n")
        raise unreadable(source, text.count("\n") + 1, last, "a complete line: the output is cut off")
    return _lines(text)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    begin, number = 0, 0
    while begin < len(text):
        number += 1
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        yield number, text[begin:end].rstrip("\r")
        begin = end + 1


def number(text: str, source: str, line: int | None, wanted: str) -> float:
    """Return a decimal number from 0 to LARGEST. Raise UnreadableOutput for other texts, such as one with a comma."""
    stripped = text.strip()
    if not _DECIMAL.fullmatch(stripped):
        hint = " with a decimal point, as the C locale prints it" if _COMMA.fullmatch(stripped) else ""
        raise unreadable(source, line, text, f"a decimal number{hint} ({wanted})")
    value = float(stripped)
    if not 0 <= value <= LARGEST:
        raise unreadable(source, line, text, f"{_allowed(value)} ({wanted})")
    return value


def _allowed(value: float) -> str:
    """Return what was expected in place of a number out of range."""
    return "a number below 1e30" if value > LARGEST else "a finite number of 0 or more"


def whole(text: str, source: str, line: int | None, wanted: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit()):
        raise unreadable(source, line, text, f"a whole number ({wanted})")
    if len(stripped) > 30:
        raise unreadable(source, line, text, f"a number below 1e30 ({wanted})")
    return int(stripped)


def in_base(value: float | str, unit: str) -> float:
    """Convert a value from `unit` (a key of SCALES) to its base unit, rounding once: 750.16 ms are 0.75016 s."""
    _, numerator, denominator = SCALES[unit]
    return float(Decimal(str(value)) * numerator / denominator)


def quantity(text: str, unit: str, source: str, line: int | None, wanted: str) -> Quantity:
    """Return a printed number in its base unit and as printed; `unit` is a key of SCALES."""
    number(text, source, line, wanted)
    return Quantity(in_base(text.strip(), unit), f"{text.strip()} {unit}")


def json_quantity(value: object, unit: str, source: str, wanted: str) -> Quantity:
    """Return a number of a JSON document in its base unit and as printed; `unit` is a key of SCALES."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unreadable_value(source, value, f"a number ({wanted})")
    if not 0 <= value <= LARGEST:
        raise unreadable_value(source, value, f"{_allowed(value)} ({wanted})")
    return Quantity(in_base(value, unit), f"{value} {unit}")


def json_whole(value: object, source: str, wanted: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise unreadable_value(source, value, f"a whole number ({wanted})")
    if value > LARGEST:
        raise unreadable_value(source, value, f"a number below 1e30 ({wanted})")
    return value


def json_table(value: object, source: str, wanted: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise unreadable_value(source, value, f"a JSON object ({wanted})")
    return value


def json_list(value: object, source: str, wanted: str) -> list[Any]:
    if not isinstance(value, list):
        raise unreadable_value(source, value, f"a JSON array ({wanted})")
    return value


def json_document(data: bytes | str, source: str, repeated: Container[str] = ()) -> dict[str, Any]:
    """Return a JSON object. Raise UnreadableOutput for NaN, Infinity and repeated keys, except those in `repeated`."""
    text = decode_output(data, source) if isinstance(data, bytes) else data
    try:
        document = decode(text, repeated)
    except NotStrictJson as error:
        raise unreadable(source, error.line, error.item, error.wanted) from None
    return json_table(document, source, "the document")


def nearest_rank(histogram: Mapping[int, int], fraction: float, beyond: int = 0) -> int | None:
    """Return the smallest key with at least `fraction` of all counts at or below it.

    Return None without samples, or if the rank falls among the `beyond` samples, which exceed every key.
    """
    total = sum(histogram.values()) + beyond
    rank = max(1, math.ceil(fraction * total - 1e-9))
    count = 0
    for key in sorted(histogram):
        count += histogram[key]
        if total and count >= rank:
            return key
    return None
