# SPDX-License-Identifier: Apache-2.0
"""Decides when a live trial may begin a block: not in quiet hours, within its limit of switches, spread over time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from ktrial.trial.protocol.live import DAY_S, QuietHours

#: A slot is longer than a period by at least these seconds, and by this share, which is the time to store the data.
_GAP_S, _GAP_SHARE = 1.0, 0.05


def slot_seconds(period_s: float) -> float:
    """Return the seconds from one period's start to the next, if several machines begin their periods together."""
    return period_s + max(_GAP_S, _GAP_SHARE * period_s)


def until_slot_s(now_ms: float, slot_s: float) -> float:
    """Return the seconds until the next slot. Slots begin at multiples of their length since 1970."""
    return -(now_ms / 1000) % slot_s


class HoldUp(NamedTuple):
    """A reason not to begin a block now. After `left_s` seconds at the latest, the reason is gone."""

    why: str
    left_s: float


class LivePace:
    """Decides when a block may begin. A block takes `block_s` seconds and makes up to `block_switches` switches.

    With `spread_s`, block n begins no earlier than (n - 1) * `spread_s` seconds after `started_ms`.
    """

    def __init__(
        self,
        block_s: float,
        block_switches: int,
        *,
        quiet: QuietHours | None = None,
        switches: int | None = None,
        spread_s: float | None = None,
        started_ms: int = 0,
        switched_ms: Iterable[int] = (),
    ) -> None:
        self.block_s = block_s
        self._block_switches = block_switches
        self._quiet = quiet
        self._switches = switches
        self._spread_s = spread_s
        self._started_ms = started_ms
        self._switched_ms = list(switched_ms)

    def switched(self, now_ms: int) -> None:
        if self._switches is not None:
            self._switched_ms = [*(one for one in self._switched_ms if one > now_ms - 1000 * DAY_S), now_ms]

    def hold_up(self, now_ms: int, blocks: int) -> HoldUp | None:
        """Return why the next block must wait, or None if it may begin; `blocks` is the number of complete blocks."""
        reasons = (self._quiet_hours(now_ms), self._budget(now_ms), self._spread(now_ms, blocks))
        return max((one for one in reasons if one is not None), key=lambda one: one.left_s, default=None)

    def _quiet_hours(self, now_ms: int) -> HoldUp | None:
        if self._quiet is None:
            return None
        now_s = second_of_day(now_ms)
        if left_s := self._quiet.left_s(now_s):
            return HoldUp(f"quiet hours until {_clock(now_ms, left_s)}", left_s)
        until_s = self._quiet.until_s(now_s)
        if until_s >= self.block_s:
            return None
        left_s = until_s + self._quiet.length_s
        why = f"quiet hours begin before a block would be over; waiting until {_clock(now_ms, left_s)}"
        return HoldUp(why, left_s)

    def _budget(self, now_ms: int) -> HoldUp | None:
        if self._switches is None:
            return None
        recent = sorted(one for one in self._switched_ms if one > now_ms - 1000 * DAY_S)
        over = len(recent) + self._block_switches - max(self._switches, self._block_switches)
        if over <= 0:
            return None
        left_s = (recent[over - 1] - now_ms) / 1000 + DAY_S
        used = f"{len(recent)} of {self._switches} switches in 24 hours are used up"
        return HoldUp(f"{used}; waiting until {_clock(now_ms, left_s)}", left_s)

    def _spread(self, now_ms: int, blocks: int) -> HoldUp | None:
        if self._spread_s is None:
            return None
        left_s = (self._started_ms - now_ms) / 1000 + blocks * self._spread_s
        return HoldUp(f"the next block begins at {_clock(now_ms, left_s)}", left_s) if left_s > 0 else None


def _clock(now_ms: int, left_s: float) -> str:
    """Return the local time of a future moment, with its day if the moment is not soon."""
    return time.strftime("%H:%M" if left_s < DAY_S / 2 else "%a %H:%M", time.localtime(now_ms / 1000 + left_s))


def second_of_day(now_ms: int) -> float:
    """Return the seconds since midnight, local time."""
    told = time.localtime(now_ms / 1000)
    return 3600.0 * told.tm_hour + 60.0 * told.tm_min + told.tm_sec + now_ms % 1000 / 1000
