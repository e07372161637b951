# SPDX-License-Identifier: Apache-2.0
"""What a trial will cost and what it can see, before its first run."""

from __future__ import annotations

import msgspec


class TrialForecast(msgspec.Struct, frozen=True, kw_only=True):
    """Effects are relative: 0.05 is 5 %.

    `cap` blocks find `smallest_effect` with 90 % power; `wanted` would take `needed` blocks, which `affordable` is in
    the tables: null where it is more than they hold. `expected` is about the block where it ends if `wanted` is
    there. Seconds are null where nobody knows what a run takes.
    """

    wanted: float
    smallest_effect: float
    cap: int
    needed: int
    affordable: int | None
    expected: int
    cap_s: float | None = None
    expected_s: float | None = None
    affordable_s: float | None = None

    @property
    def sees_enough(self) -> bool:
        """Whether the effect that is wanted can be found within the cap."""
        return self.needed <= self.cap
