# SPDX-License-Identifier: Apache-2.0
"""What one arm's values are like, without judging them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import numpy as np


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Of finite values only. `spread` is (maximum - minimum) / median; null where the median is zero, as is `cv`."""

    n: int
    mean: float
    median: float
    sd: float | None
    cv: float | None
    minimum: float
    maximum: float
    spread: float | None


def summarise(values: Iterable[float]) -> Summary | None:
    """None where no value is a number."""
    kept = sorted(value for value in values if math.isfinite(value))
    if not kept:
        return None
    finite = np.array(kept, dtype=np.float64)
    mean, median = float(finite.mean()), (kept[(len(kept) - 1) // 2] + kept[len(kept) // 2]) / 2
    sd = float(finite.std(ddof=1)) if len(finite) > 1 else None
    minimum, maximum = float(kept[0]), float(kept[-1])
    return Summary(
        n=len(finite),
        mean=mean,
        median=median,
        sd=sd,
        cv=sd / abs(mean) if sd is not None and mean else None,
        minimum=minimum,
        maximum=maximum,
        spread=(maximum - minimum) / abs(median) if median else None,
    )
