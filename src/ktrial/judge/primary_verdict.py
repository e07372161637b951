# SPDX-License-Identifier: Apache-2.0
"""The verdict on the primary outcome of one arm against another, before any validity check."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ktrial.judge.collect_log import Pairs
from ktrial.judge.model.judgement import Counter, EValues, Why
from ktrial.judge.model.log import OutcomeRule, Protocol
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.judge.sequential import (
    FAST_BLOCKS,
    Array,
    Decision,
    Rule,
    decide,
    hodges_lehmann,
    interval_at,
    row_of,
)
from ktrial.judge.stats import evalue
from ktrial.judge.stats.signflip import count_result, difference_interval

_SEQUENTIAL = "Hodges-Lehmann, group-sequential Walsh interval"
_FAST = "Hodges-Lehmann of four blocks, interval from the noise profile"
_OPEN_ENDED = "Hodges-Lehmann, interval by e-value"
_RATIO = "ratio of total rates, interval by sign flips"
_DIFFERENCE = "mean difference per block, interval by sign flips"


class OutcomeReading(NamedTuple):
    """The verdict from the numbers alone, before failures count. `blocks` is how many blocks the verdict rests on."""

    verdict: Verdict | None
    why: Why
    blocks: int
    effect: Effect | None
    counter: Counter | None = None


def log_margin(rule: OutcomeRule) -> float:
    return math.log1p(rule.margin)


def read_primary(protocol: Protocol, pairs: Pairs, cap: int | None) -> OutcomeReading:
    """Return the verdict on the primary outcome from its numbers. `cap` is None until it is planned."""
    rule = protocol.outcomes[protocol.primary]
    row = table_row(protocol)
    if rule.scale == "count":
        return read_counter(rule, pairs, protocol.alpha / protocol.comparisons, done=len(pairs.arm) >= (cap or 0))
    if cap is None:
        return _not_planned(pairs.differences)
    found = decide(pairs.differences, sequential_rule(protocol, pairs, cap))
    if protocol.extend and found.verdict == "inconclusive":
        return _extended(protocol, pairs.differences, found, row) or _of_decision(found, row)
    return _of_decision(found, row)


def table_row(protocol: Protocol) -> int:
    """Return the primary outcome's row in the tables; a trial that may be extended has half the error rate there."""
    return row_of(protocol.alpha, protocol.comparisons * (2 if protocol.extend else 1))


def sequential_rule(protocol: Protocol, pairs: Pairs, cap: int) -> Rule:
    rule = protocol.outcomes[protocol.primary]
    profile = None if protocol.pooled else protocol.profile.get(protocol.primary)
    return Rule(
        cap=cap,
        margin=log_margin(rule),
        row=table_row(protocol),
        comparisons=protocol.comparisons,
        profile=profile,
        resolution=_log_resolution(rule, pairs.against[:FAST_BLOCKS]),
    )


def _log_resolution(rule: OutcomeRule, scores: Array) -> float:
    """Return the resolution of the tool on the log scale, at the median of the control's scores."""
    if rule.resolution is None or not len(scores):
        return 0.0
    typical = math.exp(abs_score(float(np.median(scores)), rule))
    return math.log1p(rule.resolution / typical)


def abs_score(score: float, rule: OutcomeRule) -> float:
    """Return the number behind a score: the logarithm of the value, or the count."""
    return score if rule.direction == "higher" else -score


def _not_planned(differences: Array) -> OutcomeReading:
    if not len(differences):
        return OutcomeReading(None, "open", 0, None)
    effect = Effect(estimate=hodges_lehmann(differences), low=None, high=None, method=_SEQUENTIAL)
    return OutcomeReading(None, "open", len(differences), effect)


def _of_decision(found: Decision, row: int) -> OutcomeReading:
    effect = None
    if found.blocks:
        effect = Effect(
            estimate=found.estimate,
            low=found.low,
            high=found.high,
            confidence=_confidence(row),
            method=_FAST if found.why == "fast path" else _SEQUENTIAL,
        )
    return OutcomeReading(found.verdict, found.why, found.blocks, effect)


def _confidence(row: int) -> float:
    return 1 - 0.05 / row


def _extended(protocol: Protocol, differences: Array, ended: Decision, row: int) -> OutcomeReading | None:
    """Return what the e-value decides in the blocks after the cap, with half of the error rate; None if nothing."""
    margin = log_margin(protocol.outcomes[protocol.primary])
    # Each half rejects at 2/alpha, so the two-sided e-value is at least 1/alpha.
    bound = 2 * row / 0.05
    spread = evalue.scales(differences, protocol.profile.get(protocol.primary))
    for blocks in range(ended.blocks + 1, len(differences) + 1):
        seen, scale = differences[:blocks], spread[:blocks]
        zero = evalue.e_value(seen, scale)
        verdict: Verdict | None = None
        inside = evalue.e_value(seen, scale, -margin).above >= bound <= evalue.e_value(seen, scale, margin).below
        if inside:
            verdict = "equivalent"
        elif max(zero) >= bound:
            verdict = "better" if zero.above > zero.below else "worse"
        if verdict is not None:
            low, high = evalue.e_interval(seen, scale, bound) or (None, None)
            effect = Effect(
                estimate=hodges_lehmann(seen), low=low, high=high, confidence=_confidence(row), method=_OPEN_ENDED
            )
            return OutcomeReading(verdict, "e-value", blocks, effect)
    return None


def e_values(protocol: Protocol, differences: Array) -> EValues | None:
    """Return the e-values of the primary outcome's differences; None without differences.

    Anybody may multiply them by the e-values of other trials.
    """
    if not len(differences):
        return None
    margin = log_margin(protocol.outcomes[protocol.primary])
    scale = evalue.scales(differences, protocol.profile.get(protocol.primary))
    return EValues(
        no_difference=evalue.e_value(differences, scale).both,
        above_minus_margin=evalue.e_value(differences, scale, -margin).above,
        below_margin=evalue.e_value(differences, scale, margin).below,
    )


def read_counter(rule: OutcomeRule, pairs: Pairs, alpha: float, *, done: bool) -> OutcomeReading:
    """Return the verdict on a counter, which is judged only once, after all its blocks."""
    blocks = len(pairs.arm)
    if not done or not blocks:
        return OutcomeReading(None, "open", blocks, None)
    sign = 1.0 if rule.direction == "higher" else -1.0
    found = count_result(sign * pairs.against, sign * pairs.arm, alpha)
    effect = _count_effect(found, sign, pairs.differences, alpha)
    margin = 1 + rule.margin
    is_narrow = found.low is not None and found.high is not None and found.low > 1 / margin and found.high < margin
    if found.bound is not None or is_narrow:
        return OutcomeReading("equivalent", "counter", blocks, effect, found)
    if found.p > alpha:
        return OutcomeReading("inconclusive", "cap", blocks, effect, found)
    is_better = float(pairs.differences.sum()) > 0
    return OutcomeReading("better" if is_better else "worse", "counter", blocks, effect, found)


def _count_effect(found: Counter, sign: float, differences: Array, alpha: float) -> Effect:
    """Return the log ratio of rates or, if an arm has no event at all, the difference per block."""
    if found.ratio:
        ends = [sign * math.log(end) if end else None for end in (found.low, found.high)]
        low, high = ends if sign > 0 else ends[::-1]
        estimate = sign * math.log(found.ratio)
        return Effect(estimate=estimate, low=low, high=high, confidence=1 - alpha, method=_RATIO)
    low, high = difference_interval(differences, alpha) or (None, None)
    return Effect(
        estimate=float(differences.mean()),
        low=low,
        high=high,
        confidence=1 - alpha,
        scale="difference",
        method=_DIFFERENCE,
    )


def family_effect(differences: Array, cap: int, row: int) -> Effect | None:
    """Return the effect in one of several outcomes that share an error rate; None without differences.

    The interval is at the outcome's share of the rate, 0.05/row.
    """
    if not len(differences):
        return None
    low, high = interval_at(differences, cap, row) or (None, None)
    estimate = hodges_lehmann(differences)
    return Effect(estimate=estimate, low=low, high=high, confidence=_confidence(row), method=_SEQUENTIAL)
