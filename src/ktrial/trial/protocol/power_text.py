# SPDX-License-Identifier: Apache-2.0
"""Plans of trials as text."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.judge.model.power import Power, PowerAsked
from ktrial.kit.tables import paragraph, table


def power_text(found: Sequence[Power], asked: PowerAsked, *, width: int) -> str:
    """Return what each outcome needs, and what the budget can see."""
    detect = f"{100 * asked.detect:g} %"
    head = (
        f"Blocks that a trial needs to detect {detect} with 90 % power, and to show that no difference exceeds the "
        f"margin; then what up to {asked.budget} blocks can detect. A block is one visit to every arm."
    )
    several = len({one.arm for one in found}) > 1
    names = [f"{one.arm} {one.outcome}" if several else one.outcome for one in found]
    rows = [(name, *_row(one)) for name, one in zip(names, found, strict=True)]
    headers = ("outcome", "pairs", "noise", f"to find {detect}", "to show equal", "seen at least")
    parts = [paragraph(head, width=width), table(headers, rows, width=width)]
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.why:
            reasons.setdefault(one.why, []).append(one.outcome)
    parts += [
        paragraph(f"{'all' if len(told) == len(found) > 1 else ', '.join(told)}: {why}", width=width)
        for why, told in reasons.items()
    ]
    beyond = [one for one in found if one.needed is not None and one.cap is not None and one.needed > one.cap]
    if beyond:
        parts.append(
            paragraph(
                f"{asked.budget} blocks cannot detect {detect} in {len(beyond)} of {len(found)} outcomes. "
                "Longer runs, pinned CPUs, a quieter machine or another outcome have less noise.",
                width=width,
            )
        )
    return "\n\n".join(parts) + "\n"


def _row(one: Power) -> tuple[str, ...]:
    if one.block_sd is None or one.smallest_effect is None:
        return (str(one.pairs), "-", "-", "-", "-")
    return (
        str(one.pairs) if one.pairs else "-",
        f"{100 * one.block_sd:.2g} %",
        str(one.needed),
        f"{one.needed_equivalent} ({100 * one.margin:g} %)",
        f"{100 * one.smallest_effect:.2g} % in {one.cap}",
    )
