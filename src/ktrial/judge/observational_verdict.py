# SPDX-License-Identifier: Apache-2.0
"""The verdict on one contrast of other people's data, from its effect, its adjusted p and its layout."""

from __future__ import annotations

import msgspec

from ktrial.judge.model.comparison import Check
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.judge.observational_layout import Order
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that a verdict depends on; `margin` and `resolution` are on the scale of the effect.

    `explored` says why there is to be no verdict. `stretches` counts the units where these are stretches of time,
    and `varies` says whether any two of them differ.
    """

    effect: Effect
    p_adjusted: float
    floor: float
    floor_adjusted: float
    family: int
    margin: float
    resolution: float
    alpha: float
    direction: Direction | None
    explored: str | None
    order: Order
    confounded_by: str | None
    stretches: str | None = None
    varies: bool = False


def decide(case: Case) -> tuple[Verdict, str, tuple[Finding, ...]]:
    """Return the verdict, why in a few words, and the doubts that the layout leaves."""
    findings = tuple(layout_doubts(case))
    if (obstacle := _obstacle(case)) is not None:
        return "inconclusive", obstacle, findings
    if (cause := _cause(case)) is not None:
        return *_observed_verdict(case, cause), findings
    if (doubt := _doubt(case)) is not None:
        return "inconclusive", doubt, findings
    if is_equivalent(case):
        below = ": real, but below it" if case.effect.excludes_zero else ""
        return "equivalent", f"the interval lies within the margin{below}", findings
    return "better" if case.effect.estimate > 0 else "worse", "the interval does not hold zero", findings


def _obstacle(case: Case) -> str | None:
    """Return why nothing can be said whatever the data."""
    if case.floor_adjusted > case.alpha:
        return _too_small(case)
    if not is_equivalent(case) and case.effect.low == case.effect.high == 0:
        return _MOSTLY if case.varies else "nothing varies: a difference below the tool's step would not be seen"
    return case.explored


_NO_DIRECTION = "which way is better is not known"
_MOSTLY = "so many values are equal that what is typical does not differ; it tells nothing of what is rare"


def _cause(case: Case) -> str | None:
    """Return why a difference, or none, may not be the arm's doing."""
    if cause := _confounded(case):
        return cause
    return _NO_DIRECTION if case.direction is None and not is_equivalent(case) else None


def _observed_verdict(case: Case, cause: str) -> tuple[Verdict, str]:
    """Return what is true of the two sets of runs, whatever the cause."""
    if case.effect.low is None:
        return "inconclusive", f"there is no interval ({cause})"
    if not case.effect.excludes_zero:
        return "no difference seen", f"the interval holds zero ({cause})"
    if case.p_adjusted > case.alpha:
        return "no difference seen", f"{_chance(case)} ({cause})"
    return "different", cause if cause == _NO_DIRECTION else f"cause open: {cause}"


def _doubt(case: Case) -> str | None:
    """Return why these data tell neither better from worse nor that both are equal."""
    if is_equivalent(case):
        return None
    if not case.effect.excludes_zero:
        return "the interval holds both zero and effects beyond the margin"
    return _chance(case) if case.p_adjusted > case.alpha else None


def _chance(case: Case) -> str:
    among = "" if case.family == 1 else f" among {case.family} comparisons"
    return f"a difference like this may be chance{among} (adjusted p = {case.p_adjusted:.2g})"


def is_equivalent(case: Case) -> bool:
    """Whether the interval, widened by the step of the tool, is inside the margin; one without width tells nothing."""
    low, high = case.effect.low, case.effect.high
    if low is None or high is None or (low == high and not case.resolution):
        return False
    return -case.margin < low - case.resolution and high + case.resolution < case.margin


def worth(effect: Effect, margin: float) -> WorthIt:
    """Whether a difference that is real also matters; a margin of nothing (of a control around 0) tells it of none."""
    if not margin:
        return "unclear"
    near = min(abs(effect.low or 0.0), abs(effect.high or 0.0)) if effect.excludes_zero else 0.0
    if near >= margin:
        return "yes"
    return "likely" if abs(effect.estimate) >= margin else "unclear"


def _too_small(case: Case) -> str:
    sentence = f"too few independent runs to tell: the smallest p that they can reach is {case.floor:.2g}"
    if case.stretches is not None:
        sentence = f"runs are alike over so long that they are {case.stretches} stretches of time: {sentence}"
    if case.floor <= case.alpha:
        return f"{sentence}, and {case.floor_adjusted:.2g} after correction for {case.family} comparisons"
    return f"{sentence}, above {case.alpha:g}"


def _confounded(case: Case) -> str | None:
    if case.confounded_by is not None:
        return f"{case.confounded_by} and arm are confounded"
    if case.order == "sequence":
        return "time and arm are confounded"
    return "in which order the arms were measured is not known" if case.order == "unknown" else None


_SEEN = "difference seen, cause not identified"
_WHY = {
    "sequence": "the arms were measured one after the other: whatever changed meanwhile is counted to the arm",
    "unknown": "the order of the runs is not known: whether the arms were interleaved cannot be told",
    "boot": "an arm has a single boot of its own: what differs between boots is counted to the arm",
    "machine": "an arm has a machine or host name of its own alone: what differs between machines is counted to it",
}
_KIND = {
    "sequence": "time-and-arm-confounded",
    "unknown": "order-unknown",
    "boot": "boot-and-arm-confounded",
    "machine": "machine-and-arm-confounded",
}


def layout_doubts(case: Case) -> list[Finding]:
    """Return what keeps the layout from telling the arm from something else."""
    found = []
    for what in (case.confounded_by, None if case.order == "interleaved" else case.order):
        if what is not None:
            seen = f"{_SEEN}: " if case.effect.excludes_zero else ""
            if seen and what == "sequence":
                seen = f"{_SEEN} (time and arm are confounded): "
            found.append(Finding(kind=_KIND[what], level="suspect", sentence=seen + _WHY[what]))
    return found


def order_check(order: Order) -> Check:
    """Return whether time and arm were kept apart."""
    sentence = {
        "interleaved": "the arms were measured in turns",
        "sequence": _WHY["sequence"],
        "unknown": _WHY["unknown"],
    }
    holds = {"interleaved": True, "sequence": False, "unknown": None}[order]
    return Check(name="interleaved", holds=holds, value=None, sentence=sentence[order])
