# SPDX-License-Identifier: Apache-2.0
"""Verdicts and intervals that depend on runs excluded after they were measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktrial.judge.model.comparison import Comparison, Contrast
from ktrial.judge.model.verdict import Effect

_Differ = Callable[[Contrast | None, Contrast | None], bool]
#: An interval moves if an end shifts by more than this share of the wider interval's width.
MOVES = 0.25


def changed_verdicts(kept: Comparison, whole: Comparison) -> tuple[str, ...]:
    """Return the outcomes whose verdict differs when all runs are included."""
    return _names(kept, whole, lambda one, other: _verdict(one) != _verdict(other))


def moved_intervals(kept: Comparison, whole: Comparison) -> tuple[str, ...]:
    """Return the outcomes whose interval moves when all runs are included, even if the verdict stays."""
    return _names(kept, whole, lambda one, other: _moves(_effect(one), _effect(other)))


def dependence_words(verdicts: Sequence[str], intervals: Sequence[str]) -> str:
    alone = [name for name in intervals if name not in verdicts]
    told = f"verdicts that depend on it: {', '.join(verdicts)}" if verdicts else "no verdict depends on it"
    limit = f"more than {100 * MOVES:g} %"
    if alone:
        return f"{told}; intervals that move by {limit} of their width: {', '.join(alone)}"
    return told if verdicts else f"{told}, and no interval moves by {limit} of its width"


def _names(kept: Comparison, whole: Comparison, differ: _Differ) -> tuple[str, ...]:
    after, before = (
        {(one.name, each.arm, each.control): each for one in comparison.outcomes for each in one.judged}
        for comparison in (kept, whole)
    )
    keys = dict.fromkeys((*before, *after))
    return tuple(dict.fromkeys(key[0] for key in keys if differ(after.get(key), before.get(key))))


def _verdict(contrast: Contrast | None) -> str | None:
    return None if contrast is None else contrast.verdict


def _effect(contrast: Contrast | None) -> Effect | None:
    return None if contrast is None else contrast.effect


def _moves(one: Effect | None, other: Effect | None) -> bool:
    """Return whether two intervals differ clearly: their ends differ, or only one exists or contains zero."""
    ends, others = _ends(one), _ends(other)
    if ends is None or others is None:
        return (ends is None) != (others is None)
    width = max(ends[1] - ends[0], others[1] - others[0])
    far = max(abs(end - there) for end, there in zip(ends, others, strict=True))
    return far > MOVES * width or (ends[0] * ends[1] > 0) != (others[0] * others[1] > 0)


def _ends(effect: Effect | None) -> tuple[float, float] | None:
    if effect is None or effect.low is None or effect.high is None:
        return None
    return effect.low, effect.high
