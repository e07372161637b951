# SPDX-License-Identifier: Apache-2.0
"""Verdicts, and the effect that a verdict is about."""

# No `from __future__ import annotations`: msgspec would evaluate every string annotation at each start.
from typing import Literal

import msgspec

#: With fewer values than this, chance alone explains any order, so none can show a change of level.
NEEDED = 10
#: `different` and `no difference seen` are for data that cannot separate the arm from other causes.
Verdict = Literal["better", "worse", "equivalent", "different", "no difference seen", "inconclusive", "not comparable"]
#: Whether a real difference also matters: `yes` if the end of its interval nearest zero exceeds the margin, `likely` if
#: only its estimate does.
WorthIt = Literal["yes", "likely", "unclear"]


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """How much better an arm is than the control: above zero is better, whatever the direction of the outcome.

    On the scale `log`, `estimate` is the natural logarithm of the ratio of scores. On the scale `difference`, for
    values that may be zero or negative, `estimate` is the difference of scores in the outcome's unit. `low` and `high`
    are the ends of the interval at `confidence`, null if the data allow no interval. `method` names the estimator.
    """

    estimate: float
    low: float | None
    high: float | None
    confidence: float = 0.95
    scale: Literal["log", "difference"] = "log"
    method: str

    @property
    def excludes_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)
