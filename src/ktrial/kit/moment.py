# SPDX-License-Identifier: Apache-2.0
"""Find out when a run in a foreign file took place. Ignore a date without a time of day: it does not order runs."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping

#: This clock may step, so it orders runs only if they share no better clock.
WALL = "wall"
#: A time of day without its zone: comparable only with other times of this kind.
LOCAL = "wall, zone not told"
#: Names that files use for the time of a run, best first.
NAMES = ("timestamp_ms", "started_at", "started", "start_time", "datetime", "timestamp", "date", "time")
_CLOCK = re.compile(r"\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)([.,]\d{1,9})?\s?(Z|UTC|[+-]\d\d:?\d\d)?")
_NUMBER = re.compile(r"\d{9,19}(?:\.\d{1,9})?")
#: A number is a time if it lies in the years 2001 to 2100, counted in seconds, ms, us or ns since 1970.
_FIRST_S, _LAST_S = 978_307_200, 4_102_444_800


def moment_of(texts: Mapping[str, str]) -> tuple[str, float] | None:
    """Return when a run took place: the clock (WALL or LOCAL) and its milliseconds; None if no text holds a time.

    `texts` maps the names of a row's columns, in lower case, to the cells.
    """
    for name in NAMES:
        text = texts.get(name, "").strip()
        if name == "date" and _CLOCK.fullmatch(beside := texts.get("time", "").strip()):
            text = f"{text} {beside.zfill(5) if beside.count(':') == 1 else beside.rjust(8, '0')}"
        moment = _of_stamp(text) or (None if name == "time" else _of_number(text))
        if moment is not None:
            return moment
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
    year, month, date = map(int, day.split("-"))
    hour, minute, second = (*map(int, clock.split(":")), 0)[:3]
    is_day = year and 1 <= month <= 12 and 1 <= date <= calendar.monthrange(year, month)[1]
    if not is_day or hour > 23 or minute > 59 or second > 59:
        return None
    ms = 1000.0 * calendar.timegm((year, month, date, hour, minute, second))
    ms += 1000 * float(f"0.{part[1:]}") if part else 0.0
    if zone is None:
        return LOCAL, ms
    return WALL, ms - _offset_ms(zone)


def _offset_ms(zone: str) -> float:
    if zone in ("Z", "UTC"):
        return 0.0
    sign = -1 if zone[0] == "-" else 1
    return sign * 60_000.0 * (60 * int(zone[1:3]) + int(zone[-2:]))
