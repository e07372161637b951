# SPDX-License-Identifier: Apache-2.0
"""What came of a bisection by verdict."""

from __future__ import annotations

from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.kit.commits import Commit

#: On which side of half the difference a commit lies; `between` is about half, `unclear` was not told by all boots.
Standing = Literal["good", "bad", "between", "unclear"]
Why = Literal["found", "several steps", "untold", "unconfirmed", "spent"]


class BisectStep(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that was looked at: where it stands, after how many boots, their median; or why it could not be told."""

    commit: Commit
    standing: Standing | None
    runs: int
    value: float | None
    why: str | None = None


class BisectAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`suspects` is one commit where `why` is `found`; `effect` and `verdict` are its own, against its parent.

    `ends` is what BAD is against GOOD. `confidence` is what the whole answer has: the error of all comparisons that
    were made for it, together.
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
