# SPDX-License-Identifier: Apache-2.0
"""The result of a bisection of commits by verdict."""

from __future__ import annotations

from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.kit.commits import Commit

#: The side of half the difference on which a commit lies; `between` is about half, `unclear` undecided after all boots.
Standing = Literal["good", "bad", "between", "unclear"]
Why = Literal["found", "several steps", "untold", "unconfirmed", "spent"]


class BisectStep(msgspec.Struct, frozen=True, kw_only=True):
    """A tested commit.

    `standing` says whether the commit is good or bad after `runs` boots, and `value` is the median of these boots.
    `why` says why ktrial could not test the commit.
    """

    commit: Commit
    standing: Standing | None
    runs: int
    value: float | None
    why: str | None = None


class BisectAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a bisection. `suspects` is one commit if `why` is `found`.

    `effect` and `verdict` compare this commit with its parent; `ends` is the effect of BAD against GOOD. `confidence`
    covers all comparisons that led to the answer.
    """

    outcome: str
    good: str
    bad: str
    ends: Effect
    why: Why
    suspects: tuple[Commit, ...]
    steps: tuple[BisectStep, ...]
    effect: Effect | None
    verdict: Verdict | None
    confidence: float
    boots: int
