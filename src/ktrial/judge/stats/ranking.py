# SPDX-License-Identifier: Apache-2.0
"""All pairs of several arms, for a ranking from a fixed number of random blocks, with one look."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from ktrial.judge.model.comparison import Pair, Pairwise
from ktrial.judge.model.verdict import Effect
from ktrial.judge.sequential import ALPHA, Array, block_differences
from ktrial.judge.stats.blocked import one_look, signed_rank_p
from ktrial.judge.stats.multiplicity import blocked_floor, holm
from ktrial.kit.errors import BadInput


def all_pairs(scores: Mapping[str, Array], alpha: float = ALPHA) -> Pairwise:
    """Compare every two arms by the exact signed-rank test with Holm's correction.

    `scores` are by block, larger is better. Intervals are at alpha divided by the number of pairs. Raises BadInput if
    there are too few blocks to distinguish any pair.
    """
    pairs = list(combinations(scores, 2))
    counts = {len(values) for values in scores.values()}
    if not pairs or len(counts) != 1:
        raise BadInput("a ranking needs at least two arms, all of them in every block")
    blocks = counts.pop()
    if blocked_floor(blocks) * len(pairs) > alpha:
        raise BadInput(
            f"{blocks} blocks cannot decide {len(pairs)} pairs",
            hint="use more blocks, or compare only with the control",
        )
    differences = [block_differences(scores[first], scores[second]) for first, second in pairs]
    p_values = [signed_rank_p(values) for values in differences]
    found = [
        Pair(
            first=first,
            second=second,
            effect=_effect(values, alpha / len(pairs)),
            statistic=p,
            p_adjusted=adjusted,
            differs=adjusted <= alpha,
        )
        for (first, second), values, p, adjusted in zip(pairs, differences, p_values, holm(p_values), strict=True)
    ]
    return Pairwise(method="exact signed rank in blocks, Holm", statistic="p", pairs=tuple(found))


def _effect(differences: Array, alpha: float) -> Effect:
    interval = one_look(differences, alpha)
    assert interval is not None
    estimate, low, high = interval
    return Effect(estimate=estimate, low=low, high=high, confidence=1 - alpha, method="Hodges-Lehmann, Walsh interval")
