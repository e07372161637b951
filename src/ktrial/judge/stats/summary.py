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
    minimum, maximum = float(kept[0]), float(kept[-1])
    # Squares of what is left are no larger than one, whatever the unit.
    unit = max(abs(minimum), abs(maximum)) or 1.0
    mean = float((finite / unit).mean()) * unit
    median = kept[(len(kept) - 1) // 2] / 2 + kept[len(kept) // 2] / 2
    sd = float((finite / unit).std(ddof=1)) * unit if len(finite) > 1 else None
    return Summary(
        n=len(finite),
        mean=mean,
        median=median,
        sd=sd,
        cv=None if sd is None else _share(sd, mean),
        minimum=minimum,
        maximum=maximum,
        spread=_share(maximum - minimum, median),
    )


def _share(size: float, middle: float) -> float | None:
    share = size / abs(middle) if middle else math.inf
    return share if math.isfinite(share) else None
