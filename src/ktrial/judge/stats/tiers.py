# SPDX-License-Identifier: Apache-2.0
"""One tier against the one before it: in the blocks that both share, else by what each is to the control in its own."""

from __future__ import annotations

from ktrial.judge.observational_layout import Layout, Runs, lay_out
from ktrial.kit.finding import Finding

#: Blocks of a tier with the control, from which on their differences can stand for it.
FEWEST_BLOCKS = 2
NO_SHARED_BLOCK = "the two share no block: what differs between blocks would be counted to the arm"
NOT_COMPARABLE = "the two tiers were measured in different sessions, and the control is not in the blocks of both"
_GRAVEST = ("unknown", "sequence", "interleaved")


def lay_out_step(control: Runs, before: Runs, tier: Runs) -> Layout | None:
    """The layout of a step; None where nothing ties the two tiers together."""
    if None in (*before.blocks, *tier.blocks) or len(set(before.blocks) & set(tier.blocks)) >= FEWEST_BLOCKS:
        return lay_out(before, tier)
    of_before, of_tier = _to_control(control, before), _to_control(control, tier)
    if of_before is None or of_tier is None:
        return None
    sentence = "the two tiers share no blocks: each is taken by its difference to the control in its own blocks"
    return Layout(
        control=of_before.arm - of_before.control,
        arm=of_tier.arm - of_tier.control,
        unit="block difference",
        order=min(of_before.order, of_tier.order, key=_GRAVEST.index),
        confounded_by=of_before.confounded_by or of_tier.confounded_by,
        findings=(Finding(kind="through-control", level="note", sentence=sentence),),
        runs=(of_before.runs[1], of_tier.runs[1]),
    )


def _to_control(control: Runs, tier: Runs) -> Layout | None:
    """The tier in its blocks with the control, where there are enough of them."""
    if None in control.blocks or len(set(control.blocks) & set(tier.blocks)) < FEWEST_BLOCKS:
        return None
    found = lay_out(control, tier)
    return found if found is not None and found.blocked else None
