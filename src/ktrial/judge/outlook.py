# SPDX-License-Identifier: Apache-2.0
"""An estimate of when a running trial will be decided, for people who wait; no decision depends on it."""

from __future__ import annotations

import math

from ktrial.judge.model.judgement import Judgement, OutcomeJudgement
from ktrial.judge.model.log import Protocol
from ktrial.judge.primary_verdict import log_margin, table_row
from ktrial.judge.sequential import FAST_BLOCKS, call, looks


def expected_stop(protocol: Protocol, judgement: Judgement) -> int | None:
    """Return how many blocks decide everything if estimates stay the same and intervals shrink as 1/sqrt(blocks).

    A counter or a race is decided at its cap. Return None if nothing is open, if an open comparison has no interval, or
    before the cap is planned.
    """
    rule = protocol.outcomes[protocol.primary]
    primaries = [one for one in judgement.judged if one.role == "primary"]
    deciding = [one for one in primaries if not one.placebo] or primaries
    undecided = [one for one in deciding if one.verdict is None]
    if judgement.cap is None or rule.scale == "count" or protocol.race or not undecided:
        return judgement.cap if undecided else None
    steps = [blocks for blocks in looks(judgement.cap, table_row(protocol)) if blocks > judgement.blocks]
    expected = [_expected(one, steps, judgement.cap, log_margin(rule)) for one in undecided]
    known = [one for one in expected if one is not None]
    return max(known) if len(known) == len(expected) else None


def _expected(judged: OutcomeJudgement, steps: list[int], cap: int, margin: float) -> int | None:
    effect = judged.effect
    if effect is None or effect.low is None or effect.high is None or judged.blocks == 0:
        return None
    if not (math.isfinite(effect.low) and math.isfinite(effect.high)):
        return None
    half = (effect.high - effect.low) / 2
    for blocks in steps:
        now = half * math.sqrt(judged.blocks / blocks)
        if call(effect.estimate - now, effect.estimate + now, margin) is not None:
            return blocks
    return cap


def deciding_blocks(protocol: Protocol, cap: int | None) -> frozenset[int]:
    """Return the numbers of blocks after which the primary outcome may be decided.

    Return an empty set for a race, or before the cap is planned.
    """
    if cap is None or protocol.race:
        return frozenset()
    if protocol.outcomes[protocol.primary].scale == "count":
        return frozenset((cap,))
    fast = {FAST_BLOCKS} if protocol.profile.get(protocol.primary) else set()
    return frozenset((*looks(cap, table_row(protocol)), *fast))
