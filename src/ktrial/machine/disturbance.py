# SPDX-License-Identifier: Apache-2.0
"""Jobs that are due during a measurement and may disturb it.

The jobs come from `systemctl list-timers --all --output=json` (systemd 246 and later).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ktrial.kit.formats.tool_output import unreadable
from ktrial.kit.json_strict import decode_as

_Microseconds = Annotated[int, msgspec.Meta(ge=0)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """A systemd timer and the unit that it starts; `next_unix_us` is None if the timer is not due again."""

    unit: str
    activates: str
    next_unix_us: int | None


class _TimerRow(msgspec.Struct):
    unit: _Name
    activates: _Name
    next: _Microseconds | None


def read_list_timers(data: bytes, source: str) -> tuple[Timer, ...]:
    try:
        rows = decode_as(data, list[_TimerRow])
    except msgspec.DecodeError as error:
        raise unreadable(source, None, data.decode("utf-8", "replace"), f"a list of timers ({error})") from None
    return tuple(Timer(unit=row.unit, activates=row.activates, next_unix_us=row.next or None) for row in rows)


class Disturbance(msgspec.Struct, frozen=True, kw_only=True):
    """A timer that fires `due_s` seconds after the start, within the expected time; the command `stop` prevents it."""

    name: str
    due_s: float
    stop: str


class Quiet(msgspec.Struct, frozen=True, kw_only=True):
    """What ktrial inhibits while it measures (`held_off`: sleep, idle), jobs due meanwhile, and notes on failures."""

    held_off: tuple[str, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    notes: tuple[str, ...] = ()
