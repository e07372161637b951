# SPDX-License-Identifier: Apache-2.0
"""The verdict on one contrast of observational data, from its effect, its adjusted p and its layout."""

from __future__ import annotations

import msgspec

from ktrial.judge.model.comparison import Check
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.judge.observational_layout import Order
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a verdict depends on; `margin` and `resolution` are on the scale of the effect.

    `explored` says why there must be no verdict. If the units are stretches of time, `stretches` is their number in
    control and arm (`12+9`). `varies` says whether any two units differ.
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
    """Return the verdict, the reason in a few words, and the doubts about the layout."""
    findings = tuple(layout_doubts(case))
    if (obstacle := _obstacle(case)) is not None:
        return "inconclusive", obstacle, findings
    if (cause := _cause(case)) is not None:
        return *_observed_verdict(case, cause), findings
    if (doubt := _doubt(case)) is not None:
        return "inconclusive", doubt, findings
    if is_equivalent(case):
        below = ": a real difference, but smaller than the margin" if case.effect.excludes_zero else ""
        return "equivalent", f"the interval lies within the margin{below}", findings
    return "better" if case.effect.estimate > 0 else "worse", "the interval excludes zero", findings


def _obstacle(case: Case) -> str | None:
    """Return why no verdict is possible; None if a verdict is possible."""
    if case.floor_adjusted > case.alpha:
        return _too_small(case)
    if not is_equivalent(case) and case.effect.low == case.effect.high == 0:
        return _MOSTLY if case.varies else "all values are equal: a difference below the tool's resolution stays hidden"
    return case.explored


_NO_DIRECTION = "it is unknown whether higher or lower is better"
_MOSTLY = "most values are equal, so the typical values do not differ; rare values may"


def _cause(case: Case) -> str | None:
    """Return what forbids `better` or `worse`, such as another possible cause; None if nothing does."""
    if cause := _confounded(case):
        return cause
    return _NO_DIRECTION if case.direction is None and not is_equivalent(case) else None


def _observed_verdict(case: Case, cause: str) -> tuple[Verdict, str]:
    """Return a verdict on whether the two sets of runs differ, with its reason. It claims nothing about the cause."""
    if case.effect.low is None:
        return "inconclusive", f"there is no interval ({cause})"
    if not case.effect.excludes_zero:
        return "no difference seen", f"the interval includes zero ({cause})"
    if case.p_adjusted > case.alpha:
        return "no difference seen", f"{_chance(case)} ({cause})"
    return "different", cause if cause == _NO_DIRECTION else f"cause unknown: {cause}"


def _doubt(case: Case) -> str | None:
    """Return why these data decide nothing; None if they show a difference or equivalence."""
    if is_equivalent(case):
        return None
    if not case.effect.excludes_zero:
        return "the interval includes both zero and effects beyond the margin"
    return _chance(case) if case.p_adjusted > case.alpha else None


def _chance(case: Case) -> str:
    among = "" if case.family == 1 else f" among {case.family} comparisons"
    return f"a difference like this may be chance{among} (adjusted p = {case.p_adjusted:.2g})"


def is_equivalent(case: Case) -> bool:
    """Return whether the interval, widened by the tool's resolution, lies within the margin.

    An interval without width shows nothing unless the resolution is known.
    """
    low, high = case.effect.low, case.effect.high
    if low is None or high is None or (low == high and not case.resolution):
        return False
    return -case.margin < low - case.resolution and high + case.resolution < case.margin


def worth(effect: Effect, margin: float) -> WorthIt:
    """Return how surely a real difference also matters; `unclear` if the margin is 0, as for a control near 0."""
    if not margin:
        return "unclear"
    near = min(abs(effect.low or 0.0), abs(effect.high or 0.0)) if effect.excludes_zero else 0.0
    if near >= margin:
        return "yes"
    return "likely" if abs(effect.estimate) >= margin else "unclear"


def _too_small(case: Case) -> str:
    sentence = f"too few independent runs: the smallest p that they can reach is {case.floor:.2g}"
    if case.stretches is not None:
        sentence = f"consecutive runs are alike and form only {case.stretches} stretches of time: {sentence}"
    if case.floor <= case.alpha:
        return f"{sentence}, and {case.floor_adjusted:.2g} after correction for {case.family} comparisons"
    return f"{sentence}, above {case.alpha:g}"


def _confounded(case: Case) -> str | None:
    if case.confounded_by is not None:
        return f"{case.confounded_by} and arm are confounded"
    if case.order == "sequence":
        return "time and arm are confounded"
    return "the order in which the arms were measured is unknown" if case.order == "unknown" else None


_SEEN = "difference seen, cause not identified"
_WHY = {
    "sequence": "the arms were measured one after the other: whatever changed meanwhile is attributed to the arm",
    "unknown": "the order of the runs is unknown: the arms may not have been interleaved",
    "boot": "an arm ran in a single boot of its own: differences between boots are attributed to the arm",
    "machine": "an arm ran on one machine (or host name) of its own: differences between machines are attributed to it",
}
_KIND = {
    "sequence": "time-and-arm-confounded",
    "unknown": "order-unknown",
    "boot": "boot-and-arm-confounded",
    "machine": "machine-and-arm-confounded",
}


def layout_doubts(case: Case) -> list[Finding]:
    """Return a finding for each condition that the layout cannot separate from the arm."""
    found = []
    for what in (case.confounded_by, None if case.order == "interleaved" else case.order):
        if what is not None:
            seen = f"{_SEEN}: " if case.effect.excludes_zero else ""
            if seen and what == "sequence":
                seen = f"{_SEEN} (time and arm are confounded): "
            found.append(Finding(kind=_KIND[what], level="suspect", sentence=seen + _WHY[what]))
    return found


def order_check(order: Order) -> Check:
    holds = {"interleaved": True, "sequence": False, "unknown": None}[order]
    sentence = _WHY.get(order, "the arms were measured in turns")
    return Check(name="interleaved", holds=holds, value=None, sentence=sentence)
