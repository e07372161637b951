# SPDX-License-Identifier: Apache-2.0
"""Verdicts, and the effect that a verdict is about."""

# Annotations are not put off: msgspec would compile each of them anew at every start.
from typing import Literal

import msgspec

#: Of fewer moments no order is rare enough to tell a change of level.
NEEDED = 10


#: `different` and `no difference seen` are of data that cannot tell the arm from another cause.
Verdict = Literal["better", "worse", "equivalent", "different", "no difference seen", "inconclusive", "not comparable"]
#: Whether a difference that is real also matters: the near end of its interval is beyond the margin, its estimate is.
WorthIt = Literal["yes", "likely", "unclear"]


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """How much better an arm is than the control: above zero is better, whichever way the outcome points.

    On the scale `log` it is the natural logarithm of the ratio of scores; on `difference`, where values may be zero or
    negative, the difference of scores in the outcome's unit. `low` and `high` are its interval at `confidence`, null
    where the data allow none. `method` names how it was estimated.
    """

    estimate: float
    low: float | None
    high: float | None
    confidence: float = 0.95
    scale: Literal["log", "difference"] = "log"
    method: str

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of no effect."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)
