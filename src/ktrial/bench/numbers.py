# SPDX-License-Identifier: Apache-2.0
"""A column of numbers: one unit and the same number of decimals, so that the decimal points align."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from ktrial.bench.text import scale_for
from ktrial.kit.outcome import Unit

_DIGITS = 4


class NumberColumn(msgspec.Struct, frozen=True):
    """The unit and the number of decimals of a column; `factor` is the size of the unit in base units."""

    factor: float
    unit: str
    decimals: int

    def show(self, value: float | None) -> str:
        """Return the value in the column's unit; a dash for None."""
        return "-" if value is None else f"{value / self.factor:.{self.decimals}f}"


def column(values: Iterable[float], unit: Unit) -> NumberColumn:
    """Return the unit and decimals that show a typical value with four digits; no decimals for whole values."""
    sizes = sorted(abs(value) for value in values)
    typical = sizes[len(sizes) // 2] or sizes[-1] if sizes else 0.0
    factor, name = scale_for(typical, unit)
    shown = typical / factor
    decimals = 0 if shown == 0 else max(0, min(9, _DIGITS - 1 - math.floor(math.log10(shown))))
    whole = bool(sizes) and all(size / factor == int(size / factor) for size in sizes)
    return NumberColumn(factor, name or unit, 0 if whole else decimals)
