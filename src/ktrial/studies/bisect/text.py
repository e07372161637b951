# SPDX-License-Identifier: Apache-2.0
"""The result of a bisection, as text and as JSON."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from ktrial.bench.guest_tools import EXACT_CLOCK
from ktrial.judge.model.bisect_answer import BisectAnswer
from ktrial.judge.model.verdict import Effect
from ktrial.kit.commits import Commit
from ktrial.kit.tables import paragraph, table

_SHORT = 12
_MOST_SUSPECTS = 10


def bisected_json(found: BisectAnswer) -> dict[str, Any]:
    """Return the result as `ktrial.kernel-bisect/1`."""
    return {"schema": "ktrial.kernel-bisect/1", **msgspec.to_builtins(found), "clock": EXACT_CLOCK}


def bisected_text(found: BisectAnswer, *, width: int) -> str:
    rows = [
        (
            step.commit.id[:_SHORT],
            step.commit.subject,
            step.standing or "untestable",
            str(step.runs),
            "-" if step.value is None else f"{step.value:.0f}" if abs(step.value) >= 1e6 else f"{step.value:g}",
        )
        for step in found.steps
    ]
    heads = ("commit", "", "side", "boots", found.outcome)
    parts = [table(heads, rows, width=width, whole=1)] if rows else []
    parts += [paragraph(f"{step.commit.id[:_SHORT]}: {step.why}", width=width) for step in found.steps if step.why]
    parts += [paragraph(text, width=width) for text in (_ends(found), _answer(found))]
    if found.why in ("untold", "spent"):
        shown = found.suspects[:_MOST_SUSPECTS]
        parts.append("\n".join(f"  {_commit_name(commit)}" for commit in shown))
    parts.append(paragraph(EXACT_CLOCK, width=width))
    return "\n\n".join(parts) + "\n"


def _ends(found: BisectAnswer) -> str:
    return f"{found.outcome} is {_change(found.ends)} at BAD than at GOOD ({found.boots} boots in all)."


def _answer(found: BisectAnswer) -> str:
    suspects = found.suspects
    first = _commit_name(suspects[0])
    if found.why == "found" and found.effect is not None:
        share = found.effect.estimate / found.ends.estimate
        return (
            f"{first} is the first bad commit: {found.outcome} is {_change(found.effect)} with it than with its "
            f"parent, {share:.0%} of the whole difference. At most {1 - found.confidence:.1%} of searches "
            "name a wrong commit."
        )
    if found.why == "several steps":
        middle = found.steps[-1].commit.id[:_SHORT]
        return (
            f"No single commit makes the difference: {middle} lies between good and bad. Bisect the commits up to it "
            "and those after it separately."
        )
    if found.why == "unconfirmed":
        return (
            f"All measurements lead to {first}, but it does not differ clearly from its parent, so ktrial names no "
            "commit. Perhaps something else changed with it, as in a merge."
        )
    count = len(suspects)
    why = "ktrial could not test those between" if found.why == "untold" else "the error rate allows no more tests"
    return f"The first bad commit is one of these {count}; {why}:"


def _change(effect: Effect) -> str:
    """Return the change of the outcome as `5.0% less (3.0% to 7.0%)`."""

    def percent(score: float) -> str:
        return f"{abs(math.expm1(-score)):.1%}"

    word = "less" if effect.estimate > 0 else "more"
    ends = "" if effect.low is None or effect.high is None else f" ({percent(effect.low)} to {percent(effect.high)})"
    return f"{percent(effect.estimate)} {word}{ends}"


def _commit_name(commit: Commit) -> str:
    return f"{commit.id[:_SHORT]} {commit.subject}".strip()
