# SPDX-License-Identifier: Apache-2.0
"""Power: how many blocks a trial needs to detect an effect, and which effects it can detect."""

from __future__ import annotations

import msgspec


class PowerAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The effect to detect, the margin (if None, each outcome has its own), and the maximum number of blocks."""

    detect: float
    margin: float | None
    budget: int


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """The power of one outcome. `pairs` of successive runs stand for A/A blocks; if figures are null, `why` says why.

    `block_sd` is the spread of block differences on the log scale. `needed` blocks detect the effect with 90 % power,
    `needed_equivalent` blocks show that no effect exceeds the margin. `cap` is `needed`, rounded up to the next
    possible cap, if the budget allows it. `smallest_effect` is the smallest effect that `cap` blocks detect.
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
