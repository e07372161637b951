# SPDX-License-Identifier: Apache-2.0
"""When a run of a foreign file was, by the clock that the file tells: only a time of day tells an order."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: The clock that may step: good for an order only where no better one is shared.
WALL = "wall"
#: A time of day without its zone: comparable with others of its kind only.
LOCAL = "wall, zone not told"
#: Names that files use for when a run was, the best one first.
NAMES = ("timestamp_ms", "started_at", "started", "start_time", "datetime", "timestamp", "date", "time")
_CLOCK = re.compile(r"\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)([.,]\d{1,9})?\s?(Z|UTC|[+-]\d\d:?\d\d)?")
_NUMBER = re.compile(r"\d{9,19}(?:\.\d{1,9})?")
#: Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, of the years 2001 to 2100.
_FIRST_S, _LAST_S = 978_307_200, 4_102_444_800
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_BEFORE_1970 = 719_162


def moment_of(told: Mapping[str, str]) -> tuple[str, float] | None:
    """Return the clock and its milliseconds, of what is told by names in lower letters; None if nothing tells."""
    for name in NAMES:
        text = told.get(name, "").strip()
        if name == "date" and _CLOCK.fullmatch(beside := told.get("time", "").strip()):
            text = f"{text} {beside.zfill(5) if beside.count(':') == 1 else beside.rjust(8, '0')}"
        found = _of_stamp(text) or (None if name == "time" else _of_number(text))
        if found is not None:
            return found
    return None


def _of_number(text: str) -> tuple[str, float] | None:
    if not _NUMBER.fullmatch(text):
        return None
    for per_s in (1, 10**3, 10**6, 10**9):
        seconds = float(text) / per_s
        if _FIRST_S <= seconds < _LAST_S:
            return WALL, 1000 * seconds
    return None


def _of_stamp(text: str) -> tuple[str, float] | None:
    found = _STAMP.fullmatch(text)
    if found is None:
        return None
    day, clock, part, zone = found.groups()
    days, seconds = _days(*map(int, day.split("-"))), _seconds(*map(int, clock.split(":")))
    if days is None or seconds is None:
        return None
    ms = 1000.0 * (86_400 * days + seconds) + (1000 * float(f"0.{part[1:]}") if part else 0.0)
    if zone is None:
        return LOCAL, ms
    return WALL, ms - _offset_ms(zone)


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970, or none if the calendar has no such day."""
    if not (1 <= month <= 12 and 1 <= day <= _LENGTHS[month - 1] + (month == 2 and _is_leap(year))):
        return None
    before = year - 1
    leap_days = before // 4 - before // 100 + before // 400
    passed = sum(_LENGTHS[: month - 1]) + (month > 2 and _is_leap(year))
    return 365 * before + leap_days + passed + day - 1 - _DAYS_BEFORE_1970


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _seconds(hour: int, minute: int, second: int = 0) -> int | None:
    return 3600 * hour + 60 * minute + second if hour < 24 and minute < 60 and second < 60 else None


def _offset_ms(zone: str) -> float:
    if zone in ("Z", "UTC"):
        return 0.0
    sign = -1 if zone[0] == "-" else 1
    return sign * 60_000.0 * (60 * int(zone[1:3]) + int(zone[-2:]))
