# SPDX-License-Identifier: Apache-2.0
"""Output of `systemd-analyze time`: how long each part of the boot took, and when the default target was reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

import msgspec

from ktrial.kit.formats.tool_output import Quantity, ended_lines, unreadable

_BEGIN = "Startup finished in "
_TERM = re.compile(r"(?P<span>[^()]{1,60}) \((?P<name>[a-z][a-z -]{0,30})\)")
_TARGET = re.compile(r"(?P<target>\S{1,255}) reached after (?P<span>.{1,60}?) in userspace\.?")
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(y|month|w|d|h|min|s|ms|us)", re.ASCII)
#: Units of systemd's time spans in microseconds; a month is a twelfth of a year of 365.25 days.
_MICROSECONDS = {
    "y": 31_557_600_000_000,
    "month": 2_629_800_000_000,
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "min": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}


class BootTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one boot; `terms` are its parts by name (`kernel`, `userspace`, …).

    `total` is None in a container, which has no kernel of its own. `reached` is the time in userspace until the boot
    reached the default `target`; both are None if the boot has not reached it.
    """

    terms: Mapping[str, Quantity]
    total: Quantity | None
    target: str | None
    reached: Quantity | None


def read_boot_times(data: bytes, source: str = "stdout") -> BootTimes:
    """Parse the times of a finished boot. Raise UnreadableOutput unless they appear exactly once."""
    terms: dict[str, Quantity] = {}
    total: Quantity | None = None
    target: tuple[str, Quantity] | None = None
    for line, text in ended_lines(data, source):
        if text.startswith(_BEGIN):
            if terms:
                raise unreadable(source, line, text, "the only boot in this output")
            terms, total = _terms(text.removeprefix(_BEGIN), source, line)
        elif match := _TARGET.fullmatch(text.rstrip()):
            if target is not None:
                raise unreadable(source, line, text, "the only target in this output")
            target = (match["target"], _span(match["span"], source, line))
    if not terms:
        raise unreadable(source, None, "", f"output of systemd-analyze: no line {_BEGIN!r}")
    return BootTimes(
        terms=terms, total=total, target=target[0] if target else None, reached=target[1] if target else None
    )


def _terms(text: str, source: str, line: int) -> tuple[dict[str, Quantity], Quantity | None]:
    """Parse `2.1s (kernel) + 1min 30.6s (userspace) = 1min 32.7s`."""
    left, equals, right = text.partition(" = ")
    terms: dict[str, Quantity] = {}
    for part in left.strip().split(" + "):
        match = _TERM.fullmatch(part)
        if match is None or match["name"] in terms:
            raise unreadable(source, line, part, "a time and a part of the boot, such as '2.124s (kernel)'")
        terms[match["name"]] = _span(match["span"], source, line)
    return terms, _span(right.strip(), source, line) if equals else None


def _span(text: str, source: str, line: int) -> Quantity:
    """Parse `1min 30.630s` or `784ms`; systemd writes a time below its resolution as `0`."""
    if text == "0":
        return Quantity(0.0, text)
    parts = [_PART.fullmatch(part) for part in text.split(" ")]
    units = [match[2] for match in parts if match is not None]
    order = [unit for unit in _MICROSECONDS if unit in units]
    if len(units) < len(parts) or units != order:
        raise unreadable(source, line, text, "a time span of the C locale, such as '1min 30.630s'")
    microseconds = sum(Decimal(match[1]) * _MICROSECONDS[match[2]] for match in parts if match is not None)
    return Quantity(float(microseconds / 1_000_000), text)
