# SPDX-License-Identifier: Apache-2.0
"""What a trial would need to see an effect, and what it can see at all."""

from __future__ import annotations

import msgspec


class PowerAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The effect that is worth finding, the margin (None: each outcome's own), and the blocks one is ready to spend."""

    detect: float
    margin: float | None
    budget: int


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome. `pairs` of successive runs stand for A/A blocks; the figures are null with the reason in `why`.

    `block_sd` is the spread of a block's difference on the log scale, to plan with. `needed` blocks find the effect
    with 90 % power, `needed_equivalent` show that there is none beyond the margin. `smallest_effect` is what `cap`
    blocks, the most that the budget allows of what is needed, find.
    """

    arm: str
    outcome: str
    pairs: int
    margin: float
    block_sd: float | None = None
    needed: int | None = None
    needed_equivalent: int | None = None
    cap: int | None = None
    smallest_effect: float | None = None
    why: str = ""
