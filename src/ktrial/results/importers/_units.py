# SPDX-License-Identifier: Apache-2.0
"""Units as foreign files spell them, and numbers that may be negative."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

import msgspec

from ktrial.kit.formats.tool_output import LARGEST, unreadable, unreadable_value
from ktrial.kit.outcome import Unit

_NUMBER = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_COMMA = re.compile(r"[-+]?[\d.]*,\d+", re.ASCII)

#: Quantities in these units are never negative; scores, ratios and a battery's power may be.
_NEVER_NEGATIVE: Mapping[Unit, str] = {
    "s": "a time",
    "1/s": "a rate",
    "B/s": "a rate",
    "B": "a size",
    "count": "a count",
}


class Scale(msgspec.Struct, frozen=True):
    """A conversion: a value times `numerator` over `denominator` is in the base unit `unit`."""

    unit: Unit
    numerator: int = 1
    denominator: int = 1

    def value(self, number: str | float, source: str, line: int | None, wanted: str) -> float:
        """Convert a number, rounding once. Raise UnreadableOutput for a time, rate, size or count below 0."""
        what = _NEVER_NEGATIVE.get(self.unit)
        if what is not None and float(number) < 0:
            raise unreadable(source, line, str(number), f"{what} of 0 or more ({wanted})")
        if self.numerator == self.denominator:
            return float(number)
        return float(Decimal(str(number)) * self.numerator / self.denominator)


#: The scale of numbers in unknown units, which are stored unchanged as scores.
AS_IT_STANDS = Scale("score")
#: Units whose case matters.
_EXACT: Mapping[str, Scale] = {
    "B": Scale("B"),
    "KiB": Scale("B", 1024),
    "MiB": Scale("B", 1024**2),
    "GiB": Scale("B", 1024**3),
    "kB": Scale("B", 1000),
    "KB": Scale("B", 1000),
    "MB": Scale("B", 10**6),
    "GB": Scale("B", 10**9),
    "J": Scale("J"),
    "mJ": Scale("J", 1, 1000),
    "W": Scale("W"),
    "mW": Scale("W", 1, 1000),
    "%": Scale("ratio", 1, 100),
    "B/s": Scale("B/s"),
    "MB/sec": Scale("B/s", 10**6),
    **{f"{name}/s": Scale("B/s", 1024**power) for power, name in enumerate(("KiB", "MiB", "GiB"), 1)},
    **{f"{name}/s": Scale("B/s", 1000**power) for power, name in ((1, "kB"), (1, "KB"), (2, "MB"), (3, "GB"))},
    **{f"{name}/s": Scale("B/s", 1000**power, 8) for power, name in ((1, "kbit"), (2, "Mbit"), (3, "Gbit"))},
    "bit/s": Scale("B/s", 1, 8),
}
#: Units whose case does not matter, in lower case.
_WORDS: Mapping[str, Scale] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Scale("s")),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), Scale("s", 1, 10**3)),
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds"), Scale("s", 1, 10**6)),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"), Scale("s", 1, 10**9)),
    **dict.fromkeys(("min", "minute", "minutes"), Scale("s", 60)),
    **dict.fromkeys(("1/s", "hz", "ops/s", "ops/sec", "fps", "iops", "frames per second"), Scale("1/s")),
    **dict.fromkeys(("requests per second", "operations per second", "transactions per second"), Scale("1/s")),
    **dict.fromkeys(("1/min", "ops/min"), Scale("1/s", 1, 60)),
    **dict.fromkeys(("byte", "bytes"), Scale("B")),
    **dict.fromkeys(("bytes/s", "bytes/sec"), Scale("B/s")),
    **dict.fromkeys(("bits/s", "bits/sec"), Scale("B/s", 1, 8)),
    **dict.fromkeys(("percent",), Scale("ratio", 1, 100)),
    **{name: Scale(name) for name in ("count", "score", "ratio")},
    **dict.fromkeys(("watt", "watts"), Scale("W")),
    **dict.fromkeys(("joule", "joules"), Scale("J")),
}


def scale_of(unit: str) -> Scale | None:
    """Return the conversion of a unit; None if the unit is unknown."""
    text = unit.strip()
    return _EXACT.get(text) or _WORDS.get(text.lower())


def known_units() -> tuple[str, ...]:
    return (*_EXACT, *_WORDS)


def signed_number(text: str, source: str, line: int | None, wanted: str) -> str:
    """Return the stripped text of a decimal number. Raise UnreadableOutput for other texts and huge numbers.

    If a comma stands in place of the decimal point, the message says so.
    """
    stripped = text.strip()
    if not _NUMBER.fullmatch(stripped):
        hint = " with a decimal point instead of a comma" if _COMMA.fullmatch(stripped) else ""
        raise unreadable(source, line, text, f"a decimal number{hint} ({wanted})")
    if abs(float(stripped)) > LARGEST:
        raise unreadable(source, line, text, f"a number below 1e30 ({wanted})")
    return stripped


def json_signed(value: object, source: str, wanted: str) -> float:
    is_not_finite = isinstance(value, float) and not math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or is_not_finite:
        raise unreadable_value(source, value, f"a finite number ({wanted})")
    if abs(value) > LARGEST:
        raise unreadable_value(source, value, f"a number below 1e30 ({wanted})")
    return value
