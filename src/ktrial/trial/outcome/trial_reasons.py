# SPDX-License-Identifier: Apache-2.0
"""Why a trial says what it says of an outcome, in a few words; and what it would take where it says nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ktrial.judge.model.judgement import Counter, Judged, Judgement
from ktrial.judge.model.log import Protocol

_WHYS: Mapping[str, str] = {
    "fast path": "the first four blocks left no doubt",
    "boundary": "its interval decided it",
    "holm": "its interval decided it, with all others of its role counted in",
    "e-value": "the evidence since the cap decided it",
    "counter": "its counts decided it",
    "failures": "its runs fail",
    "few-events": "its runs hold too few events for so far a percentile: longer runs, or another outcome",
    "open": "the trial has not decided it yet",
}
_GUARDS: Mapping[str, str] = {
    "holds": "the guard holds: surely not worse by more than {margin}",
    "broken": "the guard is broken: surely worse by more than {margin}",
    "open": "whether it is worse by more than {margin} is open",
}


def why(judged: Judged, protocol: Protocol, judgement: Judgement, ended: str | None) -> str:
    """What led to the verdict, and where there is none what it would take."""
    if judged.role == "exploratory":
        if judged.p is None or judged.p_adjusted is None:
            return "explored only: no verdict is given on it"
        return f"explored only, no verdict: p {judged.p:.2g}, {judged.p_adjusted:.2g} with all explored counted in"
    cap = judgement.cap
    parts = [_reason(judged, judgement, ended)]
    if judged.why == "ended" and judged.role != "primary":
        counts = protocol.outcomes[judged.outcome].scale == "count" and judged.counter is None
        looked = f"counts are looked at after all {cap or protocol.budget} blocks only; " if counts else ""
        parts.append(f"{looked}until_all_decided = true in the protocol's [design] would go on for it")
    if judged.guard is not None:
        parts.insert(0, _GUARDS[judged.guard].format(margin=_percent(protocol.outcomes[judged.outcome].margin)))
    if judged.counter is not None:
        parts.append(_counted(judged.counter, judged.blocks))
    if judged.needed is not None and judged.verdict == "inconclusive":
        parts.append(_needed(judged, judged.needed, protocol))
    return "; ".join(parts)


def _reason(judged: Judged, judgement: Judgement, ended: str | None) -> str:
    most = judgement.cap
    cap = f"the cap of {most} blocks" if most is not None else "the cap"
    if judged.why == "cap":
        return f"{cap} was reached"
    if judged.why == "futility":
        return f"given up after {judged.blocks} blocks: those up to {cap} would hardly have decided it"
    if judged.why == "ended":
        return f"the trial ended first: {ended}" if ended is not None else "the trial ended first"
    if judged.why == "check":
        refused = next((one for one in (*judged.findings, *judgement.findings) if one.level == "refuse"), None)
        return "a check refused it" if refused is None else f"refused: {refused.sentence}"
    return _WHYS.get(judged.why, judged.why)


def _needed(judged: Judged, needed: int, protocol: Protocol) -> str:
    """What the noise that was found here allows."""
    detect = _percent(protocol.detect)
    if needed > judged.blocks:
        return f"with this noise {needed} blocks would be needed to find a difference of {detect}"
    effect, far = judged.effect, math.log1p(protocol.detect)
    if effect is None or effect.low is None or effect.high is None or effect.low < -far or effect.high > far:
        return f"its interval still holds a difference of {detect}"
    margin = _percent(protocol.outcomes[judged.outcome].margin)
    return f"a difference of {detect} would probably have been found, whether one above {margin} is there stays open"


def _counted(counter: Counter, blocks: int) -> str:
    if counter.bound is not None:
        return f"none in either in {blocks} blocks: fewer than {counter.bound:.2g} events a block"
    totals = f"{counter.arm_total:.4g} against {counter.control_total:.4g}, summed over {blocks} blocks"
    means = f"{counter.arm_total / blocks:.3g} against {counter.control_total / blocks:.3g} a block"
    return (
        f"{totals}, or {means}; none in {counter.arm_zero_share:.0%} of them, against {counter.control_zero_share:.0%}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
