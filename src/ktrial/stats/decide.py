# SPDX-License-Identifier: Apache-2.0
"""The verdict on one contrast of other people's data, from its effect, its adjusted p and its layout."""

from __future__ import annotations

import msgspec

from ktrial.domain.benchmark import Direction
from ktrial.domain.comparison import Role
from ktrial.domain.finding import Finding
from ktrial.domain.verdict import Effect, Verdict, WorthIt
from ktrial.stats.layout import Order


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that a verdict depends on. `margin` is on the scale of the effect. `resolution` is on that scale too."""

    effect: Effect
    p_adjusted: float
    floor: float
    floor_adjusted: float
    family: int
    margin: float
    resolution: float
    alpha: float
    direction: Direction | None
    role: Role
    judged: bool
    order: Order
    confounded_by: str | None


def decide(case: Case) -> tuple[Verdict, str, tuple[Finding, ...]]:
    """The verdict, why in a few words, and the doubts that the layout leaves."""
    findings = (*layout_doubts(case),)
    if case.floor_adjusted > case.alpha:
        return "inconclusive", _too_small(case), findings
    if case.direction is None:
        return "inconclusive", "which way is better is not known", findings
    if not case.judged:
        return "inconclusive", "exploratory: only the outcomes that were named beforehand are judged", findings
    if is_equivalent(case):
        real = ", real but below the margin" if case.effect.excludes_zero else ""
        return "equivalent", f"the interval lies within the margin{real}", findings
    if not case.effect.excludes_zero:
        return "inconclusive", "the interval holds both no effect and one beyond the margin", findings
    if doubt := _confounded(case):
        return "inconclusive", f"difference seen, cause not identified ({doubt})", findings
    if case.p_adjusted > case.alpha:
        why = f"of {case.family} comparisons one like this is expected by chance (adjusted p = {case.p_adjusted:.2g})"
        return "inconclusive", why, findings
    better = case.effect.estimate > 0
    return "better" if better else "worse", "the interval excludes no effect", findings


def is_equivalent(case: Case) -> bool:
    """Whether the interval, widened by the step of the tool, is inside the margin; one without width tells nothing."""
    low, high = case.effect.low, case.effect.high
    if low is None or high is None or (low == high and not case.resolution):
        return False
    return -case.margin < low - case.resolution and high + case.resolution < case.margin


def worth(effect: Effect, margin: float) -> WorthIt:
    """Whether a difference that is real also matters."""
    near = min(abs(effect.low or 0.0), abs(effect.high or 0.0)) if effect.excludes_zero else 0.0
    if near >= margin:
        return "yes"
    return "likely" if abs(effect.estimate) >= margin else "unclear"


def _too_small(case: Case) -> str:
    sentence = f"the smallest p that this layout can reach is {case.floor:.2g}"
    if case.floor <= case.alpha:
        return f"{sentence}, and {case.floor_adjusted:.2g} after correction for {case.family} comparisons"
    return f"{sentence}, above {case.alpha:g}"


def _confounded(case: Case) -> str | None:
    if case.confounded_by is not None:
        return f"{case.confounded_by} and arm are confounded"
    if case.order == "sequence":
        return "time and arm are confounded"
    return "in which order the arms were measured is not known" if case.order == "unknown" else None


_WHY = {
    "sequence": "the arms were measured one after the other: whatever changed meanwhile is counted to the arm",
    "unknown": "the order of the runs is not known: whether the arms were interleaved cannot be told",
    "boot": "an arm has a single boot of its own: what differs between boots is counted to the arm",
    "machine": "an arm has a single machine of its own: what differs between machines is counted to the arm",
    "block": "the arms share no block: what differs between blocks is counted to the arm",
}
_KIND = {
    "sequence": "time-and-arm-confounded",
    "unknown": "order-unknown",
    "boot": "boot-and-arm-confounded",
    "machine": "machine-and-arm-confounded",
    "block": "block-and-arm-confounded",
}


def layout_doubts(case: Case) -> list[Finding]:
    """What keeps the layout from telling the arm from something else."""
    found = []
    for what in (case.confounded_by, None if case.order == "interleaved" else case.order):
        if what is not None:
            seen = "difference seen, cause not identified: " if case.effect.excludes_zero else ""
            if seen and what == "sequence":
                seen = "difference seen, cause not identified (time and arm are confounded): "
            found.append(Finding(kind=_KIND[what], level="suspect", sentence=seen + _WHY[what]))
    return found
