# SPDX-License-Identifier: Apache-2.0
"""An estimate with its interval."""

from __future__ import annotations

import msgspec


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate and its 95 % interval, whose ends are None if there are too few data."""

    estimate: float
    low: float | None = None
    high: float | None = None
