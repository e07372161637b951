# SPDX-License-Identifier: Apache-2.0
"""Whether a machine was suspended between two moments."""

from __future__ import annotations

import math

from ktrial.kit.errors import BadInput

#: Two looks at the clocks differ by far less, and no machine falls asleep and wakes up within it.
SHORTEST_S = 0.1


def suspended_s(before_s: float, after_s: float) -> float:
    """Seconds of sleep between two readings of `slept_s`; 0 where they are the same but for the reading itself."""
    slept = after_s - before_s
    if not math.isfinite(slept) or slept <= -SHORTEST_S:
        raise BadInput(
            f"the time asleep went from {before_s} s to {after_s} s", hint="the readings are not of one boot, in order"
        )
    return slept if slept >= SHORTEST_S else 0.0
